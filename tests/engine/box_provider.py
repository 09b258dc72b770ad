"""The package `box`: a small real provider whose cloud is a folder with one JSON file per resource.

It serves the scenario tests as a plugin process, of the embedded engine and of the Pulumi CLI. The
folder is named by BOX_CLOUD; `faults.json` in it makes operations fail, wait or die; `calls.jsonl`
records every operation with its times. Properties: a change of `zone` replaces, of `slot` replaces
and deletes first, of anything else updates. `arn` is computed; with `token` there is a
secret output `tokenValue`.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import grpc.aio
from google.protobuf import empty_pb2
from pulumi.provider.experimental import server
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.provider.experimental.provider import (
    CheckFailure,
    CheckRequest,
    CheckResponse,
    ConfigureRequest,
    ConfigureResponse,
    CreateRequest,
    CreateResponse,
    DeleteRequest,
    DiffRequest,
    DiffResponse,
    InvokeRequest,
    InvokeResponse,
    Provider,
    ReadRequest,
    ReadResponse,
    UpdateRequest,
    UpdateResponse,
)
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

CLOUD = Path(os.environ["BOX_CLOUD"])
# The SDK passes unknown values through as this string, and has no other way to send one.
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
COMPUTED = PropertyValue(UNKNOWN)


class InitFailed(Exception):  # noqa: N818 - a state of affairs, not an error class for callers
    """The resource was created but did not initialize."""

    def __init__(self, identifier: str, outputs: dict[str, PropertyValue], reason: str) -> None:
        super().__init__(reason)
        self.identifier = identifier
        self.outputs = outputs


class BrokenCall(Exception):  # noqa: N818 - likewise
    """The call breaks off without a response; the provider keeps running."""


class Box(Provider):
    def __init__(self) -> None:
        self.region = "nowhere"

    async def configure(self, request: ConfigureRequest) -> ConfigureResponse:
        self.region = _plain(request.args.get("region", PropertyValue("nowhere")))
        record("configure", self.region, 0.0)
        # The SDK of this version reads resource references under other keys than it is sent.
        return ConfigureResponse(accept_secrets=True, supports_preview=True, accept_outputs=True)

    async def diff_config(self, request: DiffRequest) -> DiffResponse:
        old, new = request.old_state.get("region"), request.new_inputs.get("region")
        return DiffResponse(changes=None, replaces=["region"] if _plain(old) != _plain(new) else [])

    async def check(self, request: CheckRequest) -> CheckResponse:
        await fault("check", request.name)
        inputs = dict(request.new_inputs)
        if _plain(inputs.get("size")) == "bad":
            return CheckResponse(failures=[CheckFailure("size", "'bad' is no size: give a number")])
        if request.type == "box:index:Named" and "label" not in inputs:
            old = request.old_inputs.get("label")
            inputs["label"] = old or PropertyValue(f"{request.name}-{request.random_seed.hex()[:8]}")
        return CheckResponse(inputs=inputs)

    async def diff(self, request: DiffRequest) -> DiffResponse:
        await fault("diff", request.name)
        if request.type == "box:index:Vague":
            return DiffResponse(changes=None)
        old = {key: value for key, value in request.old_state.items() if key not in OUTPUT_ONLY}
        new = request.new_inputs
        changed = sorted(key for key in {*old, *new} if _plain(old.get(key)) != _plain(new.get(key)))
        changed = [key for key in changed if key not in request.ignore_changes]
        replaces = [key for key in changed if key in ("zone", "slot")]
        return DiffResponse(
            changes=bool(changed), diffs=changed, replaces=replaces, delete_before_replace="slot" in changed
        )

    async def create(self, request: CreateRequest) -> CreateResponse:
        if request.preview:
            return CreateResponse(properties=outputs_of(request.properties, "", self.region))
        started = time.time()
        identifier = f"{request.name}-{uuid.uuid4().hex[:8]}"
        outputs = outputs_of(request.properties, identifier, self.region)

        def made() -> None:
            save(identifier, request.urn, request.type, request.properties)

        reason = await fault("create", request.name, made)
        made()
        record("create", request.name, started, timeout=request.timeout, urn=request.urn)
        if reason:
            raise InitFailed(identifier, outputs, reason)
        return CreateResponse(identifier, outputs)

    async def update(self, request: UpdateRequest) -> UpdateResponse:
        outputs = outputs_of(request.news, request.resource_id, self.region)
        if request.preview:
            return UpdateResponse(outputs)
        started = time.time()

        def made() -> None:
            save(request.resource_id, request.urn, request.type, request.news)

        await fault("update", request.name, made)
        made()
        record("update", request.name, started, timeout=request.timeout)
        return UpdateResponse(outputs)

    async def delete(self, request: DeleteRequest) -> None:
        started = time.time()

        def made() -> None:
            file_of(request.resource_id).unlink(missing_ok=True)

        await fault("delete", request.name, made)
        made()
        record("delete", request.name, started, id=request.resource_id, region=self.region)

    async def read(self, request: ReadRequest) -> ReadResponse:
        await fault("read", request.name)
        file = file_of(request.resource_id)
        if not file.exists():
            return ReadResponse()
        data = json.loads(file.read_text())
        inputs = {key: PropertyValue.unmarshal(_value(item)) for key, item in data["inputs"].items()}
        for key in data["secrets"]:
            inputs[key] = PropertyValue(inputs[key].value, is_secret=True)
        return ReadResponse(request.resource_id, outputs_of(inputs, request.resource_id, self.region), inputs)

    async def invoke(self, request: InvokeRequest) -> InvokeResponse:
        await fault("invoke", request.tok)
        if request.tok == "box:index:fail":
            raise ValueError("the function does not feel like it")
        if request.tok == "box:index:find":
            # The search of a cloud: ids of resources with the tag `urn`.
            things = (json.loads(file.read_text()) for file in CLOUD.glob("things/*.json"))
            urn = _plain(request.args["urn"])
            found = [PropertyValue(thing["id"]) for thing in things if thing["urn"] == urn]
            return InvokeResponse({"ids": PropertyValue(found)})
        return InvokeResponse({**request.args, "region": PropertyValue(self.region)})


OUTPUT_ONLY = ("arn", "tokenValue", "region")


def outputs_of(inputs: dict[str, PropertyValue], identifier: str, region: str) -> dict[str, PropertyValue]:
    arn = PropertyValue(f"arn:{identifier}") if identifier else COMPUTED
    outputs = {**inputs, "arn": arn, "region": PropertyValue(region)}
    if "token" in inputs:
        value = f"token of {identifier}" if identifier else UNKNOWN
        outputs["tokenValue"] = PropertyValue(value, is_secret=True)
    return outputs


def _plain(value: PropertyValue | None) -> Any:
    if value is None:
        return None
    inner = value.value
    if isinstance(inner, (list, tuple)):
        return [_plain(item) for item in inner]
    if isinstance(inner, Mapping):
        return {key: _plain(item) for key, item in inner.items()}
    return inner


def _value(item: Any) -> Any:
    from google.protobuf import json_format, struct_pb2

    return json_format.ParseDict(item, struct_pb2.Value())


def file_of(identifier: str) -> Path:
    return CLOUD / "things" / f"{identifier.replace('/', '_')}.json"


def save(identifier: str, urn: str, type_: str, inputs: dict[str, PropertyValue]) -> None:
    file = file_of(identifier)
    file.parent.mkdir(parents=True, exist_ok=True)
    data = {
        "id": identifier,
        "urn": urn,
        "type": type_,
        "inputs": {key: _plain(value) for key, value in inputs.items()},
        "secrets": [key for key, value in inputs.items() if value.is_secret],
    }
    file.write_text(json.dumps(data))


def record(op: str, name: str, started: float, **more: Any) -> None:
    line = json.dumps({"op": op, "name": name, "start": started, "end": time.time(), **more})
    with (CLOUD / "calls.jsonl").open("a") as out:
        out.write(line + "\n")


async def fault(op: str, name: str, made: Callable[[], None] | None = None) -> str:
    """Apply faults.json to this operation; returns the reason of a failed initialization."""
    file = CLOUD / "faults.json"
    if not file.exists():
        return ""
    with file.open("r+") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        faults = json.load(handle)
        found = next(
            (f for f in faults if f["op"] == op and f["name"] in (name, "*") and f.get("times", 1) > 0), None
        )
        if found is not None:
            found["times"] = found.get("times", 1) - 1
            handle.seek(0)
            handle.truncate()
            json.dump(faults, handle)
    if found is None:
        return ""
    if found.get("stubborn"):
        # Keeps working when it is asked to end.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (CLOUD / "reached").write_text(name)
    await asyncio.sleep(found.get("delay", 0))
    if found.get("made") and made is not None:
        made()
    if found.get("die"):
        os._exit(9)
    if found.get("broken"):
        raise BrokenCall
    if found.get("message"):
        raise ValueError(found["message"])
    return str(found.get("init", ""))


class Servicer(server.ProviderServicer):
    """The SDK's servicer, extended to report that a resource exists but did not initialize."""

    async def Create(self, request: Any, context: Any) -> Any:  # noqa: N802
        try:
            return await super().Create(request, context)
        except Exception as error:
            cause = error.__context__
            if isinstance(cause, BrokenCall):
                await context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
            if not isinstance(cause, InitFailed):
                raise
            detail = provider_pb2.ErrorResourceInitFailed(
                id=cause.identifier,
                properties=PropertyValue.marshal_map(cause.outputs),
                reasons=[str(cause)],
            )
            status = status_pb2.Status(code=2, message="failed to initialize")
            status.details.add().Pack(detail)
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
            await context.abort(grpc.StatusCode.UNKNOWN, "failed to initialize")

    async def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802
        return empty_pb2.Empty()


async def serve() -> None:
    CLOUD.mkdir(parents=True, exist_ok=True)
    grpc_server = grpc.aio.server(options=_GRPC_CHANNEL_OPTIONS)
    servicer = Servicer(sys.argv[1:], "1.0.0", Box(), sys.argv[1])
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, grpc_server)
    port = grpc_server.add_insecure_port("127.0.0.1:0")
    await grpc_server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await grpc_server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve())
