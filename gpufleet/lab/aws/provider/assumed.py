"""An aws provider for verdicts: types that the emulated AWS lacks are taken as the program declares them.

A user's own program may have a database or a SageMaker endpoint beside the fleet. A verdict needs its inputs,
which rules and prices judge, and knows none of its outputs. Nothing is created for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from pulumi.provider.experimental import provider as api
from pulumi.provider.experimental.property_value import PropertyValue

from gpufleet.errors import InputError
from gpufleet.lab.aws.provider.provider import AwsProvider
from gpufleet.lab.aws.provider.registry import is_served
from gpufleet.lab.aws.provider.wire import UNKNOWN, contains_unknown, plain, plain_map, wrap
from gpufleet.resources import aws_types

ASSUMES = "GPUFLEET_ASSUMES"
"""Same value as `ASSUMES` of gpufleet/engine/api.py, which must not be imported here."""

Values = Mapping[str, PropertyValue]


class AssumingAwsProvider(AwsProvider):
    """The aws provider of the sandbox. It also accepts all other types of pulumi_aws.

    Their outputs are their inputs, and unknown otherwise; so is whether a change replaces them.
    """

    async def check(self, request: api.CheckRequest) -> api.CheckResponse:
        """Add the default tags of the provider, which rules judge. Reject types that pulumi_aws lacks."""
        if is_served(request.type):
            return await super().check(request)
        token = request.type.rsplit("$", 1)[-1]
        if not aws_types.exists(token):
            return api.CheckResponse(
                request.new_inputs,
                [api.CheckFailure("", f"pulumi_aws {aws_types.version()} does not have the type {token}")],
            )
        inputs = dict(request.new_inputs)
        defaults = self._config.default_tags
        if defaults and aws_types.taggable(token) == "map":
            given = plain(inputs["tags"]) if "tags" in inputs else {}
            if isinstance(given, Mapping):
                secret = "tags" in inputs and inputs["tags"].contains_secret()
                inputs["tags"] = wrap({**defaults, **given}, secret=secret)
        return api.CheckResponse(inputs)

    async def diff(self, request: api.DiffRequest) -> api.DiffResponse:
        """Compare the inputs; what forces a replacement is not known."""
        if is_served(request.type):
            return await super().diff(request)
        # The engine has applied ignoreChanges to the new inputs.
        old, new = plain_map(getattr(request, "old_inputs", {})), plain_map(request.new_inputs)
        changed = {key for key in {*old, *new} if old.get(key) != new.get(key)}
        return api.DiffResponse(changes=bool(changed), diffs=sorted(changed))

    async def create(self, request: api.CreateRequest) -> api.CreateResponse:
        """Return the inputs as outputs, under an unknown ID."""
        if is_served(request.type):
            return await super().create(request)
        return api.CreateResponse("" if request.preview else UNKNOWN, _outputs(request.properties))

    async def update(self, request: api.UpdateRequest) -> api.UpdateResponse:
        """Return the inputs as outputs."""
        if is_served(request.type):
            return await super().update(request)
        return api.UpdateResponse(_outputs(request.news))

    async def read(self, request: api.ReadRequest) -> api.ReadResponse:
        """Return what is known. Raises InputError for a resource that the program only looks up."""
        if is_served(request.type):
            return await super().read(request)
        if not request.inputs:
            raise InputError(
                f"the emulated AWS of gpufleet cannot look up {request.type} {request.resource_id!r}",
                remedy="check it with --engine pulumi in an account that has it",
            )
        return api.ReadResponse(request.resource_id, dict(request.properties), dict(request.inputs))

    async def delete(self, request: api.DeleteRequest) -> None:
        """Do nothing for a resource that was never created."""
        if is_served(request.type):
            await super().delete(request)


def _outputs(inputs: Values) -> dict[str, PropertyValue]:
    found = {key: value for key, value in inputs.items() if not key.startswith("__")}
    tags = plain_map(inputs).get("tags")
    if tags is not None:
        found["tagsAll"] = wrap(UNKNOWN if contains_unknown(tags) else tags)
    return found
