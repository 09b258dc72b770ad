"""guardrails-loosened: caps, levels, settings and exemptions, and that no change lowers its own guard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policies.rules.budget._caps import example_fleet
from gpufleet.policy.evaluation import RuleViolation
from tests.unit.pricing.racks import PRICED_RACKS

Ask = Callable[..., list[RuleViolation]]
RULE = "guardrails-loosened"
EXEMPTION = {
    "rule": "storage-survives",
    "resource": "checkpoints",
    "reason": "copied to the new one",
    "approver": "ana",
    "expires": "2026-12-01",
}


def fleet(budget: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "gpufleet/v1",
        "fleet": "atlas",
        "environment": "prod",
        "budget": {"monthly": "1000 USD", **(budget or {})},
        "tags": {"team": "ml", "cost-center": "c", "project": "p"},
        "software": {"channel": "2026.11"},
        **more,
    }


def level(name: str, enforcement: str | None = None, **settings: Any) -> dict[str, Any]:
    return {"policies": {name: {"enforcement": enforcement, "settings": settings}}}


CAPS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"monthly": "1000 USD"}, {"monthly": "1000.01 USD"}, "budget.monthly"),
    ({"upfront": "10 USD"}, {"upfront": "20 USD"}, "budget.upfront"),
    ({"upfront": "10 USD"}, {}, "budget.upfront"),
    ({"max_increase": "10 USD"}, {}, "budget.max_increase"),
    ({"sites": {"use1": "10 USD"}}, {"sites": {"use1": "11 USD"}}, "budget.sites.use1"),
    ({"sites": {"use1": "10 USD"}}, {"sites": {"use2": "10 USD"}}, "budget.sites.use1"),
    ({"node_groups": {"use1/a": "10 USD"}}, {}, "budget.node_groups.use1/a"),
    ({"teams": {"research": "10 USD"}}, {}, "budget.teams.research"),
    ({"ends": "2026-12-31"}, {"ends": "2027-01-01"}, "budget.ends"),
    ({"ends": "2026-12-31"}, {}, "budget.ends"),
    ({"on_breach": "stop-scale-out"}, {"on_breach": "notify"}, "budget.on_breach"),
    ({"on_breach": "drain-spot"}, {"on_breach": "stop-scale-out"}, "budget.on_breach"),
    (
        {"on_breach": "drain-spot"},
        {"on_breach": "drain-spot", "drain_spot_at": "120%"},
        "budget.drain_spot_at",
    ),
]


@pytest.mark.parametrize(("before", "after", "field"), CAPS)
def test_raised_or_removed_cap_is_found(
    before: dict[str, Any], after: dict[str, Any], field: str, ask: Ask
) -> None:
    (found,) = ask(RULE, fleet_before=fleet(before), fleet=fleet(after))
    assert field in found.message
    assert found.level == "advisory"


@pytest.mark.parametrize(("before", "after", "field"), CAPS)
def test_lowered_or_new_cap_passes(
    before: dict[str, Any], after: dict[str, Any], field: str, ask: Ask
) -> None:
    tightened = ask(RULE, fleet_before=fleet(after), fleet=fleet(before))
    assert [each.message for each in tightened if f"{field}:" in each.message] == []


def bursting(*teams: str, monthly: str = "500 USD") -> dict[str, Any]:
    """A cloud site whose nodes waiting jobs of these teams may use; of none if there are none."""
    burst = {"burst": {"teams": list(teams), "monthly": monthly}} if teams else {}
    slurm = {"controllers": "dc1", "identity": "arn:aws:iam::111122223333:role/dc1", **burst}
    network = {"cidr": "10.40.0.0/16"}
    site = {"site": "use1", "region": "us-east-1", "zones": ["us-east-1a"], "network": network}
    return {"cloud": [{**site, "scheduler": "slurm", "slurm": slurm}]}


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        (bursting("a"), bursting("a", "b"), ["waiting jobs of b may leave the racks for use1"]),
        (bursting(), bursting("a"), ["waiting jobs of a may leave the racks for use1"]),
        (
            bursting("a"),
            bursting("a", monthly="500.01 USD"),
            ["slurm.burst.monthly of use1 becomes 500.01 USD, from 500 USD"],
        ),
        (bursting("a", "b"), bursting("a", monthly="499 USD"), []),
        (bursting("a"), bursting(), []),
        (bursting("a"), {"cloud": []}, []),
    ],
)
def test_jobs_that_may_leave_the_racks_and_what_they_may_cost_are_found(
    before: dict[str, Any], after: dict[str, Any], what: list[str], ask: Ask
) -> None:
    found = ask(RULE, fleet_before=fleet(**before), fleet=fleet(**after))
    assert [each.message.partition(";")[0] for each in found] == [
        f"the change loosens cloud: {each}" for each in what
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, level("imdsv2-required", "advisory")),
        ({}, level("imdsv2-required", "disabled")),
        (level("imdsv2-required", "mandatory"), level("imdsv2-required", "advisory")),
        (level("imdsv2-required", "advisory"), level("imdsv2-required", "disabled")),
        (level("guardrails-loosened", "mandatory"), {}),
    ],
)
def test_lowered_rule_level_is_found(before: dict[str, Any], after: dict[str, Any], ask: Ask) -> None:
    (found,) = ask(RULE, fleet_before=fleet(**before), fleet=fleet(**after))
    assert "becomes" in found.message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (level("imdsv2-required", "advisory"), {}),
        (level("imdsv2-required", "advisory"), level("imdsv2-required", "mandatory")),
        (level("imdsv2-required", "mandatory"), {}),
        ({}, level("guardrails-loosened", "mandatory")),
        ({}, {}),
    ],
)
def test_raised_or_unchanged_rule_level_passes(
    before: dict[str, Any], after: dict[str, Any], ask: Ask
) -> None:
    assert ask(RULE, fleet_before=fleet(**before), fleet=fleet(**after)) == []


def test_changed_rule_settings_are_found(ask: Ask) -> None:
    after = level("spot-only-in-dev", None, workloads=["training"])
    (found,) = ask(RULE, fleet_before=fleet(), fleet=fleet(**after))
    assert "settings differ" in found.message


def test_added_or_extended_exemption_is_found_and_a_removed_one_passes(ask: Ask) -> None:
    one = fleet(exemptions=[EXEMPTION])
    longer = fleet(exemptions=[{**EXEMPTION, "expires": "2027-12-01"}])
    (found,) = ask(RULE, fleet_before=fleet(), fleet=one)
    assert "checkpoints may break storage-survives" in found.message
    (found,) = ask(RULE, fleet_before=one, fleet=longer)
    assert "it was 2026-12-01" in found.message
    assert ask(RULE, fleet_before=longer, fleet=one) == []
    assert ask(RULE, fleet_before=one, fleet=fleet()) == []


def test_removed_required_tag_and_later_expiry_are_found(ask: Ask) -> None:
    (found,) = ask(RULE, fleet_before=fleet(), fleet=fleet(required_tags=["team"]))[:1]
    assert "required_tags" in found.message
    (found,) = ask(RULE, fleet_before=fleet(expires="2026-12-01"), fleet=fleet())
    assert "becomes never" in found.message


def test_new_environment_loosens_nothing(ask: Ask) -> None:
    assert ask(RULE, fleet=fleet({"monthly": "9000000 USD"}, exemptions=[EXEMPTION])) == []


@pytest.mark.parametrize(
    "change",
    [
        {"ownership": None},
        {"power": None},
        {"ownership": {"acquisition": "270000 USD", "lifetime": "9 y"}},
        {"ownership": {"acquisition": "20000 USD", "lifetime": "5 y"}},
        {"power": {"per_rack": "40 kW", "pue": 1.25, "price": "0.01 USD/kWh"}},
        {"power": {"per_rack": "40 kW", "pue": 1.0, "price": "0.11 USD/kWh"}},
    ],
)
def test_lower_declared_costs_of_racks_are_found_and_higher_ones_pass(
    change: dict[str, Any], ask: Ask
) -> None:
    before, after = fleet(onprem=[PRICED_RACKS]), fleet(onprem=[{**PRICED_RACKS, **change}])
    (found,) = ask(RULE, fleet_before=before, fleet=after)
    assert "dc1 declares lower costs of its racks" in found.message
    assert ask(RULE, fleet_before=after, fleet=before) == []
    assert ask(RULE, fleet_before=before, fleet=fleet()) == [], "a removed site is not a cheaper one"


def test_new_expiry_that_makes_an_environment_temporary_is_found(ask: Ask) -> None:
    (found,) = ask(RULE, fleet_before=fleet(), fleet=fleet(expires="2026-12-01"))
    assert "never becomes 2026-12-01" in found.message


def test_changed_environment_name_is_found(ask: Ask) -> None:
    (found,) = ask(RULE, fleet_before=fleet(), fleet=fleet(environment="dev"))
    assert "prod becomes dev" in found.message


SITE: dict[str, Any] = example_fleet()["cloud"][0]
ADMIN = "arn:aws:iam::999988887777:role/another"


@pytest.mark.parametrize(
    ("kubernetes", "group", "what"),
    [
        ({"admins": [ADMIN]}, {}, f"{ADMIN} of use1 is new"),
        ({"viewers": [ADMIN]}, {}, f"{ADMIN} of use1 is new"),
        ({"public_cidrs": ["203.0.113.0/24"]}, {}, "203.0.113.0/24 of use1 is new"),
        ({"private_cidrs": ["10.0.0.0/9"]}, {}, "10.0.0.0/9 of use1 is new"),
        ({}, {"public_ip": True}, "use1/serve gets public addresses"),
    ],
)
def test_new_access_is_found_and_removed_access_passes(
    kubernetes: dict[str, Any], group: dict[str, Any], what: str, ask: Ask
) -> None:
    opened = {
        **SITE,
        "kubernetes": {**SITE["kubernetes"], **kubernetes},
        "node_groups": [{**SITE["node_groups"][0], **group}],
    }
    before, after = fleet(cloud=[SITE]), fleet(cloud=[opened])
    (found,) = ask(RULE, fleet_before=before, fleet=after)
    assert what in found.message
    assert ask(RULE, fleet_before=after, fleet=before) == []
    assert ask(RULE, fleet_before=after, fleet=after) == []
    (found,) = ask(RULE, fleet_before=fleet(), fleet=after)
    assert what in found.message, "a new site opens it, too"
