"""Nodes and racks as rectangles: geometry and text, no markup. Lengths are in units of the drawing.

A large group is drawn to scale: one square then represents several nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from gpufleet.plan.models import NodeGroupPlan

WIDTH = 230
_DETAILED = 12
"""Maximum number of nodes that are drawn with their GPUs."""
_SQUARES = 140
"""Maximum number of squares of a group."""
UNITS = 42
"""Rack units of a common cabinet."""
SYSTEM_UNITS = 8
"""Default rack units of a system, if the catalog has none."""


class Box(Struct, frozen=True):
    """A rectangle. `kind` is a class of the style sheet."""

    x: float
    y: float
    width: float
    height: float
    kind: str


class Drawing(Struct, frozen=True):
    """Boxes on a sheet, and a text with the same content."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    words: str


def draw_nodes(group: NodeGroupPlan) -> tuple[int, Drawing]:
    """Return the nodes per square, and the squares: filled up to desired, empty up to the maximum.

    A few nodes are drawn with their GPUs or Neuron devices.
    """
    capacity = group.capacity
    each = group.accelerator
    devices = each.count if each is not None else 0
    words = f"{capacity.desired:,} nodes, at most {capacity.max:,}"
    words += f", {devices} {each.name} each" if each is not None else ""
    if capacity.max > _DETAILED:
        scale = round_up(capacity.max, _SQUARES)
        boxes = [
            Box(x, y, 14, 14, f"square {'on' if place * scale < capacity.desired else 'off'}")
            for place, (x, y) in enumerate(_flow(-(-capacity.max // scale), 14, 14, 4))
        ]
        return scale, _drawing(boxes, words)
    columns = min(4, max(1, devices))
    rows = -(-devices // columns)
    width, height = columns * 11 + 5, rows * 11 + 5
    found: list[Box] = []
    for place, frame in enumerate(_flow(capacity.max, width, height, 6)):
        kind = "on" if place < capacity.desired else "off"
        found.append(Box(*frame, width, height, f"node {kind}"))
        for gpu in range(devices):
            x, y = frame[0] + 3 + gpu % columns * 11, frame[1] + 3 + gpu // columns * 11
            found.append(Box(x, y, 9, 9, f"gpu {kind}"))
    return 1, _drawing(found, words)


def draw_rack(name: str, systems: int, units: int, gpus: int) -> Drawing:
    """Draw a cabinet from the front, filled from below."""
    height = max(UNITS, systems * units) * 2
    boxes = [Box(0, 0, 40, height + 6, "cabinet")]
    tall = units * 2 - 1
    for place in range(systems):
        top = height + 3 - (place + 1) * units * 2
        boxes.append(Box(4, top, 32, tall, "system"))
        boxes += [Box(7 + gpu % 4 * 7, top + 2.5 + gpu // 4 * 6, 5, 4, "dot") for gpu in range(min(gpus, 8))]
    return Drawing(40, height + 6, tuple(boxes), f"{name}: {systems} system{'s' if systems != 1 else ''}")


def round_up(count: int, most: int) -> int:
    """Return how many each shape represents to draw no more than `most`: 1, 2, 5, 10, 20, 50, ..."""
    scale = 1
    for step in (2, 2.5, 2) * 12:
        if count <= scale * most:
            break
        scale = int(scale * step)
    return scale


def _flow(count: int, width: float, height: float, gap: float) -> list[tuple[float, float]]:
    in_row = max(1, int((WIDTH + gap) // (width + gap)))
    return [(place % in_row * (width + gap), place // in_row * (height + gap)) for place in range(count)]


def _drawing(boxes: Sequence[Box], words: str) -> Drawing:
    height = max((box.y + box.height for box in boxes), default=0)
    return Drawing(WIDTH, height, tuple(boxes), words)
