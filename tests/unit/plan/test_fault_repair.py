"""NVSentinel in the plan of a site."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.plan.fault_repair import FaultRepairPlan
from gpufleet.plan.models import KubernetesPlan
from gpufleet.report.scaling_text import repair_lines
from tests.unit.plan.fleets import CATALOG, group, on_demand, plan_of


def kubernetes(repair: dict[str, Any] | None) -> KubernetesPlan:
    settings: dict[str, Any] = {"private_cidrs": ["10.60.0.0/24"], "gpu_stack": "gpu-operator"}
    if repair is not None:
        settings["fault_repair"] = repair
    site = {"scheduler": "kubernetes", "kubernetes": settings}
    found = plan_of(group("serve", "g6.xlarge", on_demand(1, 2)), **site).cloud[0].kubernetes
    assert found is not None
    return found


@pytest.mark.parametrize("repair", [None, {"kind": "none", "action": "drain"}])
def test_without_it_nothing_is_planned(repair: dict[str, Any] | None) -> None:
    assert kubernetes(repair).fault_repair is None
    assert list(repair_lines(kubernetes(repair))) == []


def test_versions_are_the_channels_and_it_only_detects_by_default() -> None:
    lock = CATALOG.lock("2026.11")
    found = kubernetes({}).fault_repair
    assert found == FaultRepairPlan(f"v{lock.nvsentinel}", f"v{lock.cert_manager}", "detect", 60)
    assert not found.keeps_events


@pytest.mark.parametrize(
    ("action", "says"),
    [
        ("detect", ", and acts on none"),
        ("quarantine", " and cordons their nodes"),
        ("drain", ", cordons their nodes, and deletes their pods after 90 min"),
    ],
)
def test_plan_prints_what_it_does(action: str, says: str) -> None:
    found = kubernetes({"action": action, "drain_after": "1.5 h"})
    assert found.fault_repair is not None
    assert found.fault_repair.keeps_events == (action != "detect")
    assert list(repair_lines(found)) == [f"NVSentinel {found.fault_repair.version} finds faulty GPUs{says}"]
