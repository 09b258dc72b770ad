"""The stack that our program registers for a plan, made in this process: before it exists, and after."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from pulumi.output import Unknown
from pulumi.runtime import rpc
from pulumi.runtime.mocks import MockCallArgs, MockMonitor, MockResourceArgs, set_mocks
from pulumi.runtime.mocks import test as run_program

from gpufleet.lab.aws.backends.ec2_block_prices import upfront_fee
from gpufleet.plan.models import FleetPlan
from gpufleet.resources.resource import UNKNOWN, ProviderInstance, Resource, ResourceOptions
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import BLOCK_EXTENSION, BLOCK_OFFERING
from gpufleet.stacks.program import build_fleet
from gpufleet.stacks.settings import StackSettings
from tests.unit.components.recording import EchoMocks

SETTINGS = StackSettings("sandbox", "unit", True, None, {}, {})


class _Cloud(EchoMocks):
    """Outputs as in the emulated AWS, all unknown in a preview."""

    def __init__(self, *, preview: bool) -> None:
        self._preview = preview
        self._regions: dict[str, str] = {}

    def call(self, args: MockCallArgs) -> Any:
        if args.token == "aws:index/getRegion:getRegion":
            return {"region": self._regions[args.provider.split("::")[3]]}
        return super().call(args)

    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        name, state = super().new_resource(args)
        if args.typ == "pulumi:providers:aws":
            self._regions[args.name] = args.inputs["region"]
            return name, state
        if args.typ == BLOCK_OFFERING:
            state |= _offering(args.inputs)
        if args.typ == BLOCK_EXTENSION:
            state |= _extension(args.inputs)
        if not self._preview:
            return name, state
        return "", {key: _before(args.inputs.get(key), state[key]) for key in state}


def _offering(asked: Mapping[str, Any]) -> dict[str, Any]:
    length = dt.timedelta(hours=asked["duration_hours"])
    fee, _ = upfront_fee(asked["instance_type"], asked["region"], int(asked["count"]), length)
    start = dt.datetime(2030, 1, 15, 11, 30, tzinfo=dt.UTC)
    return {
        "upfront_fee": fee,
        "start_date": f"{start:%FT%TZ}",
        "end_date": f"{start + length:%FT%TZ}",
        "zone": asked["zones"][0],
    }


def _extension(asked: Mapping[str, Any]) -> dict[str, Any]:
    length = dt.timedelta(hours=asked["hours"])
    fee, _ = upfront_fee(asked["instance_type"], asked["region"], int(asked["count"]), length)
    end = dt.datetime(2030, 1, 15, 11, 30, tzinfo=dt.UTC) + dt.timedelta(hours=asked["hours_before"]) + length
    return {"upfront_fee": fee, "end_date": f"{end:%FT%TZ}"}


def _before(given: Any, made: Any) -> Any:
    """Known parts of an output before the resource exists: the given inputs."""
    if isinstance(made, Mapping):
        inputs = given if isinstance(given, Mapping) else {}
        return {key: _before(inputs.get(key), made[key]) for key in made}
    return rpc.UNKNOWN if given is None else given


class _Monitor(MockMonitor):
    """Keeps each registration as rules and prices see it."""

    def __init__(self, cloud: _Cloud) -> None:
        super().__init__(cloud)
        self.registered: list[Resource] = []
        self._providers: dict[str, ProviderInstance] = {}

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        response = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        inputs = _plain(rpc.deserialize_properties(request.object, keep_unknowns=True))
        outputs = _plain(rpc.deserialize_properties(response.object, keep_unknowns=True))
        if request.type.startswith("pulumi:providers:"):
            region = {"region": inputs["region"]} if "region" in inputs else {}
            self._providers[response.urn] = ProviderInstance(request.type, request.name, response.urn, region)
        if request.type != "pulumi:pulumi:Stack":
            self.registered.append(
                Resource(
                    type=request.type,
                    name=request.name,
                    urn=response.urn,
                    props={**outputs, **inputs, **({"id": response.id} if response.id else {})},
                    inputs=inputs,
                    options=ResourceOptions(ignore_changes=tuple(request.ignoreChanges)),
                    provider=self._providers.get(request.provider.rpartition("::")[0]),
                    parent=request.parent,
                    dependencies=tuple(request.dependencies),
                    property_dependencies={
                        key: tuple(each.urns) for key, each in request.propertyDependencies.items()
                    },
                )
            )
        return response


def registered(plan: FleetPlan, *, preview: bool) -> Stack:
    """The resources of a plan's program: as a preview shows them, else as they are once they exist."""
    cloud = _Cloud(preview=preview)
    monitor = _Monitor(cloud)
    set_mocks(cloud, project="gpufleet", stack=plan.environment, preview=preview, monitor=monitor)
    run_program(lambda: build_fleet(plan, SETTINGS))()
    return Stack(monitor.registered)


def _plain(value: Any) -> Any:
    if isinstance(value, Unknown) or value == rpc.UNKNOWN:
        return UNKNOWN
    if isinstance(value, Mapping):
        if "4dabf18193072939515e22adb298388d" in value:
            return _plain(value["value"])
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
