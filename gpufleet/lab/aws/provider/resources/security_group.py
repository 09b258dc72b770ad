"""Security groups and their inline rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from gpufleet.errors import CloudError
from gpufleet.lab.aws.provider.errors import keep_on_failure
from gpufleet.lab.aws.provider.handler import AutoName, Aws, Defaults, Handler
from gpufleet.lab.aws.provider.resources.ec2 import find, remove, retag, tag_spec
from gpufleet.lab.aws.provider.wire import Props

MANAGED = "Managed by Pulumi"
_ALL_TRAFFIC = {"-1", "all"}
_SOURCES = ("cidrBlocks", "ipv6CidrBlocks", "prefixListIds", "securityGroups")


def permission(rule: Mapping[str, Any], own_group: str) -> dict[str, Any]:
    """Return AWS' IpPermission of a rule of pulumi_aws; `self` means `own_group`."""
    protocol = str(rule["protocol"]).lower()
    made: dict[str, Any] = {"IpProtocol": "-1" if protocol in _ALL_TRAFFIC else protocol}
    if made["IpProtocol"] != "-1":
        made |= {"FromPort": int(rule["fromPort"]), "ToPort": int(rule["toPort"])}
    described = {"Description": rule["description"]} if rule.get("description") else {}
    groups = [*(rule.get("securityGroups") or ()), *([own_group] if rule.get("self") else ())]
    for member, key, values in (
        ("IpRanges", "CidrIp", rule.get("cidrBlocks")),
        ("Ipv6Ranges", "CidrIpv6", rule.get("ipv6CidrBlocks")),
        ("PrefixListIds", "PrefixListId", rule.get("prefixListIds")),
        ("UserIdGroupPairs", "GroupId", groups),
    ):
        if values:
            made[member] = [{key: value, **described} for value in values]
    return made


def rules_of(permissions: Iterable[Mapping[str, Any]], own_group: str) -> list[Props]:
    """Return rules in pulumi_aws' form, one per permission and description."""
    made: list[Props] = []
    for item in permissions:
        by_description: dict[str, Props] = {}
        for member, key, name in (
            ("IpRanges", "CidrIp", "cidrBlocks"),
            ("Ipv6Ranges", "CidrIpv6", "ipv6CidrBlocks"),
            ("PrefixListIds", "PrefixListId", "prefixListIds"),
            ("UserIdGroupPairs", "GroupId", "securityGroups"),
        ):
            for source in item.get(member) or ():
                text = source.get("Description", "")
                rule = by_description.setdefault(text, _blank(item, text))
                if name == "securityGroups" and source[key] == own_group:
                    rule["self"] = True
                else:
                    rule[name].append(source[key])
        made.extend(by_description.values())
    return made


def regrouped(declared: Iterable[Mapping[str, Any]], present: Iterable[Mapping[str, Any]]) -> list[Props]:
    """Group existing rules as the program declares them: AWS merges rules of equal ports.

    Sources that the program does not declare follow in AWS' own groups.
    """
    left = [_single(rule) for item in present for rule in _split(item)]
    made: list[Props] = []
    for rule in declared:
        taken = [part for part in (_single(item) for item in _split(rule)) if part in left]
        left = [part for part in left if part not in taken]
        if taken:
            made.append({**_merged(taken), **{key: rule[key] for key in ("protocol", "fromPort", "toPort")}})
    groups: dict[str, list[Props]] = {}
    for part in left:
        key = f"{part['protocol']} {part['fromPort']} {part['toPort']} {part['description']}"
        groups.setdefault(key, []).append(part)
    return made + [_merged(parts) for parts in groups.values()]


def _merged(parts: list[Props]) -> Props:
    made: Props = {
        **{key: parts[0][key] for key in ("protocol", "fromPort", "toPort", "description")},
        **{name: [] for name in _SOURCES},
        "self": any(part.get("self") for part in parts),
    }
    for part in parts:
        for name in _SOURCES:
            made[name] += part.get(name) or []
    return made


def _blank(item: Mapping[str, Any], description: str) -> Props:
    return {
        "protocol": item["IpProtocol"], "fromPort": item.get("FromPort", 0), "toPort": item.get("ToPort", 0),
        "description": description, "self": False, "cidrBlocks": [], "ipv6CidrBlocks": [],
        "prefixListIds": [],
        "securityGroups": [],
    }  # fmt: skip


def find_group(aws: Aws, rid: str) -> Props | None:
    """Return a security group's description."""
    return find(aws.client("ec2").describe_security_groups, "SecurityGroups", GroupIds=[rid])


def set_rules(aws: Aws, rid: str, *, ingress: list[Props] | None, egress: list[Props] | None) -> None:
    """Change the rules of a group to exactly those given; None does not change a direction."""
    group = find_group(aws, rid) or {}
    ec2 = aws.client("ec2")
    for wanted, member, revoke, authorize in (
        (ingress, "IpPermissions", ec2.revoke_security_group_ingress, ec2.authorize_security_group_ingress),
        (
            egress,
            "IpPermissionsEgress",
            ec2.revoke_security_group_egress,
            ec2.authorize_security_group_egress,
        ),
    ):
        if wanted is None:
            continue
        present = [_single(rule) for item in rules_of(group.get(member) or (), rid) for rule in _split(item)]
        targets = [_single(rule) for item in wanted for rule in _split(item)]
        gone = [dict(rule) for rule in present if rule not in targets]
        fresh = [dict(rule) for rule in targets if rule not in present]
        if gone:
            revoke(GroupId=rid, IpPermissions=[permission(rule, rid) for rule in gone])
        if fresh:
            authorize(GroupId=rid, IpPermissions=[permission(rule, rid) for rule in fresh])


def _split(rule: Mapping[str, Any]) -> list[Props]:
    """Return one rule per source, so that a change of one source does not affect the others."""
    fixed = {
        "protocol": str(rule["protocol"]), "fromPort": rule["fromPort"], "toPort": rule["toPort"],
        "description": rule.get("description") or "",
    }  # fmt: skip
    parts = [{**fixed, name: [source]} for name in _SOURCES for source in rule.get(name) or ()]
    return [*parts, {**fixed, "self": True}] if rule.get("self") else parts


def _single(rule: Props) -> Props:
    """Return a rule in one form: without ports if it applies to all traffic."""
    if str(rule["protocol"]).lower() in _ALL_TRAFFIC:
        return {**rule, "protocol": "-1", "fromPort": 0, "toPort": 0}
    return {**rule, "protocol": str(rule["protocol"]).lower()}


class _Group(Handler):
    """Shared parts of own groups and a VPC's default group."""

    computed = frozenset({"ingress", "egress", "vpcId"})
    sets = frozenset({"ingress", "egress"})

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The group and its rules."""
        found = find_group(aws, rid)
        if found is None:
            return None
        return {
            "arn": found.get("SecurityGroupArn") or aws.arn("ec2", f"security-group/{rid}"),
            "name": found["GroupName"],
            "description": found.get("Description"),
            "vpcId": found.get("VpcId"),
            "ownerId": found.get("OwnerId"),
            "ingress": regrouped(state.get("ingress") or (), rules_of(found.get("IpPermissions") or (), rid)),
            "egress": regrouped(
                state.get("egress") or (), rules_of(found.get("IpPermissionsEgress") or (), rid)
            ),
            "tags": {tag["Key"]: tag["Value"] for tag in found.get("Tags") or ()},
        }


class SecurityGroup(_Group):
    """aws.ec2.SecurityGroup."""

    pulumi_type = "aws:ec2/securityGroup:SecurityGroup"
    force_new = frozenset({"description", "name", "namePrefix", "vpcId"})
    defaults: ClassVar[Defaults] = {"description": MANAGED, "revokeRulesOnDelete": False}
    auto_name = AutoName()

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the group with exactly the declared rules, without AWS' own rule (all egress)."""
        ec2 = aws.client("ec2")
        where = {"VpcId": inputs["vpcId"]} if inputs.get("vpcId") else {}
        made = ec2.create_security_group(
            GroupName=inputs["name"],
            Description=inputs["description"],
            **where,
            **tag_spec("security-group", inputs),
        )
        rid = str(made["GroupId"])
        with keep_on_failure(rid):
            set_rules(aws, rid, ingress=inputs.get("ingress"), egress=inputs.get("egress") or [])
        return rid

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change rules and tags in place."""
        set_rules(
            aws, rid,
            ingress=(new.get("ingress") or []) if "ingress" in changed else None,
            egress=(new.get("egress") or []) if "egress" in changed else None,
        )  # fmt: skip
        retag(aws, rid, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the group and wait until it is gone."""
        if state.get("revokeRulesOnDelete"):
            set_rules(aws, rid, ingress=[], egress=[])
        ec2 = aws.client("ec2")
        remove(lambda: ec2.delete_security_group(GroupId=rid), lambda: find_group(aws, rid), rid)


class DefaultSecurityGroup(_Group):
    """aws.ec2.DefaultSecurityGroup: takes over a VPC's default group and sets its rules."""

    pulumi_type = "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup"
    force_new = frozenset({"vpcId"})
    computed = frozenset({"vpcId"})
    defaults: ClassVar[Defaults] = {"revokeRulesOnDelete": False}

    def create(self, aws: Aws, inputs: Props) -> str:
        """Take over the group; without declared rules it has none afterwards."""
        of_vpc = [{"Name": "group-name", "Values": ["default"]}]
        if inputs.get("vpcId"):
            of_vpc.append({"Name": "vpc-id", "Values": [inputs["vpcId"]]})
        found = find(aws.client("ec2").describe_security_groups, "SecurityGroups", Filters=of_vpc)
        if found is None:
            raise CloudError("the VPC has no default security group", remedy="check vpcId")
        rid = str(found["GroupId"])
        with keep_on_failure(rid):
            set_rules(aws, rid, ingress=inputs.get("ingress") or [], egress=inputs.get("egress") or [])
            retag(aws, rid, {}, inputs)
        return rid

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change rules and tags in place."""
        set_rules(aws, rid, ingress=new.get("ingress") or [], egress=new.get("egress") or [])
        retag(aws, rid, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Keep the group: AWS deletes it only with its VPC."""


HANDLERS = (SecurityGroup(), DefaultSecurityGroup())
