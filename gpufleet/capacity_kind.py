"""The kinds of capacity, by the names that labels, outputs, prices and the plan's JSON use."""

from __future__ import annotations

from typing import Literal

CapacityKind = Literal["on-demand", "spot", "odcr", "capacity-block"]
