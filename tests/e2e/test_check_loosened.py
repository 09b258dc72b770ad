"""A change that loosens a limit and uses it is refused; the next change may use a limit that is loosened."""

from __future__ import annotations

import shutil

import pytest

from tests.conftest import ROOT, Checkout
from tests.e2e.test_check import change, git_of, rule_of
from tests.e2e.test_check import repository as fork

__all__ = ["fork"]

pytestmark = pytest.mark.xdist_group("e2e")

BEFORE = "by the limits before the change"
NODES = "capacity: { on_demand: { min: 0, max: 2, desired: 1 } }"
SPEND = (
    ("instance_types: [g6e.2xlarge]", "instance_types: [p5.48xlarge]"),
    (NODES, "capacity: { on_demand: { min: 2, max: 2, desired: 2 } }"),
)
RACKS = ("price: 0.11 USD/kWh }", "price: 0.02 USD/kWh }")
EXEMPTION = """\
exemptions:
- { rule: budget-monthly, resource: stack, reason: soon, approver: me, expires: 2026-12-31 }
"""
LOOSENED = {
    "a raised cap": (("monthly: 60000 USD", "monthly: 600000 USD"),),
    "a disabled rule": (("software:", "policies: { budget-monthly: { enforcement: disabled } }\nsoftware:"),),
    "an exemption": (("software:", EXEMPTION + "software:"),),
}


@pytest.fixture
def repository(fork: Checkout) -> Checkout:
    """The fork with the rule budget-monthly."""
    rule = "policies/rules/budget/budget_monthly.py"
    shutil.copy(ROOT / rule, fork.root / rule)
    git_of(fork).commit("budget")
    return fork


@pytest.mark.parametrize("how", LOOSENED)
def test_change_that_loosens_a_limit_and_spends_is_refused_until_it_is_in_the_base(
    repository: Checkout, how: str
) -> None:
    change(repository, *LOOSENED[how])
    allowed = repository.json("check", "tiny", "--base", "HEAD")
    assert allowed["verdict"] == "pass"
    change(repository, *SPEND)
    refused = repository.json("check", "tiny", "--base", "HEAD", code=1)
    found = [
        each for each in rule_of(refused, "budget-monthly")["violations"] if each["effect"] == "mandatory"
    ]
    assert len(found) == 1
    assert BEFORE in found[0]["message"]
    assert "60000 USD" in found[0]["message"]
    assert "a change of its own" in found[0]["remedy"]
    # In two changes it passes.
    spent = (repository.root / "stacks/tiny/fleet.yaml").read_text()
    change(repository, *((new, old) for old, new in SPEND))
    git_of(repository).commit("loosened")
    (repository.root / "stacks/tiny/fleet.yaml").write_text(spent)
    assert repository.json("check", "tiny", "--base", "HEAD")["verdict"] == "pass"


@pytest.fixture
def guarded(repository: Checkout) -> Checkout:
    """The fork with the rule guardrails-loosened, too."""
    for name in ("guardrails_loosened.py", "__init__.py"):
        rule = f"policies/rules/change_safety/{name}"
        shutil.copy(ROOT / rule, repository.root / rule)
    git_of(repository).commit("guard")
    return repository


@pytest.mark.parametrize(
    ("what", "field"),
    [
        (LOOSENED["a raised cap"], "budget"),
        ((RACKS,), "onprem"),
        (LOOSENED["a disabled rule"], "policies.budget-monthly"),
        (LOOSENED["an exemption"], "exemptions"),
    ],
)
def test_loosened_limit_is_named(guarded: Checkout, what: tuple[tuple[str, str], ...], field: str) -> None:
    change(guarded, *what)
    named = rule_of(guarded.json("check", "tiny", "--base", "HEAD"), "guardrails-loosened")
    assert named["status"] == "advisory"
    assert f"loosens {field}" in named["violations"][0]["message"]


@pytest.mark.parametrize("what", [LOOSENED["a raised cap"], (RACKS,)])
def test_no_change_loosens_a_limit_where_the_rule_is_mandatory(
    guarded: Checkout, what: tuple[tuple[str, str], ...]
) -> None:
    mandatory = "policies: { guardrails-loosened: { enforcement: mandatory } }"
    change(guarded, ("software:", f"{mandatory}\nsoftware:"))
    git_of(guarded).commit("strict")
    change(guarded, *what, (mandatory, ""))
    refused = guarded.json("check", "tiny", "--base", "HEAD", code=1)
    assert rule_of(refused, "guardrails-loosened")["status"] == "failed"


def test_cheaper_racks_pay_for_no_cloud_in_the_same_change(repository: Checkout) -> None:
    change(repository, ("monthly: 60000 USD", "monthly: 6000 USD"))
    git_of(repository).commit("tight")
    change(
        repository, RACKS, (NODES, NODES.replace("min: 0, max: 2, desired: 1", "min: 3, max: 3, desired: 3"))
    )
    refused = repository.json("check", "tiny", "--base", "HEAD", code=1)
    (found,) = rule_of(refused, "budget-monthly")["violations"]
    assert BEFORE in found["message"]
