"""A new environment of every template from `gpufleet init`: the next commands of a user succeed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.conftest import Checkout, make_checkout

pytestmark = pytest.mark.xdist_group("e2e-templates")

# Rules depend on names: some know dev and prod, and AWS truncates. tests/unit validates every pair;
# a preview takes seconds, and each template and each name has one here.
TODAY = {"GPUFLEET_POLICY_NOW": "2026-11-24T12:00:00+00:00"}  # support of versions ends at some date
JUDGED = (
    ("sandbox", "prod"),
    ("cloud", "dev"),
    ("hybrid", "an-environment-of-24-let"),
    ("onprem", "prod"),
)
BROUGHT_UP = (
    ("sandbox", "site7-2nd"),
    ("cloud", "prod"),
    ("hybrid", "dev"),
    ("onprem", "an-environment-of-24-let"),
)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """A checkout whose environments have been removed."""
    made = make_checkout(tmp_path_factory.mktemp("checkout"))
    stacks = made.root / "stacks"
    for shipped in ("dev", "prod", "sandbox"):
        shutil.rmtree(stacks / shipped)
        (stacks / f"Pulumi.{shipped}.yaml").unlink()
    yield made
    made.run("sandbox", "stop")


def _write(checkout: Checkout, name: str, template: str) -> None:
    """A new environment instead of that of an earlier test."""
    shutil.rmtree(checkout.root / "stacks" / name, ignore_errors=True)
    (checkout.root / "stacks" / f"Pulumi.{name}.yaml").unlink(missing_ok=True)
    checkout.json("init", name, "--template", template)


@pytest.mark.parametrize(("template", "name"), JUDGED)
def test_files_from_init_break_no_rule(empty: Checkout, template: str, name: str) -> None:
    _write(empty, name, template)
    verdict = empty.json("check", name, env=TODAY)
    assert verdict["verdict"] == "pass"
    assert verdict["exemptions"] == []


@pytest.mark.parametrize(("template", "name"), BROUGHT_UP)
def test_files_from_init_deploy_to_the_sandbox(empty: Checkout, template: str, name: str) -> None:
    _write(empty, name, template)
    done = empty.json("up", name, "--cloud", "sandbox", "--engine", "embedded", "--yes", env=TODAY)
    assert done["ok"]
    assert (done["changes"]["create"] > 100) == (template != "onprem")
