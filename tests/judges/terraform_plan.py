"""Resources of a Pulumi stack as `terraform show -json` gives a plan, for judges that read nothing else.

pulumi_aws is generated from Terraform's provider: types map almost one to one, properties are the
same words in camel case, lists of blocks are plural, and a block that may stand once is an object.
The exceptions among what our program emits are in the tables below; they were found by comparing
pulumi_aws' inputs with the attribute names of @cdktf/provider-aws, which is generated from the same
provider. What is unknown before creation is left out of the values, marked under `after_unknown`,
and refers to the resources that it is computed from, as in a plan.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpufleet.policy.resource import UNKNOWN, Resource
from gpufleet.policy.stack import Stack

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")

# Modules whose name is no part of Terraform's type name, and those that are called otherwise there.
_MODULES = {"ec2": "", "vpc": "", "ebs": "ebs", "index": "", "costexplorer": "ce"}
_TYPES = {
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": "aws_vpc_security_group_egress_rule",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": "aws_vpc_security_group_ingress_rule",
    "aws:ec2/capacityReservation:CapacityReservation": "aws_ec2_capacity_reservation",
    "aws:ec2/capacityBlockReservation:CapacityBlockReservation": "aws_ec2_capacity_block_reservation",
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider": "aws_iam_openid_connect_provider",
}
# Lists of blocks whose Terraform name is plural too; all other ones are singular there.
_PLURAL_BLOCKS = frozenset({"block_device_mappings", "network_interfaces", "tag_specifications"})
_SINGULAR = {
    "grants": "grant",
    "ingress": "ingress",
    "egress": "egress",
    "default_network_acl_ingress": "ingress",
}
_RENAMED = {
    ("aws_autoscaling_group", "vpc_zone_identifiers"): "vpc_zone_identifier",
    ("aws_sns_topic_subscription", "topic"): "topic_arn",
    ("aws_subnet", "enable_resource_name_dns_arecord_on_launch"): "enable_resource_name_dns_a_record_on_launch",
}
# Objects that hold the user's own keys, not a block's attributes.
_MAPS = frozenset({"tags", "tags_all", "variables", "parameters", "labels"})


def terraform_type(token: str) -> str:
    """The Terraform type of a type token of pulumi_aws (`aws:kms/key:Key` -> `aws_kms_key`)."""
    if token in _TYPES:
        return _TYPES[token]
    _, module, name = token.split(":")
    folder = module.split("/")[0]
    prefix = _MODULES.get(folder, folder)
    return "_".join(filter(None, ["aws", prefix, _snake(name)]))


def terraform_plan(stack: Stack) -> dict[str, Any]:
    """The plan that creates the aws resources of the stack."""
    names = _names(stack)
    values, changes, configuration = [], [], []
    for resource in stack:
        if not resource.type.startswith("aws:"):
            continue
        kind, name = names[resource.urn]
        known, unknown, expressions = _converted(resource, kind, names)
        identity = {"address": f"{kind}.{name}", "mode": "managed", "type": kind, "name": name}
        provider = "registry.terraform.io/hashicorp/aws"
        values.append({**identity, "provider_name": provider, "schema_version": 0, "values": known})
        changes.append(
            {
                **identity,
                "provider_name": provider,
                "change": {"actions": ["create"], "before": None, "after": known, "after_unknown": unknown},
            }
        )
        configuration.append({**identity, "provider_config_key": "aws", "expressions": expressions})
    return {
        "format_version": "1.2",
        "terraform_version": "1.9.8",
        "planned_values": {"root_module": {"resources": values}},
        "resource_changes": changes,
        "configuration": {"root_module": {"resources": configuration}},
    }


def addresses(stack: Stack) -> dict[str, Resource]:
    """Terraform address -> resource, for what a judge says of an address."""
    return {
        f"{kind}.{name}": stack.by_urn[urn]
        for urn, (kind, name) in _names(stack).items()
    }


def _names(stack: Stack) -> dict[str, tuple[str, str]]:
    taken: Counter[tuple[str, str]] = Counter()
    found: dict[str, tuple[str, str]] = {}
    for resource in stack:
        if not resource.type.startswith("aws:"):
            continue
        kind, name = terraform_type(resource.type), _NOT_IN_NAMES.sub("_", resource.name)
        taken[kind, name] += 1
        count = taken[kind, name]
        found[resource.urn] = (kind, name if count == 1 else f"{name}_{count}")
    return found


@dataclass
class _Walk:
    """Conversion of one property: the references go where its unknown parts are."""

    kind: str
    references: list[str]
    expressions: dict[str, Any] = field(default_factory=dict)


def _converted(
    resource: Resource, kind: str, names: Mapping[str, tuple[str, str]]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    inputs = resource.props if resource.inputs is None else resource.inputs
    references: dict[str, list[str]] = {}
    for prop, urns in resource.property_dependencies.items():
        for urn in urns:
            if urn in names:
                address = ".".join(names[urn])
                references.setdefault(prop, []).extend((f"{address}.id", address))
    known: dict[str, Any] = {}
    unknown: dict[str, Any] = {"id": True, "arn": True}
    expressions: dict[str, Any] = {}
    for prop, value in inputs.items():
        key = _attribute(kind, prop, value)
        refers = references.get(prop, [])
        known_part, unknown_part, expression = _value(key, value, refers)
        if unknown_part is not True:
            known[key] = known_part
        if unknown_part:
            unknown[key] = unknown_part
        if expression is not None:
            expressions[key] = expression
        if refers and expression is None:
            expressions[key] = {"references": refers}
    return known, unknown, expressions


def _value(key: str, value: Any, refers: list[str]) -> tuple[Any, Any, Any]:
    """The known part, the unknown part (True: all of it) and the expression (None: a constant)."""
    if value is UNKNOWN:
        return None, True, {"references": refers}
    if isinstance(value, Mapping):
        if key in _MAPS:
            entries = {name: item for name, item in value.items() if item is not UNKNOWN}
            return entries, {}, {"references": refers} if refers else None
        block, unknown, expression = _block(value, refers)
        return [block], [unknown] if unknown else None, [expression]
    if isinstance(value, (list, tuple)):
        if any(isinstance(item, Mapping) for item in value):
            parts = [_block(item, refers) for item in value if isinstance(item, Mapping)]
            return (
                [part[0] for part in parts],
                [part[1] for part in parts] if any(part[1] for part in parts) else None,
                [part[2] for part in parts],
            )
        if any(item is UNKNOWN for item in value):
            items = [None if item is UNKNOWN else item for item in value]
            return items, [item is UNKNOWN for item in value], {"references": refers}
        return list(value), None, None
    return value, None, None


def _block(block: Mapping[str, Any], refers: list[str]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    known: dict[str, Any] = {}
    unknown: dict[str, Any] = {}
    expressions: dict[str, Any] = {}
    for prop, value in block.items():
        key = _attribute("", prop, value)
        known_part, unknown_part, expression = _value(key, value, refers)
        if unknown_part is not True:
            known[key] = known_part
        if unknown_part:
            unknown[key] = unknown_part
        if expression is not None:
            expressions[key] = expression
    return known, unknown, expressions


def _attribute(kind: str, prop: str, value: Any) -> str:
    name = _snake(prop)
    if (kind, name) in _RENAMED:
        return _RENAMED[kind, name]
    blocks = isinstance(value, (list, tuple)) and any(isinstance(item, Mapping) for item in value)
    return _singular(name) if blocks and name not in _PLURAL_BLOCKS else name


def _singular(name: str) -> str:
    if name in _SINGULAR or name.endswith("ss"):
        return _SINGULAR.get(name, name)
    if name.endswith("ies"):
        return f"{name[:-3]}y"
    return name.removesuffix("s")


def _snake(name: str) -> str:
    return _HUMP.sub("_", name).lower()
