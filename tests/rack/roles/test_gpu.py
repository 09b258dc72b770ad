"""The roles of playbooks/gpu.yml on bare GPU nodes, verified with the installed programs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from tests.rack.lab import Lab
from tests.rack.roles.proof import RoleRuns, play, prove

ROLES = ("nvidia_driver", "fabric_manager", "nccl", "gpudirect", "container_toolkit", "dcgm")
NODES = ("dgx01", "dgx02")
DRIVER = "580.159.03"


@pytest.fixture(scope="module")
def proven(gpu_rack: Lab) -> Iterator[tuple[Lab, RoleRuns]]:
    """Both nodes after all roles: check run, run, and a second run without changes."""
    gpu_rack.reset(name="bare")
    yield gpu_rack, prove(gpu_rack, ROLES, ",".join(NODES), again=False)


@pytest.fixture
def rack(proven: tuple[Lab, RoleRuns]) -> Lab:
    return proven[0]


def test_every_role_installs_configures_and_starts_its_software(proven: tuple[Lab, RoleRuns]) -> None:
    rack, proof = proven
    assert {task.split(" : ")[0] for _, task in proof.first.changed} == set(ROLES)
    assert {host for host, _ in proof.first.changed} == set(NODES)
    for node in NODES:
        assert rack.sh(node, "systemctl is-system-running") == "running\n"


def test_driver_is_loaded_with_persistence_on_all_gpus(rack: Lab) -> None:
    query = "nvidia-smi --query-gpu=driver_version,persistence_mode,fabric.state --format=csv,noheader"
    for node in NODES:
        assert rack.sh(node, query).splitlines() == [f"{DRIVER}, Enabled, Completed"] * 8
        assert "Open Kernel Module" in rack.sh(node, "cat /proc/driver/nvidia/version")
        assert rack.sh(node, "modprobe -c 2>/dev/null; cat /etc/modprobe.d/gpufleet-nouveau.conf").count(
            "blacklist nouveau"
        )


def test_upgrade_of_all_packages_does_not_change_the_driver(rack: Lab) -> None:
    versions = "dpkg-query -W -f '${Package} ${Version}\\n' | grep -E 'nvidia|cuda|nccl|datacenter|gdr'"
    before = rack.sh("dgx01", versions)
    # There is a newer version of each.
    assert "595.91.07-1" in rack.sh("dgx01", "apt-cache madison libcuda1")
    assert "1.20.0-1" in rack.sh("dgx01", "apt-cache madison nvidia-container-toolkit")
    apt = "DEBIAN_FRONTEND=noninteractive apt-get -qq -y"
    rack.sh("dgx01", f"apt-get -qq update; {apt} upgrade; {apt} dist-upgrade")
    assert rack.sh("dgx01", versions) == before
    held = rack.sh("dgx01", "apt-mark showhold").split()
    assert {"libcuda1", "nvidia-driver-cuda", "nvidia-smi", "nvidia-fabricmanager", "libnccl2"} <= set(held)
    # Without the hold only the pin keeps it.
    reported = rack.sh(
        "dgx01", f"apt-mark -q unhold libcuda1 nvidia-driver-cuda >/dev/null; {apt} -s dist-upgrade"
    )
    assert "Inst libcuda1" not in reported
    assert "Inst nvidia" not in reported
    rack.sh("dgx01", "apt-mark -q hold libcuda1 nvidia-driver-cuda >/dev/null")


def test_nccl_has_only_the_settings_of_the_fabric(rack: Lab) -> None:
    lines = rack.sh("dgx01", "grep -v '^#' /etc/nccl.conf").splitlines()
    rails = "mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11"
    assert lines == [f"NCCL_IB_HCA=={rails}", "NCCL_CROSS_NIC=0"]
    assert rack.sh("dgx01", "dpkg-query -W -f '${Version}' libnccl2") == "2.31.2-1+cuda13.0"


def test_gpudirect_modules_are_loaded_now_and_after_a_boot(rack: Lab) -> None:
    assert rack.sh("dgx01", "gdrcopy_sanity && /usr/local/cuda/gds/tools/gdscheck -p | head -1") != ""
    rack.rack.stop("dgx01")
    rack.rack.start("dgx01")
    rack.sh("dgx01", "gdrcopy_sanity && test -d /sys/module/nvidia_fs -a ! -d /sys/module/nvidia_peermem")
    # All services of the roles started at boot, and nothing is left to do.
    again = play(rack, ROLES, "dgx01")
    assert not again.result.failures, again.messages()
    assert again.changed == frozenset()


def test_containers_find_every_gpu_in_the_cdi_specification(rack: Lab) -> None:
    listed = rack.sh("dgx02", "nvidia-ctk cdi list").split()
    assert listed == [f"nvidia.com/gpu={index}" for index in range(8)]
    assert rack.sh("dgx02", "cat /var/run/cdi/nvidia.yaml").count("path: /dev/nvidia") == 8


def test_dcgm_watches_the_health_of_the_gpus_also_after_its_restart(rack: Lab) -> None:
    watches = "dcgmi health -f"
    systems = {"PCIe", "NVLINK", "Memory", "InfoROM", "Thermal", "Power", "Driver"}
    systems |= {"NvSwitch NF", "NvSwitch F"}
    assert watched(rack.sh("dgx02", watches)) == systems
    rack.sh("dgx02", "systemctl restart nvidia-dcgm")
    deadline = time.monotonic() + 120
    while watched(rack.sh("dgx02", watches, code=None)) != systems and time.monotonic() < deadline:
        time.sleep(0.5)
    assert watched(rack.sh("dgx02", watches)) == systems
    rack.hardware("dgx02").ecc(3)
    assert "double-bit ECC error(s)" in rack.sh("dgx02", "dcgmi health -c")
    rack.hardware("dgx02").restore(rack.healthy["dgx02"])


def watched(reported: str) -> set[str]:
    """The systems that are on in what `dcgmi health -f` prints."""
    return {found.strip() for found in re.findall(r"\| ([\w ]+?) *\| On", reported)}


def test_only_the_cluster_can_read_the_dcgm_exporter(rack: Lab) -> None:
    address = rack.rack.site.host("dgx01").ip
    # Verified with Debian's promtool.
    rack.sh(
        "ctl01",
        "cd /tmp; apt-get -qq update; apt-get -qq install -y curl >/dev/null; "
        "apt-get -qq download prometheus; "
        "dpkg --fsys-tarfile prometheus_*.deb | tar -xO ./usr/bin/promtool >promtool; chmod 755 promtool",
    )
    metrics = rack.sh("ctl01", f"curl -sSf http://{address}:9400/metrics")
    judge = "/tmp/promtool check metrics 2>&1 || echo code $?"
    reported = rack.sh("ctl01", f"curl -s http://{address}:9400/metrics | ({judge})")
    # 1 is what cannot be parsed; 3 names that do not follow Prometheus' custom, which are DCGM's own.
    assert reported.splitlines()[-1] == "code 3", reported[-500:]
    assert 'DCGM_FI_DEV_XID_ERRORS{gpu="7"' in metrics
    assert "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE" in metrics
    listening = rack.sh("dgx01", "ss -Hlnt 'sport = :9400'").splitlines()
    assert len(listening) == 1
    assert f"{address}:9400" in listening[0]


def test_measuring_changes_nothing_and_finds_everything(rack: Lab) -> None:
    measured = play(rack, ROLES, "dgx01", tasks_from="verify")
    assert not measured.result.failures, measured.messages()
    assert measured.changed == frozenset()


def test_fabric_manager_is_started_if_stopped_and_never_restarted(rack: Lab) -> None:
    since = "systemctl show -p ActiveEnterTimestampMonotonic --value nvidia-fabricmanager"
    before = int(rack.sh("dgx02", since))
    # As on a manually configured host: there is no record of its start.
    rack.sh("dgx02", "rm -f /var/lib/gpufleet/units/nvidia-fabricmanager.service.json")
    assert play(rack, ["fabric_manager"], "dgx02").changed == frozenset()
    assert int(rack.sh("dgx02", since)) == before
    # As after a run that was killed after it had replaced the driver.
    rack.sh("dgx02", "systemctl stop nvidia-fabricmanager")
    again = play(rack, ["fabric_manager"], "dgx02")
    assert {task for _, task in again.changed} == {"fabric_manager : Enable and start Fabric Manager"}
    assert int(rack.sh("dgx02", since)) > before


def test_fourth_generation_nvswitches_get_their_subnet_manager(rack: Lab) -> None:
    variables = {"fabric_manager_nvlink_subnet_manager": True}
    proof = prove(rack, ["fabric_manager"], "dgx02", variables=variables)
    assert {task for _, task in proof.first.changed} == {
        "fabric_manager : Install packages",
        "fabric_manager : Load ib_umad for NVLSM",
    }
    rack.sh("dgx02", "dpkg-query -W nvlsm libnvsdm infiniband-diags >/dev/null; test -d /sys/module/ib_umad")
    assert (
        rack.sh("dgx02", "cat /etc/modules-load.d/gpufleet-fabric-manager.conf").splitlines()[-1] == "ib_umad"
    )
