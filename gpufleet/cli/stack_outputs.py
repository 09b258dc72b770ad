"""Outputs of an environment's stack for the commands of racks, from its state: no cloud is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpufleet.plan.models import FleetPlan
from gpufleet.workspace import Workspace


def stack_outputs(workspace: Workspace, plan: FleetPlan, cloud: str | None) -> Mapping[str, Any]:
    """Return the stack's outputs. Raises GpufleetError if its state cannot be read."""
    from gpufleet.cli.engine_choice import choose_engine

    chosen = workspace.cloud(plan.environment, cloud)
    request = workspace.offline_request(plan.environment, chosen)
    return choose_engine("auto", request, chosen).outputs(request)
