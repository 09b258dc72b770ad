"""Pulumi resources as a `terraform show -json` plan, for tools that read only that.

pulumi_aws is generated from Terraform's provider: types map almost one to one, properties are the
same words in camel case, lists of blocks are plural, and a block that may stand once is an object.
The exceptions among the program's resources are in the tables below; they were found by comparing
pulumi_aws' inputs with the attribute names of @cdktf/provider-aws, which is generated from the same
provider. What is unknown before creation is left out of the values, marked under `after_unknown`,
and refers to the resources that it is computed from, as in a plan.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpufleet.resources.resource import UNKNOWN, Resource
from gpufleet.resources.stack import Stack

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
# Lists of blocks whose Terraform name is plural; all others are singular.
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
    (
        "aws_subnet",
        "enable_resource_name_dns_arecord_on_launch",
    ): "enable_resource_name_dns_a_record_on_launch",
}
# Objects with user-defined keys, not attributes of a block.
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
        known, unknown, expressions = _converted(resource, kind, names, stack)
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
    """Terraform address -> resource, for the results of a tool."""
    return {f"{kind}.{name}": stack.by_urn[urn] for urn, (kind, name) in _names(stack).items()}


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


@dataclass(frozen=True)
class _Reference:
    """A resource that a property is computed from, and the values by which it is recognised once known."""

    address: str
    values: frozenset[str]

    @staticmethod
    def to(name: tuple[str, str], resource: Resource) -> _Reference:
        known = (resource.get(attribute) for attribute in ("id", "arn", "name", "bucket"))
        return _Reference(".".join(name), frozenset(each for each in known if isinstance(each, str)))


def _expression(value: Any, refers: Sequence[_Reference]) -> dict[str, Any] | None:
    """What an attribute refers to: all that its property may, while it is unknown."""
    values = value if isinstance(value, (list, tuple)) else [value]
    found = [
        each.address
        for each in refers
        if any(item is UNKNOWN or (isinstance(item, str) and item in each.values) for item in values)
    ]
    return (
        {"references": [text for address in found for text in (f"{address}.id", address)]} if found else None
    )


_Parts = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


def _converted(resource: Resource, kind: str, names: Mapping[str, tuple[str, str]], stack: Stack) -> _Parts:
    references = {
        prop: [_Reference.to(names[urn], stack.by_urn[urn]) for urn in urns if urn in names]
        for prop, urns in resource.property_dependencies.items()
    }
    inputs = resource.props if resource.inputs is None else resource.inputs
    known, unknown, expressions = _attributes(kind, inputs, references)
    return known, {"id": True, "arn": True, **unknown}, expressions


def _attributes(
    kind: str, values: Mapping[str, Any], references: Mapping[str, Sequence[_Reference]]
) -> _Parts:
    """The known attributes, what is unknown among them, and what they refer to."""
    known: dict[str, Any] = {}
    unknown: dict[str, Any] = {}
    expressions: dict[str, Any] = {}
    for prop, value in values.items():
        key = _attribute(kind, prop, value)
        known_part, unknown_part, expression = _value(key, value, references.get(prop, ()))
        if unknown_part is not True:
            known[key] = known_part
        if unknown_part:
            unknown[key] = unknown_part
        if expression is not None:
            expressions[key] = expression
    return known, unknown, expressions


def _value(key: str, value: Any, refers: Sequence[_Reference]) -> tuple[Any, Any, Any]:
    """The known part, the unknown part (True: all of it) and the expression (None: a constant)."""
    if value is UNKNOWN:
        return None, True, _expression(value, refers)
    if isinstance(value, Mapping) and key in _MAPS:
        entries = {name: item for name, item in value.items() if item is not UNKNOWN}
        return entries, None, _expression(list(value.values()), refers)
    if isinstance(value, Mapping):
        block, unknown, expression = _block(value, refers)
        return [block], [unknown] if unknown else None, [expression]
    if isinstance(value, (list, tuple)) and any(isinstance(item, Mapping) for item in value):
        parts = [_block(item, refers) for item in value if isinstance(item, Mapping)]
        unknown_parts = [part[1] for part in parts]
        return (
            [part[0] for part in parts],
            unknown_parts if any(unknown_parts) else None,
            [part[2] for part in parts],
        )
    if isinstance(value, (list, tuple)):
        known = [None if item is UNKNOWN else item for item in value]
        unknown_items = [item is UNKNOWN for item in value]
        return known, unknown_items if any(unknown_items) else None, _expression(value, refers)
    return value, None, _expression(value, refers)


def _block(block: Mapping[str, Any], refers: Sequence[_Reference]) -> _Parts:
    return _attributes("", block, dict.fromkeys(block, refers))


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
