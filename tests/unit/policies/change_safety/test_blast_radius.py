"""blast-radius: how large a part of a site or of the fleet one change takes away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import LAUNCH_TEMPLATE, NODE_GROUP

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]
RULE = "blast-radius"


def nodes(name: str, size: Any, site: str = "use1", template: str = "", **more: Any) -> Described:
    props = {
        "tags": {"gpufleet:site": site},
        "instanceTypes": ["g6.xlarge"],
        "scalingConfig": {"minSize": 0, "maxSize": 100, "desiredSize": size},
    }
    described: Described = {"type": NODE_GROUP, "name": name, "props": {**props, **more}}
    if template:
        described["props"]["launchTemplate"] = {"id": UNKNOWN}
        described["depends"] = {"launchTemplate": [template]}
    return described


def other(name: str, size: int, site: str = "use1") -> Described:
    return nodes(name, size, site, instanceTypes=["g6.2xlarge"], __replace=["instanceTypes"])


def test_quarter_of_the_nodes_passes_and_more_is_found(ask: Ask) -> None:
    before = [nodes("a", 10), nodes("b", 30)]
    assert ask(RULE, before, [other("a", 10), nodes("b", 30)]) == []
    before = [nodes("a", 11), nodes("b", 30)]
    found = ask(RULE, before, [other("a", 11), nodes("b", 30)])
    assert [each.urn for each in found] == ["", ""]  # the fleet, and the site
    assert "11 of the 41 nodes" in found[0].message
    assert "a 11" in found[0].message


def test_disrupting_all_nodes_of_one_site_is_found(ask: Ask) -> None:
    before = [nodes("a", 20, "use1"), nodes("b", 200, "usw2")]
    (found,) = ask(RULE, before, [nodes("b", 200, "usw2")])
    assert "20 of the 20 nodes of use1" in found.message


def test_groups_are_summed(ask: Ask) -> None:
    before = [nodes(name, 10) for name in "abcdefgh"]
    after = [other(name, 10) if name in "abc" else nodes(name, 10) for name in "abcdefgh"]
    assert "30 of the 80" in ask(RULE, before, after)[0].message


def test_launch_template_of_several_groups_disrupts_all_of_them(ask: Ask) -> None:
    def template(data: str) -> Described:
        return {"type": LAUNCH_TEMPLATE, "name": "template", "props": {"userData": data}}

    groups = [nodes("a", 10, template="template"), nodes("b", 10, template="template"), nodes("c", 10)]
    found = ask(RULE, [template("a"), *groups], [template("b"), *groups])
    assert "20 of the 30" in found[0].message
    assert ask(RULE, [template("a"), *groups], [template("a"), *groups]) == []


def test_few_nodes_may_always_be_disrupted(ask: Ask) -> None:
    assert ask(RULE, [nodes("a", 8)], []) == []
    assert ask(RULE, [nodes("a", 9)], []) != []
    assert ask(RULE, [nodes("a", 9)], [], settings={"minimum_nodes": 9}) == []


def test_percentage_is_a_setting(ask: Ask) -> None:
    before = [nodes("a", 20), nodes("b", 20)]
    after = [other("a", 20), nodes("b", 20)]
    assert ask(RULE, before, after, settings={"percent": 50}) == []
    assert ask(RULE, before, after, settings={"percent": 49}) != []


def test_nodes_of_a_capacity_block_count_though_their_group_starts_at_zero(ask: Ask) -> None:
    block = nodes("a", 0, capacityType="CAPACITY_BLOCK")
    assert "100 of the 100" in ask(RULE, [block], [])[0].message


def test_unknown_size_fails_closed(ask: Ask) -> None:
    (found,) = ask(RULE, [nodes("a", UNKNOWN), nodes("b", 400)], [nodes("b", 400)])
    assert found.violation.unknown


def test_removed_racks_count(ask: Ask) -> None:
    def fleet(last: str) -> Described:
        site = {
            "site": "dc1",
            "system": "dgx-h100",
            "nodes": f"dgx[001-{last}]",
            "bmc": f"bmc[001-{last}]",
            "controllers": "ctl01",
            "network": "10.0.0.0/22",
            "fabric": {"kind": "infiniband", "speed": "ndr", "topology": "rail-optimized"},
            "scheduler": "slurm",
            "power": {"per_rack": "40 kW", "pue": "1.25", "price": "0.11 USD/kWh"},
        }
        return {
            "apiVersion": "gpufleet/v1",
            "fleet": "atlas",
            "environment": "prod",
            "budget": {"monthly": "1000 USD"},
            "tags": {"team": "ml", "cost-center": "c", "project": "p"},
            "software": {"channel": "2026.11"},
            "onprem": [site],
        }

    found = ask(RULE, fleet_before=fleet("040"), fleet=fleet("020"))
    assert "20 of the 40 nodes of dc1" in " ".join(each.message for each in found)
    assert ask(RULE, fleet_before=fleet("040"), fleet=fleet("036")) == []
    assert ask(RULE, fleet_before=fleet("040"), fleet=fleet("080")) == []


def test_new_environment_disrupts_nothing(ask: Ask) -> None:
    assert ask(RULE, [], [nodes("a", 100)]) == []
