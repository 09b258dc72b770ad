"""Generated networks that add up to much of the internet, in every form: none passes; few owners do."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpufleet.policies.rules.security._networks import network, world
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]

GROUP: Described = {"type": "aws:ec2/securityGroup:SecurityGroup", "name": "group", "props": {"id": "sg-1"}}
OTHER: Described = {"type": "aws:ec2/securityGroup:SecurityGroup", "name": "other", "props": {"id": "sg-2"}}
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
EGRESS = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
OLDER = "aws:ec2/securityGroupRule:SecurityGroupRule"
LIST = "aws:ec2/managedPrefixList:ManagedPrefixList"
CLUSTER = "aws:eks/cluster:Cluster"
PUBLIC = [first for first in range(1, 224) if first not in (10, 100, 127, 172, 192)]

many = settings(
    max_examples=40,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@st.composite
def wide_lists(draw: st.DrawFn) -> list[str]:
    """Networks none of which is wider than one owner's, and which together are more than a few owners'."""
    if draw(st.booleans()):
        firsts = draw(st.lists(st.sampled_from(PUBLIC), min_size=6, max_size=120, unique=True))
        length = draw(st.sampled_from((8, 9)))
        blocks = [f"{first}.0.0.0/{length}" for first in firsts]
    else:
        firsts = draw(st.lists(st.integers(0x2000, 0x3FFF), min_size=4, max_size=40, unique=True))
        blocks = [f"{first:x}::/16" for first in firsts if first != 0x2002]
    for _ in range(draw(st.integers(0, 2))):
        blocks = [
            str(part) for block in blocks for part in ipaddress.ip_network(block).subnets(prefixlen_diff=1)
        ]
    return list(draw(st.permutations(blocks))) if len(blocks) < 60 else blocks


@st.composite
def few_lists(draw: st.DrawFn) -> list[str]:
    """Ordinary lists: offices, private networks, one large owner."""
    offices = draw(
        st.lists(st.integers(1, 223).map(lambda first: f"{first}.0.113.0/24"), max_size=40, unique=True)
    )
    private = draw(st.sets(st.sampled_from(("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"))))
    large = draw(st.lists(st.sampled_from(("17.0.0.0/8", "2600:1f00::/24", "52.94.0.0/16")), unique=True))
    return [*offices, *private, *large]


@many
@given(blocks=wide_lists())
def test_no_list_of_much_of_the_internet_passes(blocks: list[str]) -> None:
    assert world(block for each in blocks if (block := network(each)) is not None) is not None


@many
@given(blocks=few_lists())
def test_list_of_a_few_owners_is_not_the_internet(blocks: list[str]) -> None:
    assert world(block for each in blocks if (block := network(each)) is not None) is None


def cidr(block: str) -> dict[str, str]:
    return {"cidrIpv6" if ":" in block else "cidrIpv4": block}


@st.composite
def rules_for(draw: st.DrawFn, blocks: list[str], direction: str) -> list[Described]:
    """The networks over rules of all types, over ranges of ports that share one, and over a prefix list."""
    found: list[Described] = []
    listed: list[str] = []
    for index, block in enumerate(blocks):
        low, high = draw(st.integers(8000, 8080)), draw(st.integers(8080, 9000))
        version6 = ":" in block
        form = draw(st.sampled_from(("newer", "older", "all", "list")))
        ports = {"fromPort": low, "toPort": high}
        if form == "list":
            listed.append(block)
        elif form == "older":
            key = "ipv6CidrBlocks" if version6 else "cidrBlocks"
            props = {"type": direction, "protocol": "tcp", **ports, key: [block], "securityGroupId": "sg-1"}
            found.append({"type": OLDER, "name": f"r{index}", "props": props})
        else:
            protocol = draw(st.sampled_from(("tcp", "6", "TCP"))) if form == "newer" else "-1"
            props = {"ipProtocol": protocol, **ports, **cidr(block), "securityGroupId": "sg-1"}
            kind = INGRESS if direction == "ingress" else EGRESS
            found.append({"type": kind, "name": f"r{index}", "props": props})
    if listed:
        entries = [{"cidr": each} for each in listed]
        found.append({"type": LIST, "name": "list", "props": {"id": "pl-1", "entries": entries}})
        props = {
            "ipProtocol": "tcp",
            "fromPort": 8080,
            "toPort": 8080,
            "prefixListId": "pl-1",
            "securityGroupId": "sg-1",
        }
        kind = INGRESS if direction == "ingress" else EGRESS
        found.append({"type": kind, "name": "uses", "props": props})
    return found


@many
@given(data=st.data())
@pytest.mark.parametrize(
    ("rule", "direction"), [("no-open-ingress", "ingress"), ("no-open-egress", "egress")]
)
def test_no_split_over_the_rules_of_a_group_passes(
    ask: Ask, data: st.DataObject, rule: str, direction: str
) -> None:
    blocks = data.draw(wide_lists())
    assert ask(rule, GROUP, *data.draw(rules_for(blocks, direction))), blocks


@many
@given(data=st.data())
@pytest.mark.parametrize(
    ("rule", "direction"), [("no-open-ingress", "ingress"), ("no-open-egress", "egress")]
)
def test_list_of_a_few_owners_passes_in_every_form(
    ask: Ask, data: st.DataObject, rule: str, direction: str
) -> None:
    assert ask(rule, GROUP, *data.draw(rules_for(data.draw(few_lists()), direction))) == []


def half(name: str, group: str, firsts: tuple[int, ...]) -> list[Described]:
    return [
        {
            "type": INGRESS,
            "name": f"{name}{first}",
            "props": {
                "ipProtocol": "tcp",
                "fromPort": 22,
                "toPort": 22,
                "cidrIpv4": f"{first}.0.0.0/8",
                "securityGroupId": group,
            },
        }
        for first in firsts
    ]


NODES = {
    "type": "aws:ec2/launchTemplate:LaunchTemplate",
    "name": "nodes",
    "props": {"networkInterfaces": [{"securityGroups": ["sg-1", "sg-2"]}]},
}
HIDDEN = {
    "type": "aws:ec2/launchTemplate:LaunchTemplate",
    "name": "nodes",
    "props": {"vpcSecurityGroupIds": [UNKNOWN, UNKNOWN]},
    "depends": {"vpcSecurityGroupIds": ["group", "other"]},
}


@pytest.mark.parametrize("nodes", [NODES, HIDDEN])
@pytest.mark.parametrize("rule", ["no-open-ingress", "no-open-admin-ports"])
def test_networks_over_two_groups_of_one_node_are_found(ask: Ask, rule: str, nodes: Described) -> None:
    rules = [*half("a", "sg-1", (12, 14)), *half("b", "sg-2", (20, 22))]
    assert ask(rule, GROUP, OTHER, *rules) == []
    (found,) = ask(rule, GROUP, OTHER, *rules, nodes)
    assert "1.56% of all IPv4 addresses" in found.message


def part(name: str, firsts: tuple[int, ...], **props: Any) -> list[Described]:
    return [
        {**each, "props": {**each["props"], **props}, **({"type": EGRESS} if "out" in name else {})}
        for each in half(name, "sg-1", firsts)
    ]


@pytest.mark.parametrize(
    "other",
    [
        part("b", (20, 22)),
        part("b", (20, 22), ipProtocol="6"),
        part("b", (20, 22), ipProtocol="-1", fromPort=0, toPort=0),
        part("b", (20, 22), fromPort=0, toPort=100),
        part("b", (20, 22), ipProtocol=UNKNOWN),
    ],
)
def test_networks_for_one_port_of_one_group_are_added_up(ask: Ask, other: list[Described]) -> None:
    (found,) = ask("no-open-ingress", GROUP, *part("a", (12, 14)), *other)
    assert "a12, a14, b20, b22 together open tcp 22 to the internet" in found.message


@pytest.mark.parametrize(
    "other",
    [
        part("out", (20, 22)),
        part("b", (20, 22), ipProtocol="udp"),
        part("b", (20, 22), fromPort=23, toPort=23),
        part("b", (20, 22), securityGroupId="sg-elsewhere"),
    ],
)
def test_networks_for_two_ports_protocols_directions_or_groups_are_not_added_up(
    ask: Ask, other: list[Described]
) -> None:
    assert ask("no-open-ingress", GROUP, *part("a", (12, 14)), *other) == []


def test_networks_of_two_protocols_that_are_all_are_added_up(ask: Ask) -> None:
    everything = [*part("a", (12, 14), ipProtocol="-1"), *part("b", (20, 22), ipProtocol="all")]
    (found,) = ask("no-open-ingress", GROUP, *everything)
    assert "all traffic" in found.message


def test_rules_of_two_groups_outside_the_stack_are_not_added_up(ask: Ask) -> None:
    elsewhere = [
        {**each, "props": {**each["props"], "securityGroupId": f"sg-{each['name']}"}}
        for each in part("a", (12, 14, 20, 22))
    ]
    assert ask("no-open-ingress", *elsewhere) == []
    assert ask("no-open-admin-ports", *elsewhere) == []


def test_open_port_outwards_is_no_open_admin_port(ask: Ask) -> None:
    assert ask("no-open-admin-ports", GROUP, *part("out", (0,), cidrIpv4="0.0.0.0/0")) == []


def test_networks_of_a_group_that_the_node_has_not_are_not_added_up(ask: Ask) -> None:
    third = {**OTHER, "name": "third", "props": {"id": "sg-3"}}
    rules = [*half("a", "sg-1", (12, 14)), *half("c", "sg-3", (20, 22))]
    assert ask("no-open-admin-ports", GROUP, OTHER, third, *rules, NODES) == []


@pytest.mark.parametrize("rule", ["no-open-ingress", "no-open-egress"])
def test_rule_that_is_open_alone_is_reported_once(ask: Ask, rule: str) -> None:
    name = "out" if "egress" in rule else "in"
    wide, few = part(name, (0,), cidrIpv4="0.0.0.0/0"), part(f"{name}-few", (12,))
    (found,) = ask(rule, GROUP, OTHER, *wide, *few, NODES)
    assert found.urn.endswith(f"::{name}0")


def test_rule_for_a_group_is_no_network(ask: Ask) -> None:
    members = {**part("members", (1,))[0]}
    members["props"] = {key: value for key, value in members["props"].items() if key != "cidrIpv4"} | {
        "referencedSecurityGroupId": "sg-2"
    }
    (found,) = ask("no-open-ingress", GROUP, *part("a", (12, 14, 20)), members)
    assert "a12, a14, a20 together" in found.message
    (port,) = ask("no-open-admin-ports", GROUP, *part("a", (12, 14, 20)), members)
    assert "opens port 22 to" in port.message


def test_groups_of_a_node_are_reported_at_their_first_and_a_group_alone_once(ask: Ask) -> None:
    rules = [*half("a", "sg-1", (12, 14)), *half("b", "sg-2", (20, 22))]
    (found,) = ask("no-open-ingress", GROUP, OTHER, *rules, NODES)
    assert found.violation.prop == "networkInterfaces[0].securityGroups[0]"
    assert found.urn.endswith("::nodes")
    beside = {**NODES, "props": {"networkInterfaces": [{"securityGroups": ["sg-9", "sg-1"]}]}}
    assert ask("no-open-ingress", GROUP, OTHER, *rules, beside) == []
    (alone,) = ask("no-open-ingress", GROUP, OTHER, *half("a", "sg-1", (12, 14, 20)), NODES)
    assert not alone.urn.endswith("::nodes")


def test_groups_of_a_node_that_do_not_exist_yet_count(ask: Ask) -> None:
    groups = [{**each, "props": {"id": UNKNOWN}} for each in (GROUP, OTHER)]
    rules = [
        {
            **each,
            "props": {**each["props"], "securityGroupId": UNKNOWN},
            "depends": {"securityGroupId": [group]},
        }
        for group, firsts in (("group", (12, 14)), ("other", (20, 22)))
        for each in half(group, "", firsts)
    ]
    assert ask("no-open-ingress", *groups, *rules) == []
    (found,) = ask("no-open-ingress", *groups, *rules, HIDDEN)
    assert found.urn.endswith("::nodes")


def test_known_groups_of_a_node_count_and_not_those_that_it_depends_on(ask: Ask) -> None:
    rules = [*half("a", "sg-1", (12, 14)), *half("b", "sg-2", (20, 22))]
    known = {**HIDDEN, "props": {"vpcSecurityGroupIds": ["sg-8", "sg-9"]}}
    assert ask("no-open-ingress", GROUP, OTHER, *rules, known) == []
    one = {**known, "props": {"vpcSecurityGroupIds": ["sg-1"]}, "depends": {}}
    (found,) = ask("no-open-admin-ports", GROUP, *half("a", "sg-1", (12, 14, 20)), one)
    assert "opens port 22 to" in found.message


@many
@given(blocks=wide_lists())
def test_cluster_open_to_much_of_the_internet_is_found(ask: Ask, blocks: list[str]) -> None:
    access = {"endpointPublicAccess": True, "endpointPrivateAccess": True, "publicAccessCidrs": blocks}
    assert ask("eks-endpoint-private", {"type": CLUSTER, "props": {"vpcConfig": access}})


@many
@given(blocks=few_lists().filter(bool))
def test_cluster_open_to_a_few_owners_passes(ask: Ask, blocks: list[str]) -> None:
    access = {"endpointPublicAccess": True, "endpointPrivateAccess": True, "publicAccessCidrs": blocks}
    assert ask("eks-endpoint-private", {"type": CLUSTER, "props": {"vpcConfig": access}}) == []


@pytest.mark.parametrize(
    "block", ["2002::/16", "2002:0100::/24", "64:ff9b::/96", "::ffff:0:0/96", "1.2.3.4/0"]
)
def test_address_that_stands_for_ipv4_is_as_wide(block: str) -> None:
    found = network(block)
    wide = block != "2002:0100::/24"
    assert found is not None
    assert (world([found]) is not None) == wide
