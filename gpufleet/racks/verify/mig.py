"""Divided GPUs: MIG mode, the instances that there are, and the service that makes them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from gpufleet.racks.verify.measurements import Reading, RoleMeasurements, again
from gpufleet.racks.verify.result import Result


def layout_of(values: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return GPU -> profile -> count from the inventory."""
    return dict(values.get("mig_layout") or {})


def mig(found: RoleMeasurements) -> Iterator[Result]:
    """The GPUs of the layout and no others are in MIG mode, and each has the instances that it should
    have."""
    layout = layout_of(found.values)
    drained = f"drain the node, then {again(found)}"

    def modes(text: str) -> Reading:
        rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
        on = {row[0] for row in rows if row[1] == "Enabled"}
        if not rows:
            raise ValueError("no GPU answered")
        wrong = sorted(on ^ set(layout), key=int)
        return Reading(
            f"GPUs {', '.join(sorted(on, key=int)) or 'none'}",
            f"GPU {', '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} not as asked" if wrong else "",
        )

    yield found.expect(
        "mode", "modes", modes, expected=f"GPUs {', '.join(layout) or 'none'} divided", remedy=drained
    )

    def instances(text: str) -> Reading:
        there: dict[str, Counter[str]] = {}
        for item in json.loads(text):
            there.setdefault(str(item["gpu"]), Counter())[item["profile"]] += 1
        wrong = sorted(
            (
                gpu
                for gpu in there.keys() | layout.keys()
                if there.get(gpu, Counter()) != Counter(layout.get(gpu, {}))
            ),
            key=int,
        )
        differences = "; ".join(f"GPU {gpu} has {_words(there.get(gpu, {}))}" for gpu in wrong)
        return Reading(f"{sum(counts.total() for counts in there.values())} instances", differences)

    wanted = sum(count for profiles in layout.values() for count in profiles.values())
    yield found.expect("instances", "instances", instances, expected=f"{wanted} instances", remedy=drained)
    yield found.active("service", "unit", "gpufleet-mig.service")


def _words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in sorted(counts.items())) or "no instances"


def cdi_names(gpus: int, layout: Mapping[str, Mapping[str, int]]) -> set[str]:
    """Devices of the CDI specification: `0` for a whole GPU, `1:0` for an instance of a divided one
    (NVIDIA Container Toolkit, Support for Container Device Interface)."""
    names = {str(index) for index in range(gpus) if str(index) not in layout}
    for gpu, profiles in layout.items():
        names |= {f"{gpu}:{number}" for number in range(sum(profiles.values()))}
    return names
