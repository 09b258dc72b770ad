"""Management controllers in the plan, the model that they report, and how GPUs are divided."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.plan import build_plan
from gpufleet.plan.management import mig_layout, plan_management, plan_mig
from gpufleet.plan.rack_models import MigPlan
from tests.unit.plan.fleets import CATALOG, rack_site, spec

from .test_rack import site


@pytest.mark.parametrize(
    ("given", "port", "model"),
    [
        ({}, 443, "DGXH100"),
        ({"protocol": "ipmi"}, 623, "DGXH100"),
        ({"port": 8443}, 8443, "DGXH100"),
        ({"model": "SYS-821GE"}, 443, "SYS-821GE"),
    ],
)
def test_what_is_not_written_follows_from_protocol_and_system(
    given: dict[str, Any], port: int, model: str
) -> None:
    site = rack_site(system="dgx-h100", management={"user": "admin", **given})
    found = build_plan(spec(onprem=[site]), CATALOG).onprem[0].rack.management_settings
    assert found is not None
    assert (found.port, found.model) == (port, model)


def test_power_cap_is_in_watts_and_none_unless_declared() -> None:
    found = plan_management(site(management={"user": "admin", "power_cap": "9.5 kW"}))
    assert found is not None and found.power_cap_w == 9500
    plain = plan_management(site(management={"user": "admin"}))
    assert plain is not None and plain.power_cap_w is None
    assert plan_management(site()) is None


def test_empty_list_of_layouts_is_a_decision_and_none_is_not() -> None:
    assert plan_mig(site()) is None
    assert plan_mig(site(mig=[])) == ()


def test_layout_of_a_node_has_the_gpus_that_are_named_or_all() -> None:
    half, small = {"3g.40gb": 2}, {"1g.10gb": 7}
    layouts = (MigPlan(("a", "b"), (3, 1), half), MigPlan(("c",), (), small))
    assert mig_layout(layouts, "a", 4) == {"1": half, "3": half}
    assert mig_layout(layouts, "c", 2) == {"0": small, "1": small}
    assert mig_layout(layouts, "d", 2) == {}
