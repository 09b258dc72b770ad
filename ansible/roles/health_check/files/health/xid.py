"""Xids and SXids: errors of GPUs and NVSwitches in the driver log, their actions, and how long they count.

An Xid that needs a reboot counts until the next boot, one that needs a reset until the driver reports
a reset or the next boot, one that isolates until `forget`. An Xid whose drain
was lifted by an administrator is reported and does not drain again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from health import sxid, xid_catalog
from health.config import Config
from health.finding import Finding
from health.gpus import Gpu, short_bus
from health.kernel_log import Line, stamped
from health.memory import Memory
from health.xid_catalog import ISOLATE, MONITOR, REBOOT, RESET

DRAINING = (ISOLATE, REBOOT, RESET)
# Of a GPU in MIG mode: `NVRM: Xid (PCI:0000:1b:00 GPU-I:05): 94, ...`. Old drivers leave `PCI:` out.
LINE = re.compile(r"(?:^|\b)NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]*\): (\d+)(?:, (.*))?$")
FALLEN = re.compile(r"(?:^|\b)NVRM: GPU ([0-9a-fA-F:.]+): (GPU has fallen off the bus)\b")
FALLEN_XID = 79
# 154 has the recovery action: "... changed from 0x0 (None) to 0x1 (GPU Reset Required)".
DERIVED, CONTAINED, UVM = 154, 95, 159
CHANGED = re.compile(r"changed from .* to 0x[0-9a-fA-F]+ \(([^)]*)\)")
# Fabric Manager's log has whole seconds of a clock that may be set: times of one line may differ by this.
SAME_S = 1.0
HOUR = 3600.0
REMEDY = {
    ISOLATE: "take the node out; then `health-check forget`",
    REBOOT: "reboot the node",
    RESET: "reset the GPU (nvidia-smi --gpu-reset) or reboot the node",
}
SWITCH_REMEDY = "reset all GPUs and NVSwitches together, or reboot the node; then `health-check forget`"


@dataclass
class Event:
    """One Xid or SXid of one device: `last` in seconds since boot, `noticed` since the epoch.

    Xids 144 to 150 and SXids differ in what they ask for: there is one event for each action.

    `acted`: the node was drained for it. `accepted`: an administrator resumed the node anyway.
    """

    bus: str
    xid: int
    action: str
    text: str
    last: float
    noticed: float
    count: int = 1
    acted: bool = False
    accepted: bool = False

    @property
    def key(self) -> tuple[str, int, str]:
        """The same for lines that are one event. A later Xid 154 replaces an earlier one."""
        return self.bus, self.xid, "" if self.xid == DERIVED else self.action

    @property
    def drains(self) -> bool:
        """Whether it drains."""
        return self.action in DRAINING and not self.accepted


def parse(log: str) -> list[Line]:
    """Return the Xids of a kernel log, oldest first."""
    lines, fallen = [], []
    for at, text in stamped(log):
        if hit := LINE.search(text):
            lines.append(Line(at, short_bus(hit[1]), int(hit[2]), (hit[3] or "").strip()))
        elif hit := FALLEN.search(text):
            fallen.append(Line(at, short_bus(hit[1]), FALLEN_XID, hit[2]))
    # The driver logs this after the Xid; newer ones may log it without.
    known = {line.bus for line in lines if line.xid == FALLEN_XID}
    lines += [line for line in fallen if line.bus not in known]
    return sorted(lines, key=lambda line: line.at)


def action_of(line: Line, config: Config, *, mig: bool, uvm_used: bool) -> str:
    """Return the action for an Xid of this node's GPU: the configured one, or that of NVIDIA's catalogue."""
    if line.xid >= sxid.FIRST:
        return sxid.action_of(line)
    if line.xid == DERIVED:
        return derived_action(line.text)
    if line.xid == UVM:
        return RESET if uvm_used else MONITOR
    # With MIG an error of an A100 is contained in one instance.
    if not (line.xid == CONTAINED and mig):
        for action, numbers in config.xid_overrides.get(config.gpu, {}).items():
            if line.xid in numbers:
                return action
    for action, numbers in config.xid_actions.items():
        if line.xid in numbers:
            return action
    return xid_catalog.action_of(line.xid, line.text)


def derived_action(text: str) -> str:
    """The action in Xid 154; MONITOR for none."""
    hit = CHANGED.search(text)
    wanted = hit[1].lower() if hit else ""
    if "reboot" in wanted:
        return REBOOT
    return RESET if "reset" in wanted or "drain" in wanted else MONITOR


def remembered(memory: Memory) -> list[Event]:
    """The events of earlier runs."""
    return [Event(**values) for values in memory.xids]


def update(
    memory: Memory,
    lines: Iterable[Line],
    config: Config,
    gpus: list[Gpu],
    *,
    boot_id: str,
    now: float,
    uvm_used: bool,
) -> list[Event]:
    """Record new log lines; the active events."""
    events = remembered(memory)
    if memory.boot_id != boot_id:
        events = [event for event in events if event.action == ISOLATE]
        for event in events:
            event.last = 0.0
        memory.xid_horizon, memory.recovery = {}, {}
    divided = {gpu.bus for gpu in gpus if gpu.mig}
    seen = {event.key: (event.last, event.text) for event in events}
    for line in lines:
        if line.at <= memory.xid_horizon.get(line.bus, -1.0):
            continue
        if line.xid == DERIVED and derived_action(line.text) == MONITOR and "(None)" in line.text:
            events = _was_reset(memory, events, line.bus, line.at)
            continue
        action = action_of(line, config, mig=line.bus in divided, uvm_used=uvm_used)
        new = Event(line.bus, line.xid, action, line.text, line.at, now)
        last, text = seen.get(new.key, (-1.0, ""))
        if line.at > last + (SAME_S if line.text == text else 0.0):
            _note(events, new)
    for gpu in gpus:
        events = _recovered(memory, events, gpu)
    memory.xids = [asdict(event) for event in events]
    return events


def _note(events: list[Event], new: Event) -> None:
    for event in events:
        if event.key == new.key:
            event.count += 1
            event.last, event.noticed, event.text = new.last, new.noticed, new.text
            event.action, event.acted, event.accepted = new.action, False, False
            return
    events.append(new)


def _was_reset(memory: Memory, events: list[Event], bus: str, at: float) -> list[Event]:
    """Drop events that a GPU reset repairs."""
    memory.xid_horizon[bus] = at
    return [event for event in events if event.bus != bus or event.action in (ISOLATE, REBOOT)]


def _recovered(memory: Memory, events: list[Event], gpu: Gpu) -> list[Event]:
    """Drop events whose driver no longer requests an action."""
    wanted = gpu.values.get("gpu_recovery_action", "")
    if not wanted or "N/A" in wanted:
        return events
    before = memory.recovery.get(gpu.bus, "None")
    memory.recovery[gpu.bus] = wanted
    if wanted != "None" or before == "None":
        return events
    return _was_reset(memory, events, gpu.bus, _latest(events, gpu.bus))


def _latest(events: list[Event], bus: str) -> float:
    return max((event.last for event in events if event.bus == bus), default=0.0)


def accept(events: list[Event]) -> None:
    """Accept events after an administrator resumed the node."""
    for event in events:
        if event.acted and event.drains:
            event.accepted = True


def forget(memory: Memory, bus: str = "") -> int:
    """Drop the events of a GPU, or of all; the number dropped. Later log lines count again."""
    gone = [event for event in remembered(memory) if not bus or event.bus == bus]
    for event in gone:
        memory.xid_horizon[event.bus] = max(memory.xid_horizon.get(event.bus, 0.0), event.last)
    memory.xids = [asdict(event) for event in remembered(memory) if event not in gone]
    return len(gone)


def check(events: list[Event], labels: dict[str, str], config: Config, now: float) -> list[Finding]:
    """Events that drain, and for a day those that are only reported."""
    found = []
    for event in events:
        switch = event.xid >= sxid.FIRST
        label = f"NVSwitch {event.bus}" if switch else labels.get(event.bus, f"PCI {event.bus}")
        name, check = ("SXid", "sxid") if switch else ("Xid", "xid")
        # User programs can write to this text: repeat only words of the driver.
        message = event.text.rpartition(", ")[2].partition(" (0x")[0][:60].rstrip(". ")
        message = message or xid_catalog.description_of(event.xid)
        times = f", {event.count} times" if event.count > 1 else ""
        name = f"{name} {event.xid}{f' ({message})' if message else ''}{times}"
        if event.drains:
            remedy = SWITCH_REMEDY if switch and event.action == RESET else REMEDY[event.action]
            found.append(Finding(check, label, f"{name}: {event.action}", remedy, evicts=True))
        elif now - event.noticed < config.xid_monitor_hours * HOUR or event.accepted:
            why = "accepted by a person" if event.accepted else event.action
            found.append(Finding(f"{check}_monitor", label, f"{name}: {why}"))
    return found


def as_json(events: list[Event]) -> list[dict[str, Any]]:
    """As plain values."""
    return [asdict(event) for event in events]
