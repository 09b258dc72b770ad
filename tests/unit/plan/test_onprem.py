"""Rack sites in the plan: what they cost, and what their nodes mount."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

from gpufleet.plan import build_plan
from gpufleet.plan.models import MountPlan, OnPremSitePlan, OwnershipPlan, PowerPlan
from tests.unit.plan.fleets import CATALOG, rack_site, spec


def planned(**changes: Any) -> OnPremSitePlan:
    (site,) = build_plan(spec(onprem=[rack_site(**changes)]), CATALOG).onprem
    return site


def test_costs_of_a_site_are_those_that_it_declares() -> None:
    site = planned(
        ownership={"acquisition": "262800 USD", "lifetime": "5 y"},
        running_costs={"colocation": "42000 USD", "staff": "25000 USD"},
    )
    assert site.power == PowerPlan(Decimal("1.25"), Decimal("0.11"))
    assert site.ownership == OwnershipPlan(Decimal(262_800), timedelta(days=1825))
    assert site.running_costs == {"colocation": Decimal(42_000), "staff": Decimal(25_000)}
    plain = planned(power=None)
    assert (plain.power, plain.ownership, plain.running_costs) == (None, None, {})


def test_nodes_mount_what_the_site_declares_and_have_its_driver() -> None:
    nfs = {"name": "home", "kind": "nfs", "source": "nas:/home", "mount": "/shared/home"}
    lustre = {"name": "fast", "kind": "lustre", "source": "mds01@o2ib:/s", "mount": "/shared/s"}
    site = planned(storage=[nfs, lustre | {"options": ["flock"]}])
    assert site.mounts == (
        MountPlan("nfs", "nas:/home", "/shared/home"),
        MountPlan("lustre", "mds01@o2ib:/s", "/shared/s", ("flock",)),
    )
    assert "Lustre client" in {each.name for each in site.software}
    assert "Lustre client" not in {each.name for each in planned(storage=[nfs]).software}


def test_login_hosts_come_after_the_nodes_and_have_no_management_controller() -> None:
    site = planned(nodes="dgx[1-2]", bmc="bmc[1-2]", login="login[1-2]")
    assert [(each.name, each.role, each.bmc) for each in site.hosts] == [
        ("dgx1", "gpu", "bmc1"),
        ("dgx2", "gpu", "bmc2"),
        ("login1", "login", None),
        ("login2", "login", None),
    ]
    assert site.nodes == 2
