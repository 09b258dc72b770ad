"""Checks of shared and divided GPUs in cloud node groups."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checks.fleets import GONE, Judge
from tests.unit.checks.test_networks import SLURM, second_site

SLICED = {"time_slicing": {"replicas": 4}}
MPS = {"mps": {"replicas": 2}}
OPERATOR = {"cloud.0.kubernetes.gpu_stack": "gpu-operator"}


def shared(instance: str = "g6.xlarge", **settings: Any) -> dict[str, Any]:
    capacity = {"on_demand": {"max": 2}}
    return {
        "cloud.0.node_groups.+": {"name": "s", "instance_types": [instance], "capacity": capacity} | settings
    }


@pytest.mark.parametrize(
    "settings",
    [
        shared(gpu_sharing=SLICED),
        shared(gpu_sharing=SLICED) | OPERATOR,
        shared(gpu_sharing=MPS) | OPERATOR,
        shared("p5.4xlarge", mig_profile="1g.10gb") | OPERATOR,
        shared("p5.4xlarge", mig_profile="1g.10gb", gpu_sharing=SLICED) | OPERATOR,
    ],
)
def test_shared_gpus_with_a_quota_pass(judge: Judge, settings: dict[str, Any]) -> None:
    assert judge(settings | {"cloud.0.kubernetes.teams.0.gpu_shares": 4}).rules == set()


@pytest.mark.parametrize(
    ("settings", "rule", "message"),
    [
        (SLURM | shared(gpu_sharing=SLICED), "gpu-sharing", "shares GPUs, and site 'use1' has Slurm"),
        (SLURM | shared(mig_profile="1g.10gb"), "mig-profile", "divides GPUs, and site 'use1' has Slurm"),
        (shared("m7i.xlarge", gpu_sharing=SLICED), "gpu-sharing", "shares GPUs, and m7i.xlarge has none"),
        (
            shared("m7i.xlarge", mig_profile="1g.10gb") | OPERATOR,
            "mig-profile",
            "divides GPUs, and m7i.xlarge has none",
        ),
        (
            shared(gpu_sharing=MPS),
            "gpu-sharing",
            "uses MPS, and the device plugin alone does not run its daemon",
        ),
        (
            shared("p5.4xlarge", mig_profile="1g.10gb", gpu_sharing=MPS) | OPERATOR,
            "gpu-sharing",
            "uses both MPS and MIG (1g.10gb)",
        ),
        (
            shared("p5.4xlarge", mig_profile="1g.10gb"),
            "mig-profile",
            "divides GPUs, which the MIG manager of the GPU Operator does",
        ),
        (
            shared("p5.4xlarge", mig_profile="1g.5gb") | OPERATOR,
            "mig-profile",
            "H100 in p5.4xlarge has no MIG profile '1g.5gb'",
        ),
        (
            shared("g6.xlarge", mig_profile="1g.5gb") | OPERATOR,
            "mig-profile",
            "MIG support of L4 in g6.xlarge is not documented",
        ),
    ],
)
def test_what_cannot_be_shared_is_refused(
    judge: Judge, settings: dict[str, Any], rule: str, message: str
) -> None:
    (finding,) = judge(settings).of(rule)
    assert message in finding.message
    assert finding.severity == "error"


def test_site_without_settings_has_the_device_plugin_alone(judge: Judge) -> None:
    defaults = {"cloud.0.kubernetes": GONE, "cloud.0.node_groups.0.team": GONE}
    finding = judge(shared(gpu_sharing=MPS) | defaults).only("gpu-sharing")
    assert (finding.field, finding.value) == ("cloud[0].kubernetes.gpu_stack", "device-plugin")


def test_shares_that_no_team_may_use_are_a_warning(judge: Judge) -> None:
    finding = judge(shared(gpu_sharing=SLICED)).only("team-gpu-shares", "warning")
    assert "no team of site 'use1' has a quota of nvidia.com/gpu.shared" in finding.message
    assert finding.remedy == "write 'gpu_shares: 8', or less, for the teams that use them"


@pytest.mark.parametrize(
    ("settings", "quota", "most", "remedy"),
    [
        ({}, 1, 0, "leave `gpu_shares` out"),
        (shared(gpu_sharing=SLICED), 9, 8, "write 8 or fewer"),
        (shared("p5.4xlarge", mig_profile="1g.10gb") | OPERATOR, 15, 14, "write 14 or fewer"),
    ],
)
def test_quota_above_the_shares_of_the_site_is_a_warning(
    judge: Judge, settings: dict[str, Any], quota: int, most: int, remedy: str
) -> None:
    field = "cloud.0.kubernetes.teams.0.gpu_shares"
    finding = judge(settings | {field: quota}).only("team-gpu-shares", "warning")
    assert f"has a quota of {quota} shares of GPUs, but site 'use1' has at most {most}" in finding.message
    assert finding.remedy == remedy
    assert judge(settings | {field: most}).of("team-gpu-shares") == []


def test_shares_of_another_site_do_not_count(judge: Judge) -> None:
    other = second_site("10.41.0.0/16") | {
        "node_groups": [
            {"name": "s", "instance_types": ["g6.xlarge"], "capacity": {"on_demand": {"max": 2}}}
            | {"gpu_sharing": SLICED}
        ]
    }
    reported = judge({"cloud.+": other, "cloud.0.kubernetes.teams.0.gpu_shares": 4})
    messages = [each.message for each in reported.of("team-gpu-shares")]
    assert any("site 'use1' has at most 0" in each for each in messages)


def test_type_without_gpus_has_no_shares(judge: Judge) -> None:
    quota = {"cloud.0.kubernetes.teams.0.gpu_shares": 1}
    reported = judge(shared("m7i.xlarge", gpu_sharing=SLICED) | quota)
    assert reported.rules == {"gpu-sharing", "team-gpu-shares"}


def test_shares_of_an_unknown_type_are_not_counted(judge: Judge) -> None:
    reported = judge(shared(gpu_sharing=SLICED) | {"cloud.0.node_groups.4.instance_types.+": "g6.xlarg"})
    assert reported.of("team-gpu-shares") == []
    assert "instance-type-known" in reported.rules
