"""Security groups: the world in one piece or in several, in four resource types, and the EFA group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policies.rules.security._groups import rules
from gpufleet.policies.rules.security._networks import network, world
from gpufleet.policy import examples
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]

GROUP: Described = {"type": "aws:ec2/securityGroup:SecurityGroup", "name": "group"}
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
EGRESS = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
OLDER = "aws:ec2/securityGroupRule:SecurityGroupRule"
ON_GROUP = {"securityGroupId": ["group"]}
ITSELF = {"securityGroupId": ["group"], "referencedSecurityGroupId": ["group"]}
IN: Described = {
    "type": INGRESS,
    "name": "in",
    "props": {"ipProtocol": "-1", "referencedSecurityGroupId": UNKNOWN},
    "depends": ITSELF,
}
OUT: Described = {**IN, "type": EGRESS, "name": "out"}
NODES: Described = {
    "type": "aws:ec2/launchTemplate:LaunchTemplate",
    "name": "nodes",
    "props": {"networkInterfaces": [{"interfaceType": "efa", "securityGroups": [UNKNOWN]}]},
    "depends": {"networkInterfaces": ["group"]},
}
EFA = "efa-group-closed"


def rule(name: str, cidr: Any, **more: Any) -> Described:
    props = {"ipProtocol": "tcp", "fromPort": 443, "toPort": 443, "cidrIpv4": cidr, **more}
    return {"type": INGRESS, "name": name, "props": props, "depends": ON_GROUP}


@pytest.mark.parametrize(
    "cidrs",
    [
        ["0.0.0.0/0"],
        ["0.0.0.0/1", "128.0.0.0/1"],
        ["1.0.0.0/7"],
        [f"{first}.0.0.0/8" for first in range(64, 128)],
        ["::/0"],
        ["2000::/3"],
        ["64:ff9b::/96"],
        ["64:ff9b::/97", "64:ff9b::8000:0/97"],
        ["::/1", "8000::/1"],
        ["10.0.0.0/8", "0.0.0.0/2"],
    ],
)
def test_networks_that_together_cover_the_internet_are_the_world(cidrs: list[str]) -> None:
    assert world(block for each in cidrs if (block := network(each)) is not None) is not None


def test_private_addresses_inside_ipv6_do_not_count() -> None:
    blocks = [network(each) for each in ("12.0.0.0/8", "14.0.0.0/8", "64:ff9b::a00:0/104", "2002:a00::/24")]
    assert world(each for each in blocks if each is not None) is None


@pytest.mark.parametrize(
    "cidrs", [[], ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"], ["fc00::/7"], ["3.0.0.0/8", "5.0.0.0/8"]]
)
def test_networks_of_one_owner_are_not_the_world(cidrs: list[str]) -> None:
    assert world(block for each in cidrs if (block := network(each)) is not None) is None


def test_world_split_over_many_rules_of_one_group_is_found(ask: Ask) -> None:
    parts = [rule(f"part-{first}", f"{first}.0.0.0/8") for first in range(128, 160)]
    (found,) = ask("no-open-ingress", GROUP, *parts)
    assert "128.0.0.0/3" in found.message


def test_same_networks_in_two_groups_are_not_the_world(ask: Ask) -> None:
    other = {**GROUP, "name": "other"}
    elsewhere = {**rule("b", "13.0.0.0/8"), "depends": {"securityGroupId": ["other"]}}
    assert ask("no-open-ingress", GROUP, other, rule("a", "12.0.0.0/8"), elsewhere) == []


def test_open_admin_port_is_found_if_the_port_itself_is_allowed(ask: Ask) -> None:
    ssh = rule("ssh", "0.0.0.0/0", fromPort=22, toPort=22)
    assert ask("no-open-ingress", GROUP, ssh, settings={"ports": [22]}) == []
    (found,) = ask("no-open-admin-ports", GROUP, ssh)
    assert "port 22 " in found.message


def test_open_range_lists_all_its_admin_ports_once(ask: Ask) -> None:
    (found,) = ask("no-open-admin-ports", GROUP, rule("all", "::/0", fromPort=0, toPort=4000))
    assert "22, 3389, 2049, 988" in found.message
    assert "6443" not in found.message


def test_admin_port_open_in_halves_over_two_ranges_is_found(ask: Ask) -> None:
    halves = [
        rule(f"half-{index}", f"{64 + index}.0.0.0/8", fromPort=20, toPort=22 + index) for index in range(64)
    ]
    (found,) = ask("no-open-admin-ports", GROUP, *halves)
    assert "port 22" in found.message


@pytest.mark.parametrize("protocol", ["-1", "all", -1, UNKNOWN, "TCP", "6"])
def test_all_unknown_and_numeric_tcp_protocols_cover_ssh(ask: Ask, protocol: Any) -> None:
    assert ask(
        "no-open-admin-ports", GROUP, rule("r", "0.0.0.0/0", ipProtocol=protocol, fromPort=22, toPort=22)
    )


@pytest.mark.parametrize(
    ("first", "last"),
    [(UNKNOWN, 22), (22, UNKNOWN), (-1, -1), ("-1", 0), (None, None), ("22", " 22"), (True, 5), ("ssh", 5)],
)
def test_range_that_is_not_known_or_no_number_may_have_every_port(ask: Ask, first: Any, last: Any) -> None:
    assert ask("no-open-admin-ports", GROUP, rule("r", "0.0.0.0/0", fromPort=first, toPort=last))


@pytest.mark.parametrize(
    ("protocol", "ports", "written"),
    [
        ("tcp", (443, 443), "opens tcp 443 to"),
        ("udp", (443, 500), "opens udp 443-500 to"),
        ("-1", (443, 443), "opens all traffic to"),
    ],
)
def test_message_has_the_protocol_and_its_ports(
    ask: Ask, protocol: str, ports: tuple[int, int], written: str
) -> None:
    (found,) = ask(
        "no-open-ingress",
        GROUP,
        rule("r", "0.0.0.0/0", ipProtocol=protocol, fromPort=ports[0], toPort=ports[1]),
    )
    assert written in found.message


@pytest.mark.parametrize("port", [22, 443])
def test_ports_of_an_inline_rule_are_those_of_the_rule(ask: Ask, port: int) -> None:
    inline = {"protocol": "tcp", "fromPort": port, "toPort": port, "cidrBlocks": ["0.0.0.0/0"]}
    group = {**GROUP, "props": {"ingress": [inline]}}
    assert bool(ask("no-open-admin-ports", group)) == (port == 22)
    assert ask("no-open-ingress", group)


def test_older_rule_counts_for_its_own_direction(ask: Ask) -> None:
    def older(kind: str) -> Described:
        return {"type": OLDER, "props": {"type": kind, "protocol": "tcp", "cidrBlocks": ["0.0.0.0/0"]}}

    assert ask("no-open-ingress", older("egress")) == []
    assert ask("no-open-egress", older("ingress")) == []
    assert ask("no-open-ingress", older("ingress"))
    assert ask("no-open-egress", older("egress"))


def test_rules_of_a_stack_are_read_once() -> None:
    stack = examples.stack([GROUP, rule("r", "10.0.0.0/8")])
    assert rules(stack) is rules(stack)


def test_icmp_and_other_ports_are_not_admin_ports(ask: Ask) -> None:
    assert (
        ask("no-open-admin-ports", GROUP, rule("r", "0.0.0.0/0", ipProtocol="icmp", fromPort=8, toPort=0))
        == []
    )
    types = rule("r", "0.0.0.0/0", ipProtocol="icmp", fromPort=3, toPort=30)
    assert ask("no-open-admin-ports", GROUP, types) == []
    text = rule("r", "0.0.0.0/0", fromPort="443", toPort="443")
    assert ask("no-open-admin-ports", GROUP, text) == []
    assert ask("no-open-admin-ports", GROUP, rule("r", "0.0.0.0/0")) == []


def test_allowed_port_may_be_open_as_single_port_and_not_in_a_range(ask: Ask) -> None:
    settings = {"ports": [443]}
    assert ask("no-open-ingress", GROUP, rule("r", "0.0.0.0/0"), settings=settings) == []
    assert ask("no-open-ingress", GROUP, rule("r", "0.0.0.0/0", toPort=444), settings=settings)
    assert ask("no-open-ingress", GROUP, rule("r", "0.0.0.0/0", ipProtocol="-1"), settings=settings)


def test_prefix_list_of_the_stack_is_as_wide_as_its_entries(ask: Ask) -> None:
    names = {"type": "aws:ec2/managedPrefixList:ManagedPrefixList", "name": "list"}
    narrow = {**names, "props": {"entries": [{"cidr": "203.0.113.0/24"}]}}
    uses = {
        "type": INGRESS,
        "name": "uses",
        "props": {"ipProtocol": "tcp", "prefixListId": UNKNOWN},
        "depends": {"prefixListId": ["list"], **ON_GROUP},
    }
    added = {
        "type": "aws:ec2/managedPrefixListEntry:ManagedPrefixListEntry",
        "name": "added",
        "props": {"cidr": "0.0.0.0/0"},
        "depends": {"prefixListId": ["list"]},
    }
    assert ask("no-open-ingress", GROUP, narrow, uses) == []
    assert ask("no-open-ingress", GROUP, {**names, "props": {"entries": [{"cidr": "::/0"}]}}, uses)
    assert ask("no-open-ingress", GROUP, narrow, added, uses)


def test_foreign_prefix_list_fails_closed_unless_it_is_trusted(ask: Ask) -> None:
    uses = {"type": INGRESS, "props": {"ipProtocol": "tcp", "prefixListId": "pl-1234"}}
    (found,) = ask("no-open-ingress", uses)
    assert found.violation.unknown
    assert ask("no-open-ingress", uses, settings={"prefix_lists": True}) == []


def test_trusted_prefix_lists_make_no_network_known(ask: Ask) -> None:
    hidden = rule("r", UNKNOWN)
    (found,) = ask("no-open-ingress", GROUP, hidden, settings={"prefix_lists": True})
    assert found.violation.unknown


def test_group_under_ignore_changes_is_found_with_any_rule(ask: Ask) -> None:
    inline = {"ingress": [{"protocol": "tcp", "securityGroups": ["sg-1"]}]}
    group = {**GROUP, "props": inline}
    assert ask("no-open-ingress", group) == []
    (found,) = ask("no-open-ingress", {**group, "options": {"ignoreChanges": ["ingress"]}})
    assert "ignoreChanges" in found.message


def test_other_property_of_a_rule_may_be_under_ignore_changes(ask: Ask) -> None:
    props = {"ipProtocol": "tcp", "referencedSecurityGroupId": "sg-1"}
    described = {"type": INGRESS, "name": "in", "props": props, "options": {"ignoreChanges": ["description"]}}
    assert ask("no-open-ingress", described) == []


def test_rule_with_an_unknown_direction_counts_as_ingress(ask: Ask) -> None:
    props = {"type": UNKNOWN, "protocol": "tcp", "cidrBlocks": ["0.0.0.0/0"]}
    assert ask("no-open-ingress", {"type": OLDER, "props": props})


def test_egress_to_the_world_is_allowed_only_for_web_ports(ask: Ask) -> None:
    def out(**props: Any) -> Described:
        return {"type": EGRESS, "props": {"cidrIpv4": "0.0.0.0/0", **props}}

    assert ask("no-open-egress", out(ipProtocol="tcp", fromPort=443, toPort=443)) == []
    assert ask("no-open-egress", out(ipProtocol="tcp", fromPort=443, toPort=444))
    assert ask("no-open-egress", out(ipProtocol="-1"))
    assert ask("no-open-egress", out(ipProtocol="-1", cidrIpv4="0.0.0.0/1"))
    (wide,) = ask("no-open-egress", out(ipProtocol="-1"))
    assert "allows all traffic to 0.0.0.0/0, and" in wide.message
    (unknown,) = ask("no-open-egress", out(ipProtocol="-1", cidrIpv4=UNKNOWN))
    assert unknown.violation.unknown
    assert "to unknown networks, and" in unknown.message
    assert ask("no-open-egress", out(ipProtocol="-1", cidrIpv4=None, prefixListId="pl-s3")) == []
    assert ask("no-open-egress", out(ipProtocol="-1", cidrIpv4="10.0.0.0/8")) == []


def test_default_security_group_of_every_vpc_must_be_closed(ask: Ask) -> None:
    vpc = {"type": "aws:ec2/vpc:Vpc", "name": "vpc"}
    other = {"type": "aws:ec2/vpc:Vpc", "name": "other"}
    closed = {
        "type": "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
        "name": "closed",
        "depends": {"vpcId": ["vpc"]},
    }
    (found,) = ask("default-security-group-closed", vpc, other, closed)
    assert found.urn.endswith("::other")


@pytest.mark.parametrize("depends", [["group"], ["group", "vpc"], []])
def test_separate_rule_on_another_group_leaves_the_default_one_closed(ask: Ask, depends: list[str]) -> None:
    vpc = {"type": "aws:ec2/vpc:Vpc", "name": "vpc"}
    closed = {
        "type": "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
        "name": "closed",
        "depends": {"vpcId": ["vpc"]},
    }
    added = {**rule("added", "10.0.0.0/8"), "depends": {"securityGroupId": depends}}
    assert ask("default-security-group-closed", vpc, closed, GROUP, added) == []


@pytest.mark.parametrize("kind", [INGRESS, EGRESS, OLDER])
@pytest.mark.parametrize("target", ["vpc", "closed"])
def test_separate_rule_on_the_default_group_is_found(ask: Ask, kind: str, target: str) -> None:
    vpc = {"type": "aws:ec2/vpc:Vpc", "name": "vpc"}
    closed = {
        "type": "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
        "name": "closed",
        "depends": {"vpcId": ["vpc"]},
    }
    added = {"type": kind, "name": "added", "depends": {"securityGroupId": [target]}}
    (found,) = ask("default-security-group-closed", vpc, closed, added)
    assert found.urn.endswith("::added")


def test_default_vpc_counts(ask: Ask) -> None:
    default = {"type": "aws:ec2/defaultVpc:DefaultVpc", "name": "default"}
    assert ask("default-security-group-closed", default)
    assert ask("vpc-flow-logs", default)


def test_efa_group_with_exactly_both_rules_passes(ask: Ask) -> None:
    assert ask(EFA, GROUP, IN, OUT, NODES) == []


@pytest.mark.parametrize("left", [(IN,), (OUT,), ()], ids=["no egress", "no ingress", "no rules"])
def test_efa_group_without_a_rule_to_or_from_itself_is_found(ask: Ask, left: tuple[Described, ...]) -> None:
    (found,) = ask(EFA, GROUP, *left, NODES)
    assert "all traffic" in found.message


@pytest.mark.parametrize(
    "extra",
    [
        {"type": INGRESS, "props": {"ipProtocol": "tcp", "cidrIpv4": "10.0.0.0/8"}, "depends": ON_GROUP},
        {"type": EGRESS, "props": {"ipProtocol": "tcp", "cidrIpv4": "0.0.0.0/0"}, "depends": ON_GROUP},
        {
            "type": INGRESS,
            "props": {"ipProtocol": "-1", "referencedSecurityGroupId": UNKNOWN},
            "depends": {"securityGroupId": ["group"], "referencedSecurityGroupId": ["other"]},
        },
        {
            "type": OLDER,
            "props": {"type": "ingress", "protocol": "-1", "cidrBlocks": ["10.0.0.0/8"]},
            "depends": ON_GROUP,
        },
        {
            "type": OLDER,
            "props": {"type": "ingress", "protocol": "tcp", "sourceSecurityGroupId": "sg-elsewhere"},
            "depends": ON_GROUP,
        },
        {"type": INGRESS, "props": {"ipProtocol": "-1", "prefixListId": "pl-1"}, "depends": ON_GROUP},
    ],
)
def test_extra_rule_on_the_efa_group_is_found(ask: Ask, extra: Described) -> None:
    other = {**GROUP, "name": "other"}
    (found,) = ask(EFA, GROUP, other, IN, OUT, {**extra, "name": "extra"}, NODES)
    assert "extra" in found.message


def test_rule_for_some_ports_is_not_all_traffic(ask: Ask) -> None:
    tcp = {**IN, "props": {**IN["props"], "ipProtocol": "tcp", "fromPort": 0, "toPort": 65535}}
    assert ask(EFA, GROUP, tcp, OUT, NODES)


@pytest.mark.parametrize(
    ("inward", "outward"),
    [
        (
            {"type": OLDER, "props": {"type": "ingress", "protocol": "-1", "self": True}},
            {"type": OLDER, "props": {"type": "egress", "protocol": "-1", "self": True}},
        ),
        (
            {"type": OLDER, "props": {"type": "ingress", "protocol": "all", "self": True}},
            {"type": EGRESS, "props": {"ipProtocol": "-1"}, "depends": ITSELF},
        ),
        (
            {
                "type": OLDER,
                "props": {"type": "ingress", "protocol": "-1", "sourceSecurityGroupId": UNKNOWN},
                "depends": {**ON_GROUP, "sourceSecurityGroupId": ["group"]},
            },
            {"type": OLDER, "props": {"type": "egress", "protocol": "-1", "self": True}},
        ),
    ],
)
def test_legacy_rule_resources_count_for_an_efa_group(
    ask: Ask, inward: Described, outward: Described
) -> None:
    rules = [{"depends": ON_GROUP, **each, "name": name} for each, name in ((inward, "in"), (outward, "out"))]
    assert ask(EFA, GROUP, *rules, NODES) == []


def test_inline_rules_count_for_an_efa_group_and_extra_ones_are_found(ask: Ask) -> None:
    itself = {"protocol": "-1", "self": True}
    inline = {**GROUP, "props": {"ingress": [itself], "egress": [itself]}}
    assert ask(EFA, inline, NODES) == []
    wider = {"protocol": "tcp", "cidrBlocks": ["10.0.0.0/8"]}
    assert ask(EFA, {**GROUP, "props": {"ingress": [itself, wider], "egress": [itself]}}, NODES)
    assert ask(EFA, {**GROUP, "props": {"ingress": UNKNOWN, "egress": [itself]}}, NODES)


@pytest.mark.parametrize("groups", [[], ["sg-elsewhere"], None])
def test_efa_interface_without_a_group_of_this_stack_is_found(ask: Ask, groups: Any) -> None:
    interface = {"interfaceType": "EFA-only", **({} if groups is None else {"securityGroups": groups})}
    template = {**NODES, "props": {"networkInterfaces": [interface]}}
    assert ask(EFA, GROUP, IN, OUT, template)


def test_each_of_several_efa_interfaces_needs_the_group(ask: Ask) -> None:
    good = {"interfaceType": "efa", "securityGroups": [UNKNOWN]}
    bad = {"interfaceType": "efa-only", "securityGroups": ["sg-elsewhere"]}
    (found,) = ask(EFA, GROUP, IN, OUT, {**NODES, "props": {"networkInterfaces": [good, bad]}})
    assert found.violation.prop == "networkInterfaces[1].securityGroups"


def test_file_systems_and_network_interfaces_with_efa_are_judged(ask: Ask) -> None:
    system = {
        "type": "aws:fsx/lustreFileSystem:LustreFileSystem",
        "name": "fs",
        "props": {"efaEnabled": True, "securityGroupIds": [UNKNOWN]},
        "depends": {"securityGroupIds": ["group"]},
    }
    interface = {
        "type": "aws:ec2/networkInterface:NetworkInterface",
        "name": "eni",
        "props": {"interfaceType": "efa", "securityGroups": ["sg-elsewhere"]},
    }
    assert ask(EFA, GROUP, IN, OUT, system) == []
    assert ask(EFA, GROUP, OUT, system)
    assert ask(EFA, GROUP, IN, OUT, interface)


def test_ordinary_interfaces_need_no_efa_group(ask: Ask) -> None:
    plain = {"networkInterfaces": [{"interfaceType": "interface", "securityGroups": ["sg-elsewhere"]}]}
    assert ask(EFA, {**NODES, "props": plain, "depends": {}}) == []


@pytest.mark.parametrize(
    ("left", "reason"),
    [
        ((IN,), "group: it has no rule for all traffic to itself"),
        ((OUT,), "group: it has no rule for all traffic from itself"),
        ((), "from itself; it has no rule for all traffic to itself"),
    ],
)
def test_message_says_which_direction_of_an_efa_group_is_missing(
    ask: Ask, left: tuple[Described, ...], reason: str
) -> None:
    (found,) = ask(EFA, GROUP, *left, NODES)
    assert found.message.partition(reason)[1]
    assert "elsewhere" not in found.message


def test_all_traffic_of_others_is_not_that_of_the_group(ask: Ask) -> None:
    wide = {"type": INGRESS, "name": "in", "props": {"ipProtocol": "-1", "cidrIpv4": "10.0.0.0/8"}}
    (found,) = ask(EFA, GROUP, {**wide, "depends": ON_GROUP}, OUT, NODES)
    assert "it has no rule for all traffic from itself; in allows all traffic from elsewhere" in found.message


@pytest.mark.parametrize(
    "peer",
    [
        {"cidrBlocks": ["10.0.0.0/8"]},
        {"prefixListIds": ["pl-elsewhere"]},
        {"securityGroups": ["sg-elsewhere"]},
        {"securityGroups": UNKNOWN},
    ],
)
def test_rule_of_an_efa_group_for_itself_and_for_another_peer_is_found(
    ask: Ask, peer: dict[str, Any]
) -> None:
    itself = {"protocol": "-1", "self": True}
    assert ask(EFA, {**GROUP, "props": {"ingress": [{**itself, **peer}], "egress": [itself]}}, NODES)
    empty = {"protocol": "-1", "self": True, "securityGroups": []}
    assert ask(EFA, {**GROUP, "props": {"ingress": [empty], "egress": [itself]}}, NODES) == []


def test_rule_of_an_efa_group_for_nobody_or_with_an_unknown_protocol_is_found(ask: Ask) -> None:
    itself = {"protocol": "-1", "self": True}
    nobody = {"protocol": "tcp", "self": False}
    assert ask(EFA, {**GROUP, "props": {"ingress": [itself, nobody], "egress": [itself]}}, NODES)
    hidden = {**IN, "props": {**IN["props"], "ipProtocol": UNKNOWN}}
    assert ask(EFA, GROUP, hidden, OUT, NODES)


def test_group_with_an_unknown_id_is_the_one_that_the_interface_depends_on(ask: Ask) -> None:
    unknown = {"props": {"id": UNKNOWN}}
    other = {**GROUP, **unknown, "name": "other"}
    nodes = {**NODES, "depends": {"networkInterfaces": ["other"]}}
    assert ask(EFA, other, {**GROUP, **unknown}, IN, OUT, nodes)


@pytest.mark.parametrize("interfaces", [[UNKNOWN], UNKNOWN, [{"interfaceType": UNKNOWN}]])
def test_interface_that_is_not_known_may_be_of_efa(ask: Ask, interfaces: Any) -> None:
    (found,) = ask(EFA, {**NODES, "props": {"networkInterfaces": interfaces}, "depends": {}})
    assert "needs a security group" in found.message


@pytest.mark.parametrize(
    ("kind", "props"),
    [
        ("aws:ec2/networkInterface:NetworkInterface", {"interfaceType": "interface"}),
        ("aws:fsx/lustreFileSystem:LustreFileSystem", {"efaEnabled": False}),
        ("aws:fsx/lustreFileSystem:LustreFileSystem", {}),
    ],
)
def test_device_without_efa_needs_no_group(ask: Ask, kind: str, props: dict[str, Any]) -> None:
    assert ask(EFA, {"type": kind, "name": "device", "props": props}) == []


def test_ssh_key_without_source_groups_opens_ssh_to_the_world(ask: Ask) -> None:
    kind = "aws:eks/nodeGroup:NodeGroup"
    rule_name = "node-ssh-restricted"
    for access in ({"ec2SshKey": "k"}, {"ec2SshKey": "k", "sourceSecurityGroupIds": []}, UNKNOWN):
        assert ask(rule_name, {"type": kind, "props": {"remoteAccess": access}})
    assert ask(rule_name, {"type": kind, "props": {}}) == []
    without_key = {"remoteAccess": {"sourceSecurityGroupIds": []}}
    assert ask(rule_name, {"type": kind, "props": without_key}) == []
    named = {"ec2SshKey": UNKNOWN, "sourceSecurityGroupIds": [UNKNOWN]}
    assert ask(rule_name, {"type": kind, "props": {"remoteAccess": named}}) == []
