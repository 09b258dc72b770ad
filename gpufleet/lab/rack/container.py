"""One host: layers of a root file system, booted by systemd-nspawn.

Runs inside the rack's namespaces. A host's root is an overlay: the shared root file system at the bottom,
sealed layers above it, a writable one on top. An earlier state is restored by dropping the layers above it.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from gpufleet.errors import CloudError
from gpufleet.lab.rack import cgroups
from gpufleet.lab.rack.cache import remove_tree
from gpufleet.lab.rack.layout import Layout, Record
from gpufleet.lab.rack.model import RackHost
from gpufleet.lab.rack.shell import run

BRIDGE = "rack0"
HARDWARE = "/srv/hardware"
SHARED = "/srv/shared"
# systemd-nspawn --keep-unit leaves a reboot to its caller, with this exit code.
_REBOOT = 133
# Its exit code where it could not make the container. On a busy machine it rarely does not find the bridge
# ("Failed to add interface vb-h2 to bridge rack0: No such device"), and finds it when it is started again.
_NOT_STARTED = 1
_STARTS = 3
_POWEROFF_S = 180.0
_LOOK_S = 0.2
# systemd colours its console output.
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f]")

# Joins its control groups before it becomes systemd-nspawn: from within a thread there is no other way to
# keep all processes of the host in them.
_JOIN = 'while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs"; shift; done; shift; exec "$@"'


class Container:
    """A host that can be started, stopped and restored. Its methods are thread-safe."""

    def __init__(self, layout: Layout, record: Record, host: RackHost, number: int) -> None:
        self.host = host
        self._record = record
        self._folder = layout.host(host.name)
        self._console = layout.console(host.name)
        self._hardware = layout.hardware(host.name)
        self._shared = layout.shared
        self._kubelet = bool(record.site.kubernetes)
        # Short: the bridge's end of its cable is called `vb-` and this, in 15 characters.
        self._machine = f"h{number}"
        self._groups = tuple(f"{group}/{self._machine}" for group in record.cgroups)
        self._notify = Path(record.runtime) / f"notify-{self._machine}"
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = threading.Event()
        self._stopping = False
        self._starts = 0
        self._layers = ["identity"]
        self._used = 1
        self.boots = 0

    @property
    def state(self) -> str:
        """Return `running` once it has booted, `starting` before that, `stopped` without a process."""
        if self._process is None:
            return "stopped"
        return "running" if self._ready.is_set() else "starting"

    def start(self) -> None:
        """Boot the host if it is not running; `wait` returns when it is up."""
        with self._lock:
            if self._process is not None:
                return
            self._mount()
            self._stopping = False
            self._starts = 1
            self._launch()
            threading.Thread(target=self._watch, daemon=True).start()

    def wait(self, deadline: float) -> bool:
        """Return whether the host has booted before `deadline` (of the monotonic clock); return at once if it
        has ended instead."""
        while (left := deadline - time.monotonic()) > 0 and self._process is not None:
            if self._ready.wait(min(left, _LOOK_S)):
                return True
        return self._ready.is_set()

    def console_tail(self, lines: int = 4) -> str:
        """Return the end of the host's console output, on one line."""
        try:
            text = self._console.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            text = ""
        output = [line.strip() for line in _ESCAPES.sub("", text).splitlines()]
        return " / ".join([line for line in output if line][-lines:]) or "nothing"

    def stop(self, *, force: bool = False) -> None:
        """Power the host off with its own systemd, or with `force` like a power failure."""
        with self._lock:
            process, self._stopping = self._process, True
        if process is not None and not force:
            process.terminate()
            try:
                process.wait(_POWEROFF_S)
            except subprocess.TimeoutExpired:
                force = True
        cgroups.end(self._groups)
        if process is not None:
            process.wait()
        with self._lock:
            self._process = None
            self._ready.clear()
            self._unmount()

    def seal(self, name: str) -> None:
        """Make the changes of the stopped host a layer called `name`, to return to."""
        # Layers above the one in use depend on it, and are invalid once this one is between them.
        for above in self._layers[self._used :]:
            remove_tree(self._folder / "layers" / above)
        (self._folder / "upper").rename(self._folder / "layers" / name)
        self._layers = [*self._layers[: self._used], name]
        self._used = len(self._layers)

    def drop_to(self, name: str) -> None:
        """Return the stopped host to the layer `name`, and discard its later changes.

        Layers that were sealed later stay: `drop_to` can return to them.
        """
        self._used = self._layers.index(name) + 1
        remove_tree(self._folder / "upper")

    def uses_layer(self, name: str) -> bool:
        """Return whether the layer `name` is in use below the host's changes."""
        return name in self._layers[: self._used]

    def has(self, name: str) -> bool:
        """Return whether a layer of that name exists."""
        return name in self._layers

    def connect(self, plugged: bool) -> None:
        """Disconnect or connect the network cable of the running host."""
        state = "up" if plugged else "down"
        run(["ip", "link", "set", self._cable, state], what=f"the cable of {self.host.name}")

    def _mount(self) -> None:
        root, upper, work = (self._folder / name for name in ("root", "upper", "work"))
        remove_tree(work)
        for folder in (root, upper, work):
            folder.mkdir(exist_ok=True)
        upper.chmod(0o755)
        above = [str(self._folder / "layers" / name) for name in reversed(self._layers[: self._used])]
        lower = ":".join([*above, *self._record.lower])
        # volatile: syncing a disk that is deleted with the rack would only take time.
        options = f"lowerdir={lower},upperdir={upper},workdir={work},volatile"
        run(
            ["mount", "-t", "overlay", "-o", options, "overlay", root],
            what=f"the disk of {self.host.name}",
            # util-linux 2.39 and later use calls of the kernel that take 255 characters an option.
            env={"LIBMOUNT_FORCE_MOUNT2": "always"},
        )

    def _unmount(self) -> None:
        root = self._folder / "root"
        if root.is_mount():
            run(["umount", root], what=f"the disk of {self.host.name}")

    def _launch(self) -> None:
        self._ready.clear()
        for group in self._groups:
            cgroups.make(Path(group))
        self._pull_old_cable()
        self._remove_old_export()
        command = ["sh", "-ec", _JOIN, "sh", *self._groups, "--", *self._nspawn()]
        listener = self._listen()
        with self._console.open("ab") as console:
            self._process = subprocess.Popen(  # noqa: S603 - no shell of a user's words
                command,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env={"PATH": os.environ.get("PATH", os.defpath), "NOTIFY_SOCKET": str(self._notify)},
            )
        threading.Thread(target=self._await_boot, args=(listener, self._process), daemon=True).start()

    def _nspawn(self) -> Iterable[str]:
        return (
            "systemd-nspawn",
            "--quiet",
            "--boot",
            # Neither machined nor the machine's systemd is needed or informed.
            "--register=no",
            "--keep-unit",
            "--notify-ready=yes",
            "--console=read-only",
            "--link-journal=no",
            # The disk is deleted with the rack, and each sync is one of all file systems of this machine.
            # containerd opens files with O_SYNC, which would fail.
            *(["--suppress-sync=yes"] if not self._kubelet and _can_suppress_sync() else []),
            "--resolv-conf=off",
            "--timezone=off",
            f"--network-bridge={BRIDGE}",
            f"--machine={self._machine}",
            f"--hostname={self.host.name}",
            f"--directory={self._folder / 'root'}",
            # Denied in effect: setting a clock needs CAP_SYS_TIME, which no host has. runc makes keyrings
            # for pods, and limits their devices by BPF.
            f"--system-call-filter=adjtimex clock_adjtime{' @keyring bpf' if self._kubelet else ''}",
            *([f"--bind={self._hardware}:{HARDWARE}"] if self._hardware.is_dir() else []),
            f"--bind={self._shared}:{SHARED}",
        )

    @property
    def _cable(self) -> str:
        """Return the bridge's end of the host's cable."""
        return f"vb-{self._machine}"

    def _pull_old_cable(self) -> None:
        """Remove the cable of a killed host if the kernel has not removed it yet.

        The kernel removes it some time after the host's last process has ended, later on a busy machine.
        Until then systemd-nspawn cannot create one of that name.
        """
        if not self._has_cable():
            return
        try:
            run(["ip", "link", "delete", self._cable], what=f"the old cable of {self.host.name}")
        except CloudError:
            if self._has_cable():  # and the kernel has not just removed it
                raise

    def _remove_old_export(self) -> None:
        """Remove the folder for sockets of a killed host: systemd-nspawn does not boot with it.

        systemd has it since 256, and removes it only when the host shuts down cleanly.
        """
        folder = Path("/run/systemd/nspawn/unix-export", self._machine)
        if folder.is_mount():
            run(["umount", folder], what=f"the old sockets of {self.host.name}")
        if folder.is_dir():
            folder.rmdir()

    def _has_cable(self) -> bool:
        return self._cable in (name for _, name in socket.if_nameindex())

    def _listen(self) -> socket.socket:
        self._notify.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listener.bind(str(self._notify))
        listener.settimeout(0.2)
        return listener

    def _await_boot(self, listener: socket.socket, process: subprocess.Popen[bytes]) -> None:
        """Wait until the host's systemd reports that it has booted."""
        with listener:
            while process.poll() is None:
                try:
                    output = listener.recv(4096)
                except TimeoutError:
                    continue
                if b"READY=1" in output.splitlines():
                    self.boots += 1
                    self._ready.set()
                    return

    def _watch(self) -> None:
        """Boot the host again after a reboot request or a failed start; notice a power-off."""
        while True:
            process = self._process
            if process is None:
                return
            code = process.wait()
            with self._lock:
                if self._stopping or self._process is not process:
                    return
                cgroups.end(self._groups)
                if code == _NOT_STARTED and not self._ready.is_set() and self._starts < _STARTS:
                    self._starts += 1
                elif code != _REBOOT:
                    self._process = None
                    self._ready.clear()
                    self._unmount()
                    return
                self._launch()


@cache
def _can_suppress_sync() -> bool:
    """Return whether this machine's systemd-nspawn can (since 250)."""
    return "--suppress-sync" in run(["systemd-nspawn", "--help"], what="the options of systemd-nspawn")


def prepare(layout: Layout, host: RackHost) -> Path:
    """Return the empty bottom layer of a host, for its identity."""
    layer = layout.host(host.name) / "layers" / "identity"
    layer.mkdir(parents=True)
    layout.shared.mkdir(exist_ok=True, mode=0o755)
    return layer
