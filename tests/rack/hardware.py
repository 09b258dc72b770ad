"""Change the hardware of a rack's host while it runs: inject and repair faults."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KIT = Path(__file__).resolve().parent / "kit"
sys.path.insert(0, str(KIT / "hardware"))

# The kit's own, which hosts have too.
import state as kit_state  # type: ignore[import-not-found]  # noqa: E402
import sysfs  # type: ignore[import-not-found]  # noqa: E402


class Hardware:
    """The hardware of one host. Changes are visible at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextlib.contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """The description in the terms of tests/rack/kit/describe.py, to be changed in place."""
        with (self.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = self.state()
            yield state
            self._store(state)

    def state(self) -> dict[str, Any]:
        """What is plugged in now."""
        return json.loads((self.folder / "state.json").read_text())

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a result of `state()`."""
        (self.folder / "clock.env").unlink(missing_ok=True)
        shutil.rmtree(self.folder / "disks", ignore_errors=True)
        self._store(state)

    def keep(self, kept: Path) -> None:
        """Copy the hardware of a stopped host, with the contents of its disks."""
        shutil.rmtree(kept, ignore_errors=True)
        (kept / "disks").mkdir(parents=True)
        shutil.copy2(self.folder / "state.json", kept)
        for image in (self.folder / "disks").glob("*"):
            # Terabytes of holes: cp leaves them holes.
            subprocess.run(["cp", "--archive", "--sparse=always", image, kept / "disks"], check=True)

    def bring_back(self, kept: Path) -> None:
        """Restore the copy into a stopped host."""
        self.restore(json.loads((kept / "state.json").read_text()))
        subprocess.run(
            ["cp", "--archive", "--sparse=always", kept / "disks", self.folder / "disks"], check=True
        )

    def remove_gpu(self, index: int) -> None:
        """Remove a GPU from the bus; the driver finds one less."""
        with self.changing() as state:
            state["gpus"][index]["present"] = False

    def remove_socket(self) -> None:
        """A socket is off: its processors are in the other one."""
        with self.changing() as state:
            state["processors"]["sockets"] -= 1

    def remove_dimm(self, gib: int = 64) -> None:
        """A memory module is off."""
        with self.changing() as state:
            state["memory"]["kib"] -= gib * 1024**2

    def xid(self, number: int, gpu: int = 0, text: str = "") -> None:
        """Log an Xid; 79 makes the driver lose the GPU."""
        with self.changing() as state:
            hit = state["gpus"][gpu]
            hit["last_xid"] = number
            reported = text or {79: "GPU has fallen off the bus.", 48: "DBE (double bit error)"}.get(
                number, ""
            )
            bus = hit["bus_id"].rpartition(".")[0]
            line = f"NVRM: Xid (PCI:{bus}): {number}, pid='<unknown>', name=<unknown>, {reported}"
            state["kernel_log"].append({"time": time.time(), "text": line})
            if number == 79:
                hit["lost"] = True
                hit["recovery_action"] = "Node Reboot"

    def sxid(self, number: int, text: str, switch: int = 0, *, fatal: bool = True) -> None:
        """An NVSwitch logs an SXid, in the lines that the driver writes for one."""
        place = f"nvidia-nvswitch{switch}: SXid (PCI:0000:{5 + switch:02x}:00.0): {number}, "
        reported = f"{'Fatal' if fatal else 'Non-fatal'}, {text}"
        more = ("Severity 1 Engine instance 60 Sub-engine instance 00", "Data {0x10000000, 0x00000000}")
        with self.changing() as state:
            for line in (reported, *more):
                state["kernel_log"].append({"time": time.time(), "text": place + line})

    def corrupt_inforom(self, gpu: int = 0) -> None:
        """The GPU's InfoROM is corrupt: nvidia-smi answers and warns."""
        with self.changing() as state:
            state["gpus"][gpu]["inforom_corrupt"] = True

    def ecc(self, gpu: int = 0, *, kind: str = "dram_uncorrected", count: int = 1) -> None:
        """The GPU's memory has errors: `dram_` or `sram_`, `corrected` or `uncorrected`."""
        with self.changing() as state:
            for when in ("volatile", "aggregate"):
                state["gpus"][gpu]["ecc"][when][kind] += count

    def remap(self, gpu: int = 0, **rows: Any) -> None:
        """Rows of memory are remapped: `correctable`, `uncorrectable`, `pending`, `failure`."""
        with self.changing() as state:
            state["gpus"][gpu]["remapped_rows"] |= rows

    def nvlink(self, gpu: int, link: int, *, active: bool) -> None:
        """A link goes down or comes up."""
        with self.changing() as state:
            state["gpus"][gpu]["nvlinks"][link]["active"] = active

    def pcie_width(self, gpu: int, width: int) -> None:
        """The GPU's link is trained with fewer lanes."""
        with self.changing() as state:
            state["gpus"][gpu]["pcie"]["width"] = width

    def throttle(self, gpu: int, *reasons: str) -> None:
        """The GPU lowers its clocks for these reasons, named as in `clocks_event_reasons`."""
        with self.changing() as state:
            state["gpus"][gpu]["throttle"] = list(reasons)
            slow = bool(set(reasons) - {"gpu_idle"})
            most = state["gpus"][gpu]["clocks_max"]["sm"]
            state["gpus"][gpu]["clocks"]["sm"] = most // 2 if slow else most

    def port(self, index: int = 0, **values: Any) -> None:
        """An adapter's port: `state`, `physical_state`, `speed`, `lanes`, `lid`."""
        with self.changing() as state:
            state["hcas"][index]["port"] |= values

    def port_counters(self, index: int = 0, **counts: int) -> None:
        """An adapter's error counters."""
        with self.changing() as state:
            state["hcas"][index]["port"]["counters"] |= counts

    def clock_offset(self, seconds: float) -> None:
        """Give programs that compare clocks on this host (chrony, munge, Slurm) a wrong one after a restart.

        Needs Debian's package `libfaketime` on the host.
        """
        library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
        text = f"LD_PRELOAD={library}\nFAKETIME={seconds:+f}\nFAKETIME_DONT_FAKE_MONOTONIC=1\n"
        (self.folder / "clock.env").write_text(text)

    def _store(self, state: dict[str, Any]) -> None:
        kit_state.store(state, self.folder)
        sysfs.render(state, self.folder / "sys")
