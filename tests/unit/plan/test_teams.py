"""Teams of an EKS site in the plan: what their pods read and write."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.plan import build_plan
from gpufleet.plan.kubernetes_models import TeamBucketPlan, TeamFileSystemPlan
from tests.unit.plan.fleets import CATALOG, cloud_site, spec


@pytest.mark.parametrize(("access", "write"), [("read", False), ("read-write", True)])
def test_access_of_a_team_is_that_of_the_fleet_file(access: str, write: bool) -> None:
    team: dict[str, Any] = {
        "name": "research",
        "gpus": 8,
        "buckets": [{"storage": "data", "access": access}],
        "file_systems": [{"storage": "fast", "access": access}],
    }
    site = cloud_site(scheduler="kubernetes", kubernetes={"teams": [team]})
    plan = build_plan(spec(cloud=[site]), CATALOG).cloud[0].kubernetes
    assert plan is not None
    (found,) = plan.teams
    assert found.buckets == (TeamBucketPlan("data", write),)
    assert found.file_systems == (TeamFileSystemPlan("fast", write),)
