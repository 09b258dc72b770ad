"""NVSentinel of a site: the GPU Operator, GPUs to watch, whole minutes, and a way to its images."""

from __future__ import annotations

import pytest

from tests.unit.checks.fleets import Judge

FIELD = "cloud.0.kubernetes.fault_repair"
OPERATOR = {"cloud.0.kubernetes.gpu_stack": "gpu-operator"}
RULES = {"fault-repair-stack", "fault-repair-of-nothing", "drain-after"}


def test_defaults_pass_with_the_gpu_operator(judge: Judge) -> None:
    assert not judge({FIELD: {}, **OPERATOR}).rules & RULES
    assert not judge({FIELD: {"action": "drain", "drain_after": "1 min"}, **OPERATOR}).rules & RULES


def test_device_plugin_alone_has_no_dcgm(judge: Judge) -> None:
    finding = judge({FIELD: {}}).only("fault-repair-stack")
    assert finding.field == "cloud[0].kubernetes.gpu_stack"
    assert (finding.severity, finding.value) == ("error", "device-plugin")
    assert finding.message == "NVSentinel of site 'use1' needs DCGM, and device-plugin has none"
    assert "write 'gpu_stack: gpu-operator'" in finding.remedy
    assert not judge({FIELD: {"kind": "none"}}).rules & RULES


def test_site_without_gpus_has_nothing_to_watch(judge: Judge) -> None:
    changes = {FIELD: {}, **OPERATOR, "cloud.0.node_groups": [], "cloud.0.ordered_capacity": []}
    (finding,) = judge(changes).of("fault-repair-of-nothing")
    assert (finding.severity, finding.value) == ("warning", "use1")


@pytest.mark.parametrize("written", ["30 s", "90 s"])
def test_pods_go_on_for_whole_minutes(judge: Judge, written: str) -> None:
    finding = judge({FIELD: {"drain_after": written}, **OPERATOR}).only("drain-after")
    assert finding.field == "cloud[0].kubernetes.fault_repair.drain_after"
    assert f"go on for {written}" in finding.message


def test_private_site_cannot_pull_it(judge: Judge) -> None:
    private = {"cloud.0.network.nat": "none", **OPERATOR}

    def found(**settings: str) -> int:
        messages = [each.message for each in judge({FIELD: settings, **private}).of("registry-unreachable")]
        return sum("ghcr.io" in each for each in messages)

    assert found() == 1
    assert found(kind="none") == 0


def test_slurm_site_is_not_judged(judge: Judge) -> None:
    changes = {FIELD: {}, **OPERATOR, "cloud.0.node_groups": [], "cloud.0.ordered_capacity": []}
    assert "fault-repair-of-nothing" in judge(changes).rules
    assert not judge({**changes, "cloud.0.scheduler": "slurm"}).rules & RULES
