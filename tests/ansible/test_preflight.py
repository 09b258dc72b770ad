"""The role on this machine, through ansible-runner: real tasks and measurements."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import yaml

from gpufleet.racks.preflight import Expectations, evaluate
from gpufleet.racks.preflight.run import measure
from gpufleet.racks.runner import PlaybookRun

ANSIBLE = Path(__file__).resolve().parents[2] / "ansible"
GIB = 1024**3


@pytest.fixture(scope="module")
def inventory(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("inventory") / "inventory.yaml"
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    path.write_text(yaml.safe_dump({"all": {"hosts": {"here": here, "there": here}}}))
    return path


def run(inventory: Path, tmp: Path, **changes):
    environment = {"ANSIBLE_CACHE_PLUGIN_CONNECTION": str(tmp), "ANSIBLE_HOME": str(tmp)}
    return PlaybookRun(
        project=ANSIBLE,
        playbook="playbooks/preflight.yml",
        inventory=inventory,
        environment=environment,
        **changes,
    )


@pytest.fixture(scope="module")
def first(inventory, tmp_path_factory):
    return measure(run(inventory, tmp_path_factory.mktemp("cache")))


def test_role_measures_every_host_and_changes_nothing(first):
    measured, result = first
    assert set(measured.measurements) == {"here", "there"}
    assert result.changed == 0
    assert result.failed_hosts == ()
    assert result.hosts["here"].ok == measured.tasks["here", "ok"] > 0


def test_measurements_match_this_machine(first):
    found = first[0].measurements["here"]
    assert found["errors"].keys() <= {"gpus", "nics"}, "only a machine without a PCI bus may lack these"
    assert found["kernel"] == {"release": os.uname().release, "architecture": os.uname().machine}
    assert found["cpu"]["logical"] == os.sysconf("SC_NPROCESSORS_ONLN")
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024
    assert found["memory"]["total_kib"] == pytest.approx(physical, rel=0.01)
    space = os.statvfs("/")
    assert found["disks"]["/"]["total_bytes"] == space.f_blocks * space.f_frsize


def test_second_run_changes_nothing_and_measures_the_same(first, inventory, tmp_path):
    second, result = measure(run(inventory, tmp_path))
    assert result.changed == 0
    for part in ("os", "kernel", "cpu", "gpus", "nics", "secure_boot"):
        assert second.measurements["here"].get(part) == first[0].measurements["here"].get(part)


def test_check_mode_measures_and_shows_no_diff(inventory, tmp_path):
    events = []
    checked, result = measure(run(inventory, tmp_path, check=True, diff=True, limit="here"), events.append)
    assert set(checked.measurements) == {"here"}
    assert result.changed == 0
    assert not [event for event in events if event.result.get("diff")]


def test_verdict_reports_that_this_machine_is_not_a_dgx(first):
    dgx = Expectations(
        peers="here", gpu_node=True, gpu="H100", gpus=8, gpu_device_ids=frozenset({"2330"}), nics=8
    )
    measurements = first[0].measurements
    verdicts = {v.check: v for v in evaluate(measurements, {"here": dgx}) if v.host == "here"}
    if len(measurements["here"].get("gpus", ())) != 8:
        assert verdicts["gpus"].status == "fail"
    assert verdicts["cpu"].measured == str(os.sysconf("SC_NPROCESSORS_ONLN"))
    assert measurements["here"]["clock"]["offset_s"] == 0.0
    synchronized = measurements["here"]["clock"]["synchronized"]
    assert verdicts["clock"].status == ("pass" if synchronized else "fail")
