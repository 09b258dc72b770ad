"""From a fleet file to everything that follows from it: `build_plan` is pure and deterministic."""

from gpufleet.plan.build import build_plan

__all__ = ["build_plan"]
