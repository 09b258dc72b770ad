"""Resources that give access to others without a policy document: permissions, shares, switches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpufleet.policies.rules.security._conditions import Condition
from gpufleet.policies.rules.security._patterns import has_wildcard
from gpufleet.resources.resource import Resource, is_unknown


def _anyone(value: Any) -> bool:
    return isinstance(value, str) and (has_wildcard(value) or value.strip().lower() == "all")


def _unblocked(value: Any) -> bool:
    return not (isinstance(value, str) and value.strip().lower().startswith("block"))


OPEN: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "aws:lambda/permission:Permission": ("principal", _anyone),
    "aws:lambda/layerVersionPermission:LayerVersionPermission": ("principal", _anyone),
    "aws:cloudwatch/eventPermission:EventPermission": ("principal", _anyone),
    "aws:ec2/amiLaunchPermission:AmiLaunchPermission": ("group", _anyone),
    "aws:ec2/snapshotCreateVolumePermission:SnapshotCreateVolumePermission": ("accountId", _anyone),
    "aws:ec2/vpcEndpointService:VpcEndpointService": ("allowedPrincipals", _anyone),
    "aws:ec2/vpcEndpointServiceAllowedPrinciple:VpcEndpointServiceAllowedPrinciple": (
        "principalArn",
        _anyone,
    ),
    "aws:ebs/snapshotBlockPublicAccess:SnapshotBlockPublicAccess": ("state", _unblocked),
    "aws:ec2/imageBlockPublicAccess:ImageBlockPublicAccess": ("state", _unblocked),
}
"""Type -> the property that says who gets access, and which of its values are for anyone."""

_ORGANISATIONS = ("principalOrgId", "organizationId")


def shares(resource: Resource) -> Iterator[str]:
    """Yield the paths at which a resource gives access to anyone. Unknown values do not count."""
    if resource.type not in OPEN:
        return
    prop, is_open = OPEN[resource.type]
    for path, value in resource.items(prop):
        if not is_unknown(value) and is_open(value) and not _in_organisation(resource):
            yield path


def _in_organisation(resource: Resource) -> bool:
    """Return whether a condition restricts it to one organisation."""
    conditions = [
        Condition("stringequals", "aws:principalorgid", (str(resource.get(each)),)) for each in _ORGANISATIONS
    ]
    operator, key, value = (str(resource.get(f"condition.{each}", "")) for each in ("type", "key", "value"))
    conditions.append(Condition(operator.lower(), key.lower(), (value,)))
    return any(each.restricts for each in conditions)
