"""The main process of a rack: first process of its namespaces, parent of its hosts.

    unshare --mount --net --pid ... python -m gpufleet.lab.rack.supervisor FOLDER ID

Network, mounts and processes of the rack exist only in namespaces of this process. When it ends, in whatever
way, the kernel ends every process in them and removes the network and mounts.
"""

from __future__ import annotations

import json
import os
import signal
import socketserver
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gpufleet.errors import GpufleetError, InputError
from gpufleet.lab.rack.cache import remove_tree
from gpufleet.lab.rack.container import BRIDGE, Container
from gpufleet.lab.rack.layout import BOOT_S, Layout, Record
from gpufleet.lab.rack.shell import run
from gpufleet.lab.rack.web import Repository


class Supervisor:
    """The hosts of a rack and its package repository, and their operations."""

    def __init__(self, layout: Layout, record: Record) -> None:
        self._layout = layout
        self._site = record.site
        self._containers = {
            host.name: Container(layout, record, host, number)
            for number, host in enumerate(record.site.hosts, start=1)
        }
        self._repository = Repository(Path(record.repository), record.site.gateway)
        self._requests: dict[str, Callable[..., Any]] = {
            "status": self.status,
            "start": self.start,
            "stop": self.stop,
            "seal": self.seal,
            "restore": self.restore,
            "repository": self.repository,
            "cable": self.cable,
        }
        # One change at a time; status requests never wait.
        self._changing = threading.Lock()

    def boot(self) -> None:
        """Create the network and the repository, and start every host."""
        commands = (
            "link set lo up",
            f"link add {BRIDGE} type bridge",
            f"address add {self._site.gateway}/{self._site.prefix} dev {BRIDGE}",
            f"link set {BRIDGE} up",
        )
        for command in commands:
            run(["ip", *command.split()], what="the rack's network")
        self._repository.start()
        self._each(list(self._containers), Container.start)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of a request: `{"result": ...}`, or `{"error": ..., "remedy": ...}`."""
        try:
            call = self._requests[request.pop("call")]
            if call == self.status:
                return {"result": call()}
            with self._changing:
                return {"result": call(**request)}
        except GpufleetError as error:
            return {"error": error.message, "remedy": error.remedy, "input": isinstance(error, InputError)}
        except Exception as error:
            traceback.print_exc()
            return {"error": f"the rack's supervisor failed: {type(error).__name__}: {error}", "remedy": ""}

    def status(self) -> dict[str, Any]:
        """Return state and number of boots of every host, and whether the repository answers."""
        hosts = {name: {"state": item.state, "boots": item.boots} for name, item in self._containers.items()}
        return {"hosts": hosts, "repository": self._repository.on}

    def start(self, hosts: list[str]) -> None:
        """Boot hosts and wait until they are up."""
        self._each(hosts, Container.start)
        self._await(hosts)

    def stop(self, hosts: list[str], force: bool = False) -> None:
        """Power hosts off; with `force`, like a power failure."""
        self._each(hosts, lambda item: item.stop(force=force))

    def seal(self, name: str) -> None:
        """Power all hosts off, save their state under `name`, and boot them again."""
        for host, item in self._containers.items():
            if item.uses_layer(name):
                raise InputError(
                    f"{host} already has a state {name!r}", remedy="use another name for this one"
                )
        everyone = list(self._containers)
        self.stop(everyone)
        self._each(everyone, lambda item: item.seal(name))
        _copy_disks(self._layout.shared, self._layout.sealed(name))
        self.start(everyone)

    def restore(self, name: str, hosts: list[str]) -> None:
        """Restore hosts to the state `name` (`identity`: their first boot).

        For all hosts, the disks of the file servers are restored too; for some hosts they are not.
        """
        for host in hosts:
            if not self._containers[host].has(name):
                raise InputError(f"{host} has no state {name!r}", remedy="seal one first")
        self.stop(hosts, force=True)
        self._each(hosts, lambda item: item.drop_to(name))
        if set(hosts) == set(self._containers):
            _copy_disks(self._layout.sealed(name), self._layout.shared)
        self.start(hosts)

    def repository(self, on: bool) -> None:
        """Enable or disable the package repository."""
        if on:
            self._repository.start()
        else:
            self._repository.stop()

    def cable(self, host: str, plugged: bool) -> None:
        """Connect or disconnect the network cable of a host."""
        self._containers[host].connect(plugged)

    def _each(self, hosts: list[str], act: Callable[[Container], None]) -> None:
        with ThreadPoolExecutor(max_workers=max(1, len(hosts))) as pool:
            for done in [pool.submit(act, self._containers[name]) for name in hosts]:
                done.result()

    def _await(self, hosts: list[str]) -> None:
        deadline = time.monotonic() + BOOT_S
        late = [name for name in hosts if not self._containers[name].wait(deadline)]
        if late:
            ended = [name for name in late if self._containers[name].state == "stopped"]
            what = "ended while booting" if ended else f"did not boot within {BOOT_S:.0f} s"
            late = ended or late
            outputs = "; ".join(
                f"the last output of {name}: {self._containers[name].console_tail()}" for name in late
            )
            raise GpufleetError(
                f"{', '.join(late)} {what}; {outputs}",
                remedy="`console.log` in the rack's folder hosts/<name> shows how far they got",
            )


def _copy_disks(source: Path, target: Path) -> None:
    """Make `target` a copy of `source`, owners included; do nothing if `source` does not exist."""
    target.mkdir(parents=True, exist_ok=True)
    for entry in target.iterdir():
        remove_tree(entry)
        entry.unlink(missing_ok=True)
    if source.exists():
        run(["cp", "--archive", f"{source}/.", target], what="the disks of the file servers")


class _Connection(socketserver.StreamRequestHandler):
    """One request: a JSON object on a line, with another one as answer."""

    def handle(self) -> None:
        line = self.rfile.readline()
        if line:
            answer = self.server.supervisor.answer(json.loads(line))  # type: ignore[attr-defined]
            self.wfile.write(json.dumps(answer).encode() + b"\n")


class _Control(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path: Path, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        # It gets its name only once it listens, so that every visible socket answers.
        new = path.with_name(f"{path.name}.new")
        new.unlink(missing_ok=True)
        super().__init__(str(new), _Connection)
        new.rename(path)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a caller that did not wait for its answer."""


def main(arguments: list[str]) -> None:
    """Start the rack of the record in a folder and serve until it is killed."""
    layout = Layout(Path(arguments[0]))
    record = Record.read(layout.record)
    if record is None or record.id != arguments[1]:
        sys.exit(f"{layout.record} does not describe rack {arguments[1]}")
    # systemd-nspawn keeps locks and sockets in /run/systemd: here they are deleted with the rack.
    run(["mount", "-t", "tmpfs", "-o", "mode=755", "rack-run", "/run"], what="a /run of the rack's own")
    os.umask(0o022)
    supervisor = Supervisor(layout, record)
    with _Control(record.socket, supervisor) as control:
        threading.Thread(target=control.serve_forever, daemon=True).start()
        supervisor.boot()
        # The first process of a namespace gets only the signals that it handles, and SIGKILL.
        signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    main(sys.argv[1:])
