"""Public registries for the tests of this folder."""

from __future__ import annotations

from tests.unit.racks.mirror.registries import public

__all__ = ["public"]
