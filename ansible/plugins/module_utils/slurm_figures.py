"""Prometheus samples, and parsers for GPUs, times and states of Slurm commands. It needs no Ansible."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

Labels = tuple[tuple[str, str], ...]


class Figures:
    """Samples by metric, each metric with type and help."""

    def __init__(self) -> None:
        self._about: dict[str, tuple[str, str]] = {}
        self._samples: dict[str, dict[Labels, float]] = {}

    def set(self, name: str, text: str, value: float, kind: str = "gauge", **labels: str) -> None:
        """One sample."""
        self._about[name] = (kind, text)
        self._samples.setdefault(name, {})[tuple(labels.items())] = value

    def counts(self, name: str, text: str, names: tuple[str, ...], counted: Mapping[Any, float]) -> None:
        """Samples by label values."""
        for key, value in counted.items():
            self.set(name, text, value, **dict(zip(names, key, strict=True)))

    def text(self) -> str:
        """In Prometheus text format."""
        lines = []
        for name, samples in self._samples.items():
            kind, text = self._about[name]
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            for labels, value in samples.items():
                inside = ",".join(f'{key}="{_escaped(found)}"' for key, found in labels)
                lines.append(f"{name}{{{inside}}} {value:.10g}" if inside else f"{name} {value:.10g}")
        return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def gpus(tres: str) -> int:
    """GPUs in `cpu=4,gres/gpu=8,gres/gpu:h100=8` or `gres:gpu:h100:8`, depending on the Slurm version."""
    total = re.search(r"(?:^|,)gres/gpu=(\d+)", tres)
    if total:
        return int(total[1])
    typed = re.findall(r"(?:^|,)gres[/:]gpu(?::[A-Za-z][\w.-]*)?[:=](\d+)", tres)
    if typed:
        return sum(map(int, typed))
    return len(re.findall(r"(?:^|,)gres[/:]gpu(?::[A-Za-z][\w.-]*)?(?=,|$)", tres))


def seconds(text: str) -> float | None:
    """Slurm's local time as seconds since 1970; None for `Unknown` and `None`."""
    try:
        return dt.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def node_state(text: str) -> str:
    """One state of `MIXED+DRAIN` or `IDLE*`; `*` means that the node does not answer."""
    flags = set(re.sub(r"[^A-Z_+]", "", text.upper()).split("+"))
    base = text.upper().split("+")[0].rstrip("*~#!%$@^-")
    if "DOWN" in flags or "*" in text or "FAIL" in flags or "NOT_RESPONDING" in flags:
        return "down"
    if "DRAIN" in flags or base in ("DRAINED", "DRAINING"):
        return "draining" if base in ("MIXED", "ALLOCATED", "ALLOC", "COMPLETING", "DRAINING") else "drained"
    if base in ("IDLE", "MIXED", "ALLOCATED"):
        return "other" if flags & {"MAINT", "REBOOT_ISSUED", "POWERED_DOWN", "POWERING_UP"} else base.lower()
    return "other"


def is_absent(text: str) -> bool:
    """Whether it is a cloud node that is powered down, up or neither yet: there is no such machine now."""
    flags = set(text.upper().split("+"))
    return "CLOUD" in flags and bool(flags & {"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP"})


def fields(line: str) -> dict[str, str]:
    """`Key=value` words of a scontrol line. A reason contains blanks and precedes none of the parsed keys."""
    found = dict(re.findall(r"(?:^|\s)([A-Za-z]\w*)=(\S*)", line))
    reason = re.search(r"\sReason=(.*?)(?=\s[A-Z]\w*=|$)", line)
    return found | ({"Reason": reason[1]} if reason else {})
