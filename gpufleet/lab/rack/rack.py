"""Starting, finding, operating and removing a rack."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpufleet.errors import CloudError, InputError
from gpufleet.files import folder_identity
from gpufleet.lab.rack import cgroups, limits, needs
from gpufleet.lab.rack.base import base
from gpufleet.lab.rack.cache import OnStep, locked, remove_tree
from gpufleet.lab.rack.container import prepare
from gpufleet.lab.rack.identity import Keys, write_identity, write_ssh_files
from gpufleet.lab.rack.kit import Kit
from gpufleet.lab.rack.layout import BOOT_S, Layout, Record, kill, supervisor_pid
from gpufleet.lab.rack.loops import remove_loops
from gpufleet.lab.rack.model import RackSite
from gpufleet.lab.rack.packages import repository

_PACKAGES = str(Path(__file__).resolve().parents[3])
# Short, since it contains sockets, and not below /run, over which a rack mounts its own.
_RUNTIME = "/var/tmp/gpufleet-rack-"  # noqa: S108 - made with a random name, only for its owner

# The process writes its own id before it becomes `unshare`, so that a running rack always has a known
# process.
_START = (
    'echo $$ >"$1"; shift; while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs"; shift; done; shift; exec "$@"'
)


class HostStatus(Struct, frozen=True):
    """A host for `gpufleet rack status`. `address` is its IPv4 address."""

    name: str
    address: str
    state: str
    role: str
    boots: int = 0


class Rack(Struct, frozen=True):
    """A running rack."""

    layout: Layout
    record: Record
    pid: int

    @classmethod
    def find(cls, folder: Path) -> Rack | None:
        """Return the rack of a folder if one is running; start and change nothing.

        A rack in a folder that was moved or copied is not found: its files have the former paths.
        """
        layout = Layout(folder.absolute())
        record = Record.read(layout.record)
        pid = supervisor_pid(layout, record, str(layout.root.resolve())) if record else None
        return cls(layout, record, pid) if record and pid else None

    @property
    def site(self) -> RackSite:
        """Return the hosts and their network."""
        return self.record.site

    def status(self) -> list[HostStatus]:
        """Return every host with its state: `running`, `starting` or `stopped`."""
        states = self.ask("status")["hosts"]
        return [
            HostStatus(host.name, host.ip, role=host.role, **states[host.name]) for host in self.site.hosts
        ]

    def start(self, *hosts: str) -> None:
        """Boot hosts (default: all) and return when they are up."""
        self.ask("start", hosts=self._names(hosts))

    def stop(self, *hosts: str, force: bool = False) -> None:
        """Power hosts off (default: all); with `force`, like a power failure."""
        self.forget_connections()
        self.ask("stop", hosts=self._names(hosts), force=force)

    def seal(self, name: str) -> None:
        """Save the state of all hosts under `name`: they are powered off and booted again."""
        self.forget_connections()
        self.ask("seal", name=name)

    def restore(self, *hosts: str, name: str = "identity") -> None:
        """Restore hosts (default: all) to `seal(name)`; without a name, to their first boot."""
        self.forget_connections()
        remove_tree(self.facts)
        self.ask("restore", name=name, hosts=self._names(hosts))

    def repository(self, *, on: bool) -> None:
        """Enable or disable the package repository for all hosts."""
        self.ask("repository", on=on)

    def cable(self, host: str, *, plugged: bool) -> None:
        """Connect or disconnect the network cable of a host."""
        self.ask("cable", host=self.site.host(host).name, plugged=plugged)

    def forget_connections(self) -> None:
        """End the ssh connections that Ansible keeps: one to a stopped host would hang."""
        _end_connections(self.record)

    @property
    def facts(self) -> Path:
        """Return the folder of Ansible's cached facts."""
        return self.layout.root / "facts"

    def environment(self) -> dict[str, str]:
        """Return the environment in which Ansible reaches only this rack.

        Host names and addresses are the inventory's own. Ansible's cached connections and facts are the
        rack's, since another rack may have hosts of the same names.
        """
        return {
            "ANSIBLE_SSH_COMMON_ARGS": f"-F {self.record.ssh_config}",
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.record.control_paths),
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(self.facts),
        }

    def ssh_command(self, host: str, *words: str) -> list[str]:
        """Return the command line that logs in to a host, or runs `words` there."""
        config = str(self.record.ssh_config)
        return ["ssh", "-F", config, self.site.host(host).address, *(["--", *words] if words else [])]

    def ssh(self, host: str, command: str, *, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a shell command on a host as the login user; the caller checks the exit code."""
        return subprocess.run(  # noqa: S603 - the caller's own command, on a host of the rack
            self.ssh_command(host, command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def ask(self, call: str, **arguments: Any) -> Any:
        """Send a request to the supervisor. Raises CloudError or InputError from its answer."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(self.record.socket))
                connection.sendall(json.dumps({"call": call, **arguments}).encode() + b"\n")
                with connection.makefile("rb") as reader:
                    line = reader.readline()
        except OSError as error:
            raise CloudError(
                f"the rack does not answer: {error.strerror}", remedy="run `gpufleet rack up` again"
            ) from None
        answer = json.loads(line) if line else {"error": "the rack ended during the request", "remedy": ""}
        if "error" in answer:
            kind = InputError if answer.get("input") else CloudError
            raise kind(answer["error"], remedy=answer["remedy"])
        return answer["result"]

    def _names(self, hosts: Iterable[str]) -> list[str]:
        return [self.site.host(name).name for name in hosts] or [host.name for host in self.site.hosts]


def start_rack(
    folder: Path, site: RackSite, cache: Path, kit: Kit | None = None, on_step: OnStep = lambda _: None
) -> Rack:
    """Start the rack of `site` with its files in `folder`, and return it with all hosts booted.

    A running rack is returned unchanged; one that a killed run left behind is completed, or removed and
    started again; one that is interrupted during its start is removed. Raises InputError if this machine
    cannot run racks or `folder` has a rack of other hosts, CloudError if a host does not boot.
    """
    needs.require()
    layout = Layout(folder.absolute())
    with locked(layout.lock):
        rack = Rack.find(layout.root)
        if rack is not None and rack.site != site:
            raise InputError(
                f"{folder} has a rack of other hosts: {', '.join(host.name for host in rack.site.hosts)}",
                remedy="run `gpufleet rack down` first",
            )
        began = rack is None
        try:
            if rack is None:
                _remove(layout)
                record = _prepare(layout, site, cache, kit, on_step)
                on_step(f"booting {len(site.hosts)} hosts")
                rack = _launch(layout, record)
            _await_supervisor(rack)
            rack.start()
        except KeyboardInterrupt:
            if began:
                on_step("interrupted: removing what was started")
                _remove(layout)
            raise
        return rack


def take_down(folder: Path) -> bool:
    """Remove the rack of a folder and everything that belongs to it; return False if there was none."""
    layout = Layout(folder.absolute())
    if not layout.root.exists():
        return False
    with locked(layout.lock):
        _remove(layout)
    layout.lock.unlink(missing_ok=True)
    return True


def _prepare(layout: Layout, site: RackSite, cache: Path, kit: Kit | None, on_step: OnStep) -> Record:
    root = base(cache, on_step)
    vendor = kit.vendor(cache, on_step) if kit else None
    cluster = kit.kubernetes(site.kubernetes, cache, on_step) if kit and site.kubernetes else None
    packages = repository(cache, root, vendor, on_step, cluster)
    identity = secrets.token_hex(6)
    layout.root.mkdir(parents=True, mode=0o700)
    record = Record(
        id=identity,
        site=site,
        lower=(
            *((str(cluster / "layer"),) if cluster else ()),
            *((str(kit.layer(cache)),) if kit else ()),
            str(root),
        ),
        repository=str(packages),
        runtime=_RUNTIME + identity,
        cgroups=cgroups.own_groups(f"gpufleet-rack-{identity}"),
        folder=folder_identity(layout.root),
    )
    record.write(layout.record)
    limits.raise_limit(identity, len(site.hosts))
    Path(record.runtime).mkdir(mode=0o700)
    record.control_paths.mkdir(mode=0o700)
    keys = Keys(layout.root / "keys")
    keys.make(site)
    for host in site.hosts:
        write_identity(prepare(layout, host), root, site, host, keys, packages)
    if kit:
        kit.describe(site, layout.root / "hardware")
    return record


def _launch(layout: Layout, record: Record) -> Rack:
    for group in record.cgroups:
        cgroups.make(Path(group))
    namespaces = ("--mount", "--propagation=private", "--net", "--pid", "--mount-proc")
    unshare = ["unshare", *namespaces, "--fork", "--kill-child=KILL"]
    root = str(layout.root.resolve())
    supervisor = [sys.executable, "-m", "gpufleet.lab.rack.supervisor", root, record.id]
    command = ["sh", "-ec", _START, "sh", str(layout.pid), *record.cgroups, "--", *unshare, *supervisor]
    with layout.log.open("ab") as log:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=layout.root,
            env=os.environ | {"PYTHONPATH": _PACKAGES, "LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )
    # It outlives this process and is ended by its id: it is not waited for here.
    process.returncode = 0
    # Store the result of the search: while the shell becomes `unshare`, a second one would find no arguments.
    found: list[Rack | None] = []

    def started() -> bool:
        found.append(Rack.find(layout.root))
        return found[-1] is not None or not _alive(process.pid)

    _until(started, "did not start", layout)
    rack = found[-1]
    if rack is None:
        raise _failed("did not start", layout)
    write_ssh_files(Path(record.runtime), record.site, Keys(layout.root / "keys"), rack.pid)
    return rack


def _await_supervisor(rack: Rack) -> None:
    """Wait until its socket exists; a killed run may have left the ssh files unwritten."""
    write_ssh_files(Path(rack.record.runtime), rack.site, Keys(rack.layout.root / "keys"), rack.pid)
    _until(lambda: rack.record.socket.exists() or not _alive(rack.pid), "does not answer", rack.layout)
    if not _alive(rack.pid):
        raise _failed("ended", rack.layout)


def _until(done: Callable[[], bool], what: str, layout: Layout) -> None:
    deadline = time.monotonic() + BOOT_S
    while not done():
        if time.monotonic() > deadline:
            raise _failed(what, layout)
        time.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] != "Z"


def _failed(what: str, layout: Layout) -> CloudError:
    log_lines = layout.log.read_text(errors="replace").split("\n")[-4:] if layout.log.is_file() else []
    return CloudError(f"the rack's supervisor {what}: {' '.join(log_lines).strip() or 'it printed nothing'}")


def _remove(layout: Layout) -> None:
    """End and remove all parts of a rack, also those that a killed run left."""
    record = Record.read(layout.record)
    if record is not None and record.belongs_to(layout):
        pid = supervisor_pid(layout, record)
        _end_connections(record)
        if pid is not None:
            kill(pid)
        # The groups contain all processes of the rack and no others.
        cgroups.end(record.cgroups)
        _reap(pid)
        limits.restore_limit(record.id)
        remove_loops(layout.root / "hardware")
        remove_tree(Path(record.runtime))
    remove_tree(layout.root)


def _end_connections(record: Record) -> None:
    """End the ssh processes that Ansible keeps: they are outside the rack and hold its network."""
    for path in record.control_paths.glob("*") if record.control_paths.is_dir() else ():
        command = ["ssh", "-F", "none", "-o", f"ControlPath={path}", "-O", "exit", "rack"]
        subprocess.run(command, capture_output=True, timeout=10, check=False)  # noqa: S603


def _reap(pid: int | None) -> None:
    """Wait for a supervisor of this process, which otherwise stays a zombie."""
    if pid is not None:
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            return
