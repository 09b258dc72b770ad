"""A checkout and its emulated AWS in this process, and images of what a crash of gpufleet leaves."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import shutil
import tempfile
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpufleet.cli import main
from gpufleet.engine.embedded import store
from gpufleet.lab.aws import daemon
from gpufleet.lab.aws.faults.inject import Injector, Refusal
from gpufleet.lab.aws.faults.plan import Faults
from gpufleet.lab.aws.faults.requests import Request
from gpufleet.lab.aws.inventory import list_resources
from gpufleet.lab.aws.server import snapshot
from gpufleet.lab.aws.server.app import SandboxApp
from gpufleet.lab.aws.server.handler import QuietHandler
from tests.conftest import make_checkout

REGIONS = ("us-east-1", "us-west-2")
READS = ("Describe", "Get", "List", "Head")
_MADE_UP = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{7,}|\d{4}-\d\d-\d\d[T ][0-9:.+Z-]+|v1:[^\"]+"
)
"""IDs, name suffixes, times and encrypted values: different in each run."""


@dataclass(frozen=True)
class Call:
    """Request `number` of an action (from 1), in the life of an account."""

    service: str
    action: str
    number: int

    def __str__(self) -> str:
        return f"{self.service}:{self.action}#{self.number}"

    @property
    def is_read(self) -> bool:
        """Whether it is read-only."""
        return self.action.startswith(READS)


@dataclass(frozen=True)
class Image:
    """Image after a crash: the emulated account, and the files of state and cluster objects.

    Compressed: all images of one creation are kept, and each is several megabytes.
    """

    account: bytes
    files: dict[str, bytes]


class FaultHook:
    """Wraps the faults of the server in `file`. `before_call` and `after_call` run first."""

    def __init__(self, file: Path) -> None:
        self._faults = Injector(file)
        self.begin_again()

    @property
    def faults(self) -> Faults:
        """The faults of the file."""
        return self._faults.faults

    def begin_again(self) -> None:
        """Reset the counts and hooks."""
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._local = threading.local()
        self.calls: list[Call] = []
        self.before_call: Callable[[Call], Refusal | None] = lambda call: None
        self.after_call: Callable[[Call], Refusal | None] = lambda call: None

    def refresh(self) -> bool:
        """Hooks always apply."""
        self._faults.refresh()
        return True

    def before(self, request: Request) -> Refusal | None:
        """Count the call."""
        with self._lock:
            key = (request.service, request.action)
            self._counts[key] += 1
            call = self._local.call = Call(*key, self._counts[key])
            self.calls.append(call)
        return self.before_call(call) or self._faults.before(request)

    def after(self, request: Request, status: int, body: bytes) -> Refusal | None:
        """Report a performed call."""
        return self.after_call(self._local.call) or self._faults.after(request, status, body)


@dataclass(frozen=True)
class Contents:
    """Contents: resources of the state with inputs, and of the account with tags."""

    state: Counter[str]
    account: Counter[str]
    objects: Counter[str]

    def differences(self, other: Contents) -> list[str]:
        """Differences between two contents."""
        found = []
        for name in ("state", "account", "objects"):
            mine, theirs = getattr(self, name), getattr(other, name)
            found += [f"{name}: too much: {one}" for one in (mine - theirs).elements()]
            found += [f"{name}: missing: {one}" for one in (theirs - mine).elements()]
        return found


class World:
    """One checkout and one emulated account. `gpufleet` runs the command line in this process."""

    def __init__(self, folder: Path) -> None:
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self.root = make_checkout(folder).root
        self.local = self.root / ".gpufleet"
        self.faults_file = self.local / "sandbox" / "faults.json"
        self.watch = FaultHook(self.faults_file)
        self._app = SandboxApp(lambda: None, self.watch, lambda _state: None)  # type: ignore[arg-type]
        self._server = make_server("127.0.0.1", 0, self._app, threaded=True, request_handler=QuietHandler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(daemon, "ensure", lambda root, **_: self._endpoint())
        self._patch.chdir(self.root)
        self._patch.setenv("HOME", str(self.root))
        # Every journal line counts: skip waiting for the disk.
        self._patch.setattr(os, "fdatasync", lambda descriptor: None)
        self._patch.setattr(os, "fsync", lambda descriptor: None)

    def _endpoint(self) -> daemon.Endpoint:
        return daemon.Endpoint(self.url, os.getpid(), self.watch.faults.late_s)

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._patch.undo()

    def gpufleet(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        """The exit code of a command, and its JSON object."""
        reported = io.StringIO()
        with contextlib.redirect_stdout(reported):
            code = main.main([*arguments, "--json"])
        return code, json.loads(reported.getvalue().splitlines()[-1])

    def faults(self, text: str) -> None:
        """Write the fault file; an empty text removes it."""
        self.faults_file.unlink(missing_ok=True)
        if text:
            self.faults_file.parent.mkdir(parents=True, exist_ok=True)
            self.faults_file.write_text(text)

    def clear(self) -> None:
        """Reset to an empty account and no state."""
        self._app.reset()
        self.watch.begin_again()
        shutil.rmtree(self.local, ignore_errors=True)

    # -- crashes

    def image(self) -> Image:
        """The image if everything ended now; no request is in progress meanwhile."""
        with self._app.lock:
            files = {
                str(path.relative_to(self.local)): zlib.compress(path.read_bytes(), 1)
                for path in sorted(self.local.rglob("*"))
                if path.is_file()
            }
            return Image(zlib.compress(snapshot.dump(), 1), files)

    def restore(self, image: Image) -> None:
        """Continue from an image."""
        self.clear()
        with tempfile.NamedTemporaryFile() as file:
            file.write(zlib.decompress(image.account))
            file.flush()
            with self._app.lock:
                snapshot.load(Path(file.name))
        for name, content in image.files.items():
            path = self.local / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(zlib.decompress(content))

    # -- contents

    def contents_of(self, environment: str) -> Contents:
        """Current contents, without generated values."""
        path = self.local / "state" / "sandbox" / f"{environment}.json"
        deployment = json.loads(path.read_text())["deployment"]
        kept = ("urn", "inputs", "parent", "protect", "dependencies", "initErrors", "pendingReplacement")
        state = Counter(
            _plain({key: one[key] for key in kept if one.get(key)}) for one in deployment["resources"]
        )
        state.update(_plain(one) for one in deployment.get("pending_operations") or ())
        account = Counter(
            _plain([one.service, one.region, one.id if not one.tags else "", sorted(one.tags.items())])
            for one in list_resources(self.url, REGIONS)
        )
        manifests = self.local / "sandbox" / "manifests"
        objects = Counter(str(path.relative_to(manifests)) for path in manifests.rglob("*.yaml"))
        return Contents(state, account, objects)


def _plain(value: object) -> str:
    return _MADE_UP.sub("*", json.dumps(value, sort_keys=True))


@contextlib.contextmanager
def deaths(
    world: World, at: Callable[[Call], bool], begins: Callable[[str], bool], images: dict[str, Image]
) -> Iterator[None]:
    """Keep an image after each call that `at` selects.

    Also when a resource outside AWS starts, if `begins` selects its URN.
    """
    append = store.StateJournal.append

    def recorded(self: Any, record: dict[str, Any], *, durable: bool) -> None:
        append(self, record, durable=durable)
        one = record.get("resource") or {}
        if record["kind"] == "begin" and not str(one.get("type")).startswith("aws:") and begins(one["urn"]):
            images[f"begin {one['urn']}"] = world.image()

    def performed(call: Call) -> None:
        if at(call):
            images[str(call)] = world.image()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.StateJournal, "append", recorded)
        world.watch.after_call = performed
        yield
