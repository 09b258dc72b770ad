"""Complete lifecycles of a stack in one process: random programs, faults and crashes, in milliseconds a run.

The engine, its services and its state are the real ones. The program is a list of registrations sent
over Pulumi's protocol without Python's SDK, the box provider runs in a thread, and a crash is a
power failure: from a chosen write on, nothing reaches the disk, and that write only in part.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import struct_pb2
from pulumi.runtime.proto import provider_pb2_grpc, resource_pb2, resource_pb2_grpc

from gpufleet.engine.api import RunResult, StackRequest
from gpufleet.engine.embedded import checkpoint, files, journal, run, stored_state
from gpufleet.engine.embedded.context import RunContext
from gpufleet.engine.embedded.engine import EmbeddedEngine
from gpufleet.engine.embedded.integrity import problems
from gpufleet.engine.embedded.provider import Provider
from gpufleet.engine.embedded.registry import ProviderRegistry

from .conftest import FINDERS

STACK = "urn:pulumi:dev::lab::pulumi:pulumi:Stack::lab-dev"


# -- programs


@dataclass(frozen=True)
class ResourceSpec:
    """One resource of a program. `needs` and `parent` are indexes of earlier ones in the program.

    Not deletedWith: a resource deleted with another leaves the state before the cloud, as in Pulumi.
    """

    name: str
    kind: str = "Box"
    size: int = 0
    zone: int = 0
    slot: int = 0
    needs: tuple[int, ...] = ()
    depends_on: tuple[int, ...] = ()
    parent: int | None = None
    delete_first: bool | None = None
    replace_on_size: bool = False
    former: str = ""

    @property
    def type(self) -> str:
        return "test:index:Group" if self.kind == "Group" else f"box:index:{self.kind}"


Program = tuple[ResourceSpec, ...]


def register(program: Program, address: str) -> dict[int, resource_pb2.RegisterResourceResponse]:
    """Register the resources of a program one after another, as an SDK does; results of registered ones."""
    answers: dict[int, resource_pb2.RegisterResourceResponse] = {}
    with grpc.insecure_channel(address) as channel:
        monitor = resource_pb2_grpc.ResourceMonitorStub(channel)
        root = resource_pb2.RegisterResourceRequest(
            type="pulumi:pulumi:Stack", name="lab-dev", acceptSecrets=True, acceptResources=True
        )
        if monitor.RegisterResource(root).result != resource_pb2.Result.SUCCESS:
            return answers
        for place, wish in enumerate(program):
            answer = _register_one(monitor, wish, answers)
            if answer is not None and answer.result == resource_pb2.Result.SUCCESS:
                answers[place] = answer
        monitor.RegisterResourceOutputs(
            resource_pb2.RegisterResourceOutputsRequest(urn=STACK, outputs=struct_pb2.Struct())
        )
    return answers


def _register_one(
    monitor: Any, wish: ResourceSpec, answers: dict[int, resource_pb2.RegisterResourceResponse]
) -> resource_pb2.RegisterResourceResponse | None:
    others = [*wish.needs, *wish.depends_on, *(() if wish.parent is None else (wish.parent,))]
    if any(place not in answers for place in others):
        # Like an SDK: resources that wait for outputs of a failed resource are never registered.
        return None
    request = resource_pb2.RegisterResourceRequest(
        type=wish.type,
        name=wish.name,
        custom=wish.kind != "Group",
        parent=STACK if wish.parent is None else answers[wish.parent].urn,
        dependencies=sorted({answers[place].urn for place in (*wish.needs, *wish.depends_on)}),
        acceptSecrets=True,
        acceptResources=True,
        supportsPartialValues=True,
    )
    if wish.kind != "Group":
        inputs: dict[str, Any] = {"size": wish.size, "zone": wish.zone, "slot": wish.slot}
        for number, place in enumerate(wish.needs):
            inputs[f"of{number}"] = dict(answers[place].object).get("arn", "") or answers[place].urn
            request.propertyDependencies[f"of{number}"].urns.append(answers[place].urn)
        request.object.update(inputs)
        if wish.delete_first is not None:
            request.deleteBeforeReplace = wish.delete_first
            request.deleteBeforeReplaceDefined = True
        if wish.replace_on_size:
            request.replaceOnChanges.append("size")
    if wish.former:
        request.aliases.add().spec.name = wish.former
    return monitor.RegisterResource(request)


# -- crashes


class PowerCut(Exception):  # noqa: N818 - an event, not an error class for callers
    """The machine has stopped."""


class Power:
    """Count disk writes; the power fails at write `cut_at` (None: never)."""

    def __init__(self) -> None:
        self.count = 0
        self.cut_at: int | None = None
        self.torn = 0.0
        self.dead = False
        self._lock = threading.Lock()

    def arm(self, cut_at: int | None, torn: float) -> None:
        self.count, self.cut_at, self.torn, self.dead = 0, cut_at, torn, False

    def tick(self) -> bool:
        """Count one write; True if it is the torn one. Raises when the power is off."""
        with self._lock:
            if self.dead:
                raise PowerCut
            self.count += 1
            self.dead = self.count - 1 == self.cut_at
            return self.dead

    def around(self, action: Callable[..., Any]) -> Callable[..., Any]:
        """An atomic disk operation: it happens completely or not at all."""

        def guarded(*args: Any, **kwargs: Any) -> Any:
            cut = self.tick()
            if cut and self.torn < 0.5:
                raise PowerCut
            result = action(*args, **kwargs)
            if cut:
                raise PowerCut
            return result

        return guarded

    def writing(self, descriptor: int, data: bytes) -> None:
        """A write that may be torn."""
        cut = self.tick()
        kept = data[: int(len(data) * self.torn)] if cut else data
        while kept:
            kept = kept[os.write(descriptor, kept) :]
        if cut:
            raise PowerCut

    def file(self, path: Path, content: bytes) -> None:
        """A file that may be torn."""
        cut = self.tick()
        path.write_bytes(content[: int(len(content) * self.torn)] if cut else content)
        if cut:
            raise PowerCut


# -- the provider


class ProviderLost(Exception):  # noqa: N818 - an event
    """The provider disconnects in the middle of a call."""


def load_boxes(cloud: Path) -> Any:
    """The module of the box provider, with this cloud."""
    os.environ["BOX_CLOUD"] = str(cloud)
    spec = importlib.util.spec_from_file_location("fuzzed_boxes", Path(__file__).with_name("box_provider.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    del os.environ["BOX_CLOUD"]
    return module


class BoxServer:
    """The box provider, served by a thread of this process."""

    def __init__(self, cloud: Path) -> None:
        self.module = load_boxes(cloud)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server, self.port = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()

    async def _start(self) -> tuple[Any, int]:
        server = grpc.aio.server()
        boxes = self.module

        class Servicer(boxes.Servicer):  # type: ignore[misc, name-defined]
            async def _or_lost(self, call: Any, request: Any, context: Any) -> Any:
                try:
                    return await call(request, context)
                except Exception as error:
                    cause = error.__context__
                    if cause is None or "the connection is lost" not in str(cause):
                        raise
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")

            async def Handshake(self, request: Any, context: Any) -> Any:  # noqa: N802
                # The SDK's own response is an exception, which is logged at each connection.
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no handshake")

            async def Create(self, request: Any, context: Any) -> Any:  # noqa: N802
                return await self._or_lost(super().Create, request, context)

            async def Update(self, request: Any, context: Any) -> Any:  # noqa: N802
                return await self._or_lost(super().Update, request, context)

            async def Delete(self, request: Any, context: Any) -> Any:  # noqa: N802
                return await self._or_lost(super().Delete, request, context)

        provider_pb2_grpc.add_ResourceProviderServicer_to_server(
            Servicer([], "1.0.0", boxes.Box(), "127.0.0.1:1"), server
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        return server, port

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.stop(None), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Plugin:
    """A process that is dead as soon as its liveness is checked."""

    alive = False

    def last_lines(self) -> str:
        return "the provider was killed"


class _NoProcesses:
    def __init__(self, held: Sequence[int] = (), forks: None = None) -> None:
        self.held = held

    def close(self) -> None:
        return None


# -- the world


@dataclass
class World:
    """A stack in a folder, its cloud and its power; `live` is one run."""

    folder: Path
    server: BoxServer
    power: Power = field(default_factory=Power)
    program: Program = ()

    def __post_init__(self) -> None:
        self.cloud = self.folder / "cloud"
        self.cloud.mkdir(parents=True)
        self.server.module.CLOUD = self.cloud
        (self.folder / "__main__.py").write_text("")
        self.engine = EmbeddedEngine(FINDERS)
        self.request = StackRequest(
            project="lab", stack="dev", project_root=self.folder, program_dir=self.folder,
            state_file=self.folder / "state" / "dev.json", parallel=1,
        )  # fmt: skip

    def live(self, verb: str, cut_at: int | None = None, torn: float = 0.0) -> RunResult | None:
        """Run a verb; None when the power failed."""
        self.power.arm(cut_at, torn)
        try:
            result: RunResult = getattr(self.engine, verb)(self.request, lambda event: None)
        except PowerCut:
            return None
        finally:
            died, self.power.dead = self.power.dead, False
        return None if died else result

    def registered(self, context: RunContext) -> int:
        """The program run as the engine sees it: its exit code."""
        try:
            register(self.program, context.engine_address)
        except grpc.RpcError:
            return 1
        return 0

    def faults(self, faults: list[dict[str, Any]]) -> None:
        (self.cloud / "faults.json").write_text(json.dumps(faults))

    def things(self) -> dict[str, dict[str, Any]]:
        found = (json.loads(file.read_text()) for file in self.cloud.glob("things/*.json"))
        return {thing["id"]: thing for thing in found}

    def lose(self, number: int) -> None:
        """Delete a resource outside the engine."""
        files_there = sorted(self.cloud.glob("things/*.json"), key=lambda file: file.stem.split("-")[0])
        if files_there:
            files_there[number % len(files_there)].unlink()

    def state(self) -> dict[str, Any]:
        exported = self.engine.export(self.request)
        return {"resources": []} if exported is None else exported["deployment"]

    def check(self) -> None:
        """The state is complete, and every cloud resource is in it or pending."""
        state = self.state()
        assert problems(state["resources"]) == []
        pending = state.get("pending_operations", ())
        assert {item["type"] for item in pending} <= {"creating", "updating", "deleting"}
        known = {item.get("id") for item in state["resources"]}
        being_made = {item["resource"]["urn"] for item in pending if item["type"] == "creating"}
        lost = [thing["urn"] for thing in self.things().values() if thing["id"] not in known]
        assert set(lost) <= being_made, f"lost: {lost}"

    def converge(self, *, refreshed: bool) -> None:
        """Without faults, the next runs converge to the program, without duplicates."""
        self.faults([])
        if refreshed:
            result = self.live("refresh")
            assert result is not None
            assert result.ok, result
        result = self.live("up")
        assert result is not None
        assert result.ok, (result.failures, result.diagnostics)
        self.check()
        # By id, since a renamed resource keeps the tags of its first name.
        boxes = {item["id"]: item for item in self.state()["resources"] if item["type"].startswith("box:")}
        things = self.things()
        assert boxes.keys() == things.keys()
        assert not any(item.get("delete") or item.get("pendingReplacement") for item in boxes.values())
        found = {
            item["urn"].rpartition("::")[2]: things[key]["inputs"]["size"] for key, item in boxes.items()
        }
        assert found == {wish.name: wish.size for wish in self.program if wish.kind != "Group"}
        assert "pending_operations" not in self.state()
        again = self.live("up")
        assert again is not None
        assert again.ok
        assert again.changes.total == 0, again
        ended = self.live("destroy")
        assert ended is not None
        assert ended.ok, ended.failures
        assert self.things() == {}
        assert self.state()["resources"] == []


@contextmanager
def worlds(cloud: Path, patch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], World]]:
    """Create worlds: everything that normally needs a process runs in this one."""
    server = BoxServer(cloud)
    power = Power()
    present: list[World] = []

    def start(registry: ProviderRegistry, urn: str, inputs: Any) -> Provider:
        address = registry._context.engine_address
        provider = Provider("box", f"127.0.0.1:{server.port}", address, _Plugin())
        registry._all.append(provider)
        return provider

    def make(folder: Path) -> World:
        world = World(folder, server, power)
        present[:] = [world]
        return world

    closing = journal.StateJournal.close

    def close(self: journal.StateJournal, *, remove: bool) -> None:
        # A file that a dead process had open stays as it is.
        closing(self, remove=remove and not power.tick())

    patch.setattr(ProviderRegistry, "_start", start)
    patch.setattr(run, "ProcessGroup", _NoProcesses)
    patch.setattr(run.forks, "prepare", lambda *_: None)
    patch.setattr(run.Run, "run_program", lambda one: present[0].registered(one.context))
    patch.setattr(journal, "_write_all", power.writing)
    patch.setattr(journal.StateJournal, "close", close)
    patch.setattr(checkpoint, "write_durably", power.file)
    patch.setattr(checkpoint, "replace_durably", power.around(files.replace_durably))
    assert stored_state.checkpoint is checkpoint
    try:
        yield make
    finally:
        server.stop()
