"""Cloud nodes that the Slurm of a rack site launches: a Slurm that exists, and groups that it can launch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checks.fleets import FLEET, GONE, Judge

SITE = "cloud.1"
WHERE = "cloud[1]"
RACK: dict[str, Any] = {"onprem.0.addresses": {"ctl01": "10.60.0.11", "ctl02": "10.60.0.12"}}
IDENTITY = "arn:aws:iam::111122223333:role/dc1-controllers"


def launched(**changes: Any) -> dict[str, Any]:
    """The changes that add a site whose nodes dc1 launches."""
    site: dict[str, Any] = {
        "site": "usw2",
        "region": "us-west-2",
        "zones": ["us-west-2a"],
        "network": {
            "cidr": "10.44.0.0/16",
            "vpn": {"gateway": "203.0.113.44", "networks": ["10.60.0.0/22"]},
        },
        "scheduler": "slurm",
        "slurm": {"controllers": "dc1", "identity": IDENTITY},
        "node_groups": [
            {
                "name": "sweep",
                "instance_types": ["g6e.xlarge"],
                "image": "ami-0123456789abcdef0",
                "capacity": {"on_demand": {"max": 4}},
            }
        ],
    }
    return {"cloud": [*FLEET["cloud"], site], **RACK, **changes}


def test_site_whose_nodes_a_rack_site_launches_passes(judge: Judge) -> None:
    assert judge(launched()).rules == set()


@pytest.mark.parametrize(
    ("name", "message", "remedy"),
    [
        ("dc2", "'dc2' is no rack site of this fleet", "did you mean 'dc1'?"),
        ("use1", "'use1' is no rack site of this fleet", "write one of: dc1"),
    ],
)
def test_unknown_rack_site_is_refused(judge: Judge, name: str, message: str, remedy: str) -> None:
    finding = judge(launched(**{f"{SITE}.slurm.controllers": name})).only("cloud-slurm-controllers")
    assert finding.field == f"{WHERE}.slurm.controllers"
    assert (finding.message, finding.remedy.startswith(remedy)) == (message, True)


def test_rack_site_needs_controllers_by_address_and_a_network(judge: Judge) -> None:
    named = judge(launched(**{"onprem.0.addresses": {"ctl01": "10.60.0.11"}}))
    finding = named.only("cloud-slurm-controllers")
    assert finding.field == "onprem[0].controllers"
    assert "cannot resolve the names of controllers (ctl02)" in finding.message
    finding = judge(launched(**{"onprem.0.network": GONE})).only("cloud-slurm-controllers")
    assert "the fleet file does not say which it is" in finding.message


def test_rack_site_without_controllers_is_refused(judge: Judge) -> None:
    found = judge(launched(**{"onprem.0.controllers": GONE})).of("cloud-slurm-controllers")
    assert "site 'dc1' has no controllers" in [each.message for each in found]


def test_only_sites_with_slurm_are_suggested(judge: Judge) -> None:
    other = {**FLEET["onprem"][0], "site": "dc2", "scheduler": "kubernetes"}
    changes = launched(**{f"{SITE}.slurm.controllers": "lab"}) | {"onprem": [FLEET["onprem"][0], other]}
    (finding,) = judge(changes).of("cloud-slurm-controllers")
    assert finding.remedy == "write one of: dc1"
    (finding,) = judge(changes | {f"{SITE}.slurm.controllers": "dc2"}).of("cloud-slurm-controllers")
    assert finding.message == "'dc2' is no site with Slurm of this fleet"
    (finding,) = judge(launched(**{"onprem.0.scheduler": "kubernetes"})).of("cloud-slurm-controllers")
    assert finding.remedy == "write one of: none is declared"


def test_networks_that_overlap_are_refused(judge: Judge) -> None:
    reported = judge(launched(**{f"{SITE}.network.cidr": "10.60.0.0/20"}))
    assert f"{WHERE}.network.cidr" in reported.fields("cloud-slurm-controllers")


@pytest.mark.parametrize(
    ("field", "network"), [(f"{SITE}.network.cidr", "10.44.0.1/16"), ("onprem.0.network", "10.60.0.1/22")]
)
def test_overlap_of_an_invalid_network_is_not_judged(judge: Judge, field: str, network: str) -> None:
    reported = judge(launched(**{field: network}))
    assert (len(reported.of("cidr-valid")), reported.of("cloud-slurm-controllers")) == (1, [])


def test_kubernetes_site_takes_no_slurm(judge: Judge) -> None:
    slurm = {"controllers": "dc1", "identity": IDENTITY}
    finding = judge({"cloud.0.slurm": slurm, **RACK}).only("cloud-slurm-controllers")
    assert (finding.field, finding.value) == ("cloud[0].slurm", "dc1")
    servers = {"servers": {"image": "ami-0123456789abcdef0"}}
    (finding,) = judge({"cloud.0.slurm": servers}).of("cloud-slurm-controllers")
    assert finding.value == "servers"


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"node_groups.0.image": GONE}, "name", "has AWS's image, which has no Slurm"),
        ({"node_groups.0.capacity.on_demand.min": 1}, "capacity.on_demand.min", "from 0 nodes on"),
        ({"node_groups.0.capacity.on_demand.desired": 2}, "capacity.on_demand.desired", "from 0 nodes on"),
        ({"node_groups.0.public_ip": True}, "public_ip", "by their private addresses"),
    ],
)
def test_group_that_slurm_cannot_launch_is_refused(
    judge: Judge, changes: dict[str, Any], field: str, message: str
) -> None:
    reported = judge(launched(**{f"{SITE}.{path}": value for path, value in changes.items()}))
    finding = reported.only("cloud-slurm-nodes")
    assert finding.field == f"{WHERE}.node_groups[0].{field}"
    assert message in finding.message


def test_nodes_that_no_controllers_launch_have_a_size(judge: Judge) -> None:
    alone = {f"{SITE}.slurm": GONE, f"{SITE}.node_groups.0.capacity.on_demand.min": 1}
    assert judge(launched(**alone)).of("cloud-slurm-nodes") == []


def test_nodes_of_a_reservation_have_no_number_to_remove(judge: Judge) -> None:
    reserved = {"reserved": {"odcr": {"nodes": 1, "zone": "us-west-2a"}}}
    reported = judge(launched(**{f"{SITE}.node_groups.0.capacity": reserved}))
    assert not [each for each in reported.of("cloud-slurm-nodes") if "from 0 nodes on" in each.message]


def test_names_of_partitions_and_nodes_are_their_own(judge: Judge) -> None:
    partition = {"onprem.0.slurm": {"partitions": [{"name": "usw2-sweep"}]}}
    assert (
        "has the name of one of site 'dc1'" in judge(launched(**partition)).only("cloud-slurm-nodes").message
    )
    reported = judge(launched(**{"onprem.0.nodes": "usw2-sweep-[1-8]"}))
    assert "usw2-sweep-1 has the name of a node of site 'dc1'" in reported.only("cloud-slurm-nodes").message


def test_orders_are_not_for_nodes_that_slurm_launches(judge: Judge) -> None:
    order = [{"name": "first", "nodes": 1, "groups": ["sweep"]}]
    finding = judge(launched(**{f"{SITE}.ordered_capacity": order})).only("cloud-slurm-nodes")
    assert finding.remedy == "remove `ordered_capacity`"


def test_tags_that_the_metadata_service_does_not_show_are_refused(judge: Judge) -> None:
    finding = judge(launched(**{"tags.cost center": "cc-1"})).only("cloud-slurm-tags")
    assert finding.field == 'tags["cost center"]'
    assert judge({"tags.cost center": "cc-1"}).rules == set()


def bursting(**changes: Any) -> dict[str, Any]:
    """The changes that add a site which waiting jobs of dc1 may use."""
    burst = {"teams": ["research"], "monthly": "500 USD", **changes}
    return launched(**{f"{SITE}.slurm.burst": burst})


def test_rules_of_bursts_pass(judge: Judge) -> None:
    whole = bursting(partitions=["gpu"], groups=["sweep"], after="5 min")
    assert judge(whole).rules == set()


@pytest.mark.parametrize(
    ("changes", "field", "message", "remedy"),
    [
        (
            {"teams": ["reserch"]},
            "teams[0]",
            "'reserch' is no team of site 'dc1'",
            "did you mean 'research'?",
        ),
        (
            {"partitions": ["gpus"]},
            "partitions[0]",
            "'gpus' is no partition of site 'dc1'",
            "did you mean 'gpu'?",
        ),
        (
            {"groups": ["x", "sweep"]},
            "groups[0]",
            "'x' is no node group of site 'usw2'",
            "write one of: sweep",
        ),
    ],
)
def test_unknown_name_in_the_rules_of_bursts_is_refused(
    judge: Judge, changes: dict[str, Any], field: str, message: str, remedy: str
) -> None:
    finding = judge(bursting(**changes)).only("cloud-slurm-burst")
    assert finding.field == f"{WHERE}.slurm.burst.{field}"
    assert (finding.message, finding.remedy.startswith(remedy)) == (message, True)


def test_burst_to_an_unknown_rack_site_is_not_judged_further(judge: Judge) -> None:
    reported = judge({**bursting(), f"{SITE}.slurm.controllers": "lab"})
    assert reported.of("cloud-slurm-burst") == []
    assert len(reported.of("cloud-slurm-controllers")) == 1


def test_team_of_a_group_outside_of_the_burst_does_not_matter(judge: Judge) -> None:
    teams = [{"name": "research", "gpus": 32}, {"name": "product", "gpus": 32}]
    other = {
        "name": "own",
        "instance_types": ["g6e.xlarge"],
        "image": "ami-0123456789abcdef0",
        "capacity": {"on_demand": {"max": 4}},
        "team": "product",
    }
    changes = {"onprem.0.teams": teams, f"{SITE}.node_groups.+": other}
    assert judge({**bursting(groups=["sweep"]), **changes}).of("cloud-slurm-burst") == []
    assert len(judge({**bursting(), **changes}).of("cloud-slurm-burst")) == 1


def test_site_without_teams_has_none_to_suggest(judge: Judge) -> None:
    (finding,) = judge({**bursting(), "onprem.0.teams": []}).of("cloud-slurm-burst")
    assert finding.remedy == "write one of: none is declared"


@pytest.mark.parametrize(("groups", "field"), [({}, "teams"), ({"groups": ["sweep"]}, "groups")])
def test_group_of_a_team_that_may_not_leave_is_refused(
    judge: Judge, groups: dict[str, Any], field: str
) -> None:
    teams = [{"name": "research", "gpus": 32}, {"name": "product", "gpus": 32}]
    changes = bursting(**groups) | {"onprem.0.teams": teams, f"{SITE}.node_groups.0.team": "product"}
    finding = judge(changes).only("cloud-slurm-burst")
    assert finding.field == f"{WHERE}.slurm.burst.{field}"
    assert (
        finding.message == "node group 'sweep' is for jobs of team 'product', which may not leave the racks"
    )
    both = bursting(**groups, teams=["research", "product"])
    assert judge({**changes, **both}).rules == set()
