"""Finds AWS resources by their name, else by their tags.

Everything that gpufleet creates has the tags of its fleet, environment and site and a `Name` that is unique
in its type, so type and tags identify one resource. AWS's tagging API finds it (the function
`aws:resourcegroupstaggingapi/getResources` of the provider, in the resource's account and region); a resource
counts only if reading it shows the tags.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Any
from urllib.parse import urlparse

from gpufleet.engine.embedded.recovery.aws_ids import (
    ASSOCIATION,
    BUCKET,
    BY_ARN,
    DERIVED,
    NAMED,
    REPEATABLE,
    TAGGED,
)
from gpufleet.engine.embedded.recovery.search import (
    Answer,
    Candidates,
    ProviderCall,
    RepeatableCreation,
    UnknownResult,
)
from gpufleet.engine.embedded.resource import ResourceState
from gpufleet.engine.embedded.values import reveal
from gpufleet.engine.errors import ProviderError

_SETTLE_S = 20.0
_LATE = "GPUFLEET_AWS_LATE_S"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_MANY_FILTERS = 50


class AwsFinder:
    """The finder of the package `aws`."""

    def visibility_delay_s(self, env: Mapping[str, str]) -> float:
        """Return the delay of AWS's own APIs after a creation, in seconds; 0 for an emulator by default."""
        endpoint = urlparse(env.get("AWS_ENDPOINT_URL") or "").hostname
        if endpoint not in _LOOPBACK:
            return _SETTLE_S
        late = float(env.get(_LATE) or 0)
        # The delay starts with AWS's answer; ours starts with the last journal line before it.
        return late + 1.0 if late else 0.0

    def find(self, wanted: ResourceState, ask: ProviderCall) -> Answer:
        """Return the ids that the resource may have, if it was created."""
        inputs: dict[str, Any] = reveal(wanted.inputs)
        if wanted.type in REPEATABLE:
            return RepeatableCreation()
        if wanted.type == BUCKET:
            return _bucket(inputs, ask)
        if wanted.type in NAMED:
            return _by_name(NAMED[wanted.type], inputs, ask)
        if wanted.type in DERIVED:
            identifier = DERIVED[wanted.type](inputs)
            return Candidates((identifier,)) if identifier else UnknownResult("its inputs do not name it")
        if wanted.type == ASSOCIATION:
            return _by_subnet(inputs, ask)
        if wanted.type in TAGGED:
            return _by_tags(TAGGED[wanted.type], inputs, ask)
        return UnknownResult(f"a {wanted.type} cannot be searched")

    def matches(self, wanted: ResourceState, outputs: Mapping[str, Any]) -> bool:
        """Return whether it has the requested tags: another owner may use the same name."""
        asked, have = _tags(wanted.inputs), _tags(outputs)
        return all(have.get(key) == value for key, value in asked.items())


def _tags(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tags of a resource; an Auto Scaling group has them as a list."""
    tags = reveal(properties.get("tags")) or {}
    return tags if isinstance(tags, dict) else {item["key"]: item["value"] for item in tags}


def _by_name(template: str, inputs: Mapping[str, Any], ask: ProviderCall) -> Answer:
    fields = {name for _, name, _, _ in Formatter().parse(template) if name}
    values: dict[str, Any] = {"path": "/", **{key: value for key, value in inputs.items() if value}}
    where = {"region": inputs["region"]} if inputs.get("region") else {}
    if "account" in fields:
        values["account"] = ask("aws:index/getCallerIdentity:getCallerIdentity", {})["accountId"]
    if "partition" in fields:
        values["partition"] = ask("aws:index/getPartition:getPartition", {})["partition"]
    if "region" in fields:
        values["region"] = ask("aws:index/getRegion:getRegion", where)["region"]
    missing = sorted(fields - values.keys())
    if missing:
        return UnknownResult(f"its inputs do not have {', '.join(missing)}, which determine its name")
    return Candidates((template.format_map(values),))


def _bucket(inputs: Mapping[str, Any], ask: ProviderCall) -> Answer:
    """Find a bucket. Tags are set by a second call, so an empty bucket of its name without tags is also it.

    Buckets of other accounts cannot be read.
    """
    found = _by_name(NAMED[BUCKET], inputs, ask)
    if not isinstance(found, Candidates):
        return found
    try:
        arguments = {"bucket": found.ids[0], "maxKeys": 1}
        objects = ask("aws:s3/getObjects:getObjects", _in_region(arguments, inputs))
    except ProviderError:
        return found
    return Candidates(found.ids, bare=not objects.get("keys"))


def _by_subnet(inputs: Mapping[str, Any], ask: ProviderCall) -> Answer:
    subnet = inputs.get("subnetId")
    if not subnet:
        return UnknownResult("it is not the association of a subnet")
    try:
        table = ask("aws:ec2/getRouteTable:getRouteTable", _in_region({"subnetId": subnet}, inputs))
    except ProviderError:
        # AWS returns no table for a subnet that uses the main one: nothing was associated.
        return Candidates()
    found = [
        str(item["routeTableAssociationId"])
        for item in table.get("associations") or ()
        if item.get("subnetId") == subnet and item.get("routeTableAssociationId")
    ]
    return Candidates(tuple(found) if table.get("routeTableId") == inputs.get("routeTableId") else ())


def _by_tags(kind: str, inputs: Mapping[str, Any], ask: ProviderCall) -> Answer:
    tags: dict[str, str] = inputs.get("tags") or {}
    if not tags:
        return UnknownResult("it has no tags to search for")
    filters = [{"key": key, "values": [str(value)]} for key, value in sorted(tags.items())]
    result = ask(
        "aws:resourcegroupstaggingapi/getResources:getResources",
        _in_region({"tagFilters": filters[:_MANY_FILTERS]}, inputs),
    )
    arns = [str(item["resourceArn"]) for item in result.get("resourceTagMappingLists") or ()]
    return Candidates(tuple(_id_in(arn) for arn in arns if _kind_of(arn) == kind))


def _in_region(args: dict[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {**args, "region": inputs["region"]} if inputs.get("region") else args


def _kind_of(arn: str) -> str:
    """Return `subnet` for `arn:aws:ec2:us-east-1:123456789012:subnet/subnet-1`."""
    return arn.split(":", 5)[-1].split("/", 1)[0]


def _id_in(arn: str) -> str:
    return arn if _kind_of(arn) in BY_ARN else arn.rsplit("/", 1)[-1]
