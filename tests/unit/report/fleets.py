"""Verdicts on whole fleets without an engine: each cost line is the plan's, as if it were a resource's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gpufleet.checks import validate
from gpufleet.plan import build_plan
from gpufleet.pricing import price_plan
from gpufleet.resources.stack import Stack
from gpufleet.verdict.costs import compare_costs
from gpufleet.verdict.models import RuleResult, Verdict
from gpufleet.verdict.racks import rack_differences
from gpufleet.verdict.sides import Side
from tests.unit.verdict.conftest import NOW, verdict

ROOT = Path(__file__).resolve().parents[3]

RACKS = """\
apiVersion: gpufleet/v1
fleet: halls
environment: racks
budget: { monthly: 40000 USD }
tags: { team: ml, cost-center: cc-1, project: halls }
onprem:
  - site: dc1
    system: dgx-h100
    nodes: {nodes}
    controllers: ctl[01-02]
    login: login01
    network: 10.80.0.0/16
    fabric: { kind: infiniband, speed: ndr, topology: rail-optimized }
    power: { per_rack: 40 kW, pue: 1.3, price: 0.12 USD/kWh }
    storage:
      - { name: home, kind: nfs, source: "nas01:/export/home", mount: /shared/home }
    {more}
software: { channel: 2026.11 }
"""


def racks_only(folder: Path, nodes: str = "dgx[001-031]", more: str = "") -> Path:
    """A fleet file with one hall and no cloud; `more` is a field of the hall."""
    path = folder / "fleet.yaml"
    path.write_text(RACKS.replace("{nodes}", nodes).replace("{more}", more), encoding="utf-8")
    return path


def verdict_on(target: str, *rules: RuleResult, **changes: Any) -> Verdict:
    """The verdict on an environment of this checkout, or on a fleet file; nothing to compare with."""
    validated = validate(target, root=ROOT, now=NOW)
    spec, catalog = validated.loaded.spec, validated.catalog
    plan = build_plan(spec, catalog)
    # Without the assumptions of the fleet file, so that there are unknown costs.
    cost = price_plan(replace(plan, budget=replace(plan.budget, assume={})), catalog)
    fields: dict[str, Any] = {
        "environment": spec.environment,
        "base": None,
        "changes": (),
        "unchanged": 0,
        "costs": compare_costs(None, cost, spec.budget.monthly.amount, NOW.date()),
        "racks": rack_differences(None, (spec, plan), catalog),
        "exemptions": (),
        "open_changes": (),
        "after": Side(validated.loaded, plan, Stack(()), cost),
    }
    return verdict(*rules, **{**fields, **changes})
