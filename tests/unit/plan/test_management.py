"""Management controllers in the plan: their ports, and the model that they report."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.plan import build_plan
from tests.unit.plan.fleets import CATALOG, rack_site, spec


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
