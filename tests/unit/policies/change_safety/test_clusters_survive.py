"""clusters-survive: clusters from the engine's steps, sites from the two fleet files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.types import CLUSTER, INSTANCE

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]
RULE = "clusters-survive"


def cluster(name: str = "use1", **props: Any) -> Described:
    return {"type": CLUSTER, "name": name, "props": props}


def fleet(*racks: str, cloud: tuple[str, ...] = ()) -> Described:
    return {
        "apiVersion": "gpufleet/v1",
        "fleet": "atlas",
        "environment": "prod",
        "budget": {"monthly": "1000 USD"},
        "tags": {"team": "ml", "cost-center": "c", "project": "p"},
        "software": {"channel": "2026.11"},
        "onprem": [
            {
                "site": name,
                "system": "dgx-h100",
                "nodes": f"{name}-[01-04]",
                "bmc": f"{name}-bmc[01-04]",
                "network": "10.0.0.0/24",
                "fabric": {"kind": "infiniband", "speed": "ndr", "topology": "rail-optimized"},
                "scheduler": "slurm",
                "controllers": f"{name}-ctl",
                "power": {"per_rack": "40 kW", "pue": "1.25", "price": "0.11 USD/kWh"},
            }
            for name in racks
        ],
        "cloud": [
            {
                "site": name,
                "region": "us-east-1",
                "zones": ["us-east-1a"],
                "network": {"cidr": "10.1.0.0/16"},
                "scheduler": "slurm",
            }
            for name in cloud
        ],
    }


def test_deleted_or_replaced_cluster_is_found(ask: Ask) -> None:
    assert len(ask(RULE, [cluster()])) == 1
    (found,) = ask(RULE, [cluster()], [cluster(roleArn="b", __replace=["roleArn"])])
    assert "replaced (by roleArn)" in found.message


def test_upgraded_aliased_or_new_cluster_passes(ask: Ask) -> None:
    assert ask(RULE, [cluster(version="1.34")], [cluster(version="1.35")]) == []
    assert ask(RULE, [cluster()], [{**cluster("east"), "options": {"aliases": ["use1"]}}]) == []
    assert ask(RULE, [], [cluster()]) == []


@pytest.mark.parametrize(("role", "count"), [("controller", 1), ("login", 0), (None, 0)])
def test_controller_of_a_slurm_survives_and_other_instances_need_not(ask: Ask, role: Any, count: int) -> None:
    tags = {"gpufleet:slurm-server": role} if role else {}
    host = {"type": INSTANCE, "name": "ctl1", "props": {"tags": tags}}
    found = ask(RULE, [host])
    assert len(found) == count
    for each in found:
        assert each.message.startswith("the Slurm controller ctl1 would be deleted")
        assert "jobs and accounting" in each.message


def test_retained_cluster_survives_its_deletion(ask: Ask) -> None:
    assert ask(RULE, [{**cluster(), "options": {"retainOnDelete": True}}]) == []


def test_racks_and_sites_removed_from_the_fleet_are_found(ask: Ask) -> None:
    (found,) = ask(RULE, fleet_before=fleet("dc1", "dc2"), fleet=fleet("dc1"))
    assert "'dc2'" in found.message
    assert found.urn == ""
    (found,) = ask(RULE, fleet_before=fleet(cloud=("usw2",)), fleet=fleet())
    assert "cloud site 'usw2'" in found.message


def test_kept_and_new_sites_pass(ask: Ask) -> None:
    assert ask(RULE, fleet_before=fleet("dc1"), fleet=fleet("dc1", "dc2")) == []
    assert ask(RULE, fleet=fleet("dc1")) == []
