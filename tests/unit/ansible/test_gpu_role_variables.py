"""Names of packages and files of the GPU roles, on every system and on both sides of the renames."""

from __future__ import annotations

import fnmatch
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.programs import find_program
from tests.unit.ansible.gpu_roles import ANSIBLE, SYSTEMS, Role

ROLES = ("nvidia_driver", "fabric_manager", "nccl", "gpudirect", "container_toolkit", "dcgm")
UBUNTU = tuple(system for system in SYSTEMS if system != "debian_12")


def driver(system: str, version: str, *, open_modules: bool = True) -> Role:
    return Role(
        "nvidia_driver",
        system,
        nvidia_driver_version=version,
        nvidia_driver_branch=int(version.split(".")[0]),
        nvidia_driver_open_modules=open_modules,
    )


def fabric_manager(version: str, **more: Any) -> Role:
    return Role(
        "fabric_manager", fabric_manager_version=version, fabric_manager_driver_version=version, **more
    )


@pytest.mark.parametrize("role", ROLES)
def test_every_system_has_the_same_entries(role: str) -> None:
    variables = Role(
        role,
        nvidia_driver_branch=580,
        fabric_manager_version="580.159.03",
        gpudirect_cuda_version="13.0.2",
        dcgm_cuda_major=13,
    )
    systems = variables.value(f"{role}__systems")
    assert set(systems) == set(SYSTEMS)
    assert len({frozenset(entries) for entries in systems.values()}) == 1
    assert all(all(entries.values()) for entries in systems.values())


@pytest.mark.parametrize("system", UBUNTU)
def test_ubuntu_packages_have_the_branch_up_to_580(system: str) -> None:
    wanted = driver(system, "580.159.03").value("nvidia_driver__wanted")
    assert "nvidia-dkms-580-open=580.159.03-*" in wanted
    assert "libnvidia-compute-580=580.159.03-*" in wanted
    assert "nvidia-utils-580=580.159.03-*" in wanted
    assert not any(name.startswith(("libnvidia-compute=", "nvidia-dkms-open=")) for name in wanted)


@pytest.mark.parametrize("system", UBUNTU)
def test_ubuntu_packages_have_no_branch_from_590_on(system: str) -> None:
    wanted = driver(system, "595.91.07").value("nvidia_driver__wanted")
    assert "nvidia-dkms-open=595.91.07-*" in wanted
    assert "libnvidia-compute=595.91.07-*" in wanted
    assert "nvidia-persistenced=595.91.07-*" in wanted
    assert not any("-595" in name.partition("=")[0] for name in wanted)


def test_debian_packages_have_no_branch_and_nvidia_smi_is_not_requested() -> None:
    for version in ("570.211.01", "580.159.03", "595.91.07"):
        names = driver("debian_12", version).value("nvidia_driver__names")
        assert names == [
            "nvidia-driver-cuda",
            "nvidia-persistenced",
            "nvidia-modprobe",
            "libcuda1",
            "libnvidia-ml1",
            "nvidia-kernel-open-dkms",
        ]


@pytest.mark.parametrize("system", SYSTEMS)
def test_open_and_closed_modules_exclude_each_other(system: str) -> None:
    opened, closed = (driver(system, "580.159.03", open_modules=value) for value in (True, False))
    modules = opened.value("nvidia_driver__modules"), closed.value("nvidia_driver__modules")
    assert modules[0] != modules[1]
    for role, other in ((opened, modules[1]), (closed, modules[0])):
        assert other in role.value("nvidia_driver__unwanted")
        assert other not in role.value("nvidia_driver__names")


@pytest.mark.parametrize("branch", ["570", "580", "595"])
def test_only_packages_of_other_branches_are_removed(branch: str) -> None:
    patterns = driver("ubuntu_24_04", f"{branch}.1.2").value("nvidia_driver__unwanted")

    def goes(name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

    for other in {"535", "570", "580", "590", "595", "610"} - {branch}:
        for name in (
            f"nvidia-driver-{other}",
            f"nvidia-driver-{other}-server-open",
            f"nvidia-driver-pinning-{other}",
            f"nvidia-driver-pinning-{other}.48.01",
            f"nvidia-firmware-{other}-{other}.211.01",
            f"nvidia-fabricmanager-{other}",
            f"libnvidia-nscq-{other}",
            f"libnvidia-compute-{other}",
            f"cuda-drivers-{other}",
            f"cuda-drivers-fabricmanager-{other}",
            f"linux-modules-nvidia-{other}-server-open-6.8.0-60-generic",
        ):
            assert goes(name), name
            assert not goes(name.replace(other, branch)), name
    for name in (
        "nvidia-container-toolkit",
        "libnvidia-container1",
        "nvidia-gds-13-0",
        "nvidia-fs-dkms",
        "nvidia-cuda-toolkit",
        "linux-image-6.8.0-1015-nvidia",
        "linux-nvidia-6.8-tools-6.8.0-600",
        "cuda-toolkit-13-0",
        "libnvidia-egl-wayland1",
    ):
        assert not goes(name), name


def test_pin_covers_the_driver_and_not_the_container_toolkit() -> None:
    lines = driver("debian_12", "580.159.03").render("preferences.j2").splitlines()
    fields = dict(line.split(": ", 1) for line in lines if not line.startswith("#"))
    assert fields["Pin"] == "version 580.159.03-*"
    assert int(fields["Pin-Priority"]) > 1000
    patterns = fields["Package"].split()
    for name in ("libcuda1", "libnvidia-ml1", "nvidia-fabricmanager", "nvidia-open", "cuda-drivers-580"):
        assert any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    assert not any(fnmatch.fnmatchcase("libnccl2", pattern) for pattern in patterns)
    # It goes by the version, which the toolkit's packages never have.
    assert not fnmatch.fnmatchcase("1.19.1-1", fields["Pin"].removeprefix("version "))


def test_apt_accepts_the_pin(tmp_path: Path) -> None:
    for name in ("lists/partial", "cache", "state", "preferences.d", "repository"):
        (tmp_path / name).mkdir(parents=True)
    stanza = "Package: {}\nVersion: {}\nArchitecture: amd64\nFilename: ./x.deb\nSize: 1\n\n"
    packages = [("libcuda1", "580.126.20-1"), ("libcuda1", "580.159.03-1"), ("libcuda1", "595.91.07-1")]
    packages += [("nvidia-container-toolkit", "1.19.1-1"), ("nvidia-container-toolkit", "1.20.0-1")]
    index = tmp_path / "repository" / "Packages"
    index.write_text("".join(stanza.format(*package) for package in packages))
    (tmp_path / "sources.list").write_text(f"deb [trusted=yes] file:{tmp_path}/repository ./\n")
    (tmp_path / "preferences.d" / "gpufleet-nvidia-driver").write_text(
        driver("debian_12", "580.159.03").render("preferences.j2")
    )
    (tmp_path / "state" / "status").write_text("")
    options = [
        f"Dir::Etc::sourcelist={tmp_path}/sources.list",
        "Dir::Etc::sourceparts=/dev/null",
        "Dir::Etc::preferences=/dev/null",
        f"Dir::Etc::preferencesparts={tmp_path}/preferences.d",
        f"Dir::State={tmp_path}",
        f"Dir::State::status={tmp_path}/state/status",
        f"Dir::Cache={tmp_path}/cache",
        "APT::Architecture=amd64",
        "APT::Sandbox::User=root",
    ]
    words = [word for option in options for word in ("-o", option)]
    subprocess.run(["apt-get", *words, "update"], check=True, capture_output=True)
    reported = subprocess.run(
        [find_program("apt-cache"), *words, "policy", "libcuda1", "nvidia-container-toolkit"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    candidates = [line.split()[1] for line in reported.splitlines() if "Candidate:" in line]
    assert candidates == ["580.159.03-1", "1.20.0-1"]


def test_persistence_daemon_is_enabled_on_every_distribution(tmp_path: Path) -> None:
    for system, user in (("debian_12", "nvpd"), ("ubuntu_24_04", "nvidia-persistenced")):
        text = driver(system, "580.159.03").render("persistenced.conf.j2")
        assert f"--user {user} --persistence-mode" in text
        assert "no-persistence-mode" not in text
        assert "\nExecStart=\nExecStart=/" in text


def test_fabric_manager_package_is_renamed_at_580() -> None:
    before, after = fabric_manager("570.211.01"), fabric_manager("580.159.03")
    assert before.value("fabric_manager__locked") == ["nvidia-fabricmanager-570", "libnvidia-nscq-570"]
    assert after.value("fabric_manager__locked") == ["nvidia-fabricmanager", "libnvidia-nscq"]


def test_nvsdm_monitors_fourth_generation_nvswitches() -> None:
    role = fabric_manager("580.159.03", fabric_manager_nvlink_subnet_manager=True)
    assert role.value("fabric_manager__locked") == ["nvidia-fabricmanager", "libnvsdm"]
    assert role.value("fabric_manager__system.subnet_manager")[0] == "nvlsm"


@pytest.mark.parametrize(
    ("nvswitches", "nvlsm", "on_the_bus", "needed"),
    [
        (4, False, "", True),
        (0, False, "", False),
        (-1, False, "", False),
        (-1, False, "0000:05:00.0\n", True),
        (-1, True, "", True),
        (0, False, "0000:05:00.0\n", False),
    ],
)
def test_fabric_manager_is_for_systems_with_nvswitches(
    nvswitches: int, nvlsm: bool, on_the_bus: str, needed: bool
) -> None:
    role = fabric_manager(
        "580.159.03",
        fabric_manager_nvswitches=nvswitches,
        fabric_manager_nvlink_subnet_manager=nvlsm,
        fabric_manager__found={"measurements": {"switches": {"stdout": on_the_bus}}},
    )
    assert role.value("fabric_manager__needed | bool") is needed


def nccl(**variables: Any) -> dict[str, str]:
    """The settings of nccl.conf as NCCL reads them: up to the first equals sign, and all that follows."""
    text = Role("nccl", **variables).render("nccl.conf.j2")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def test_nccl_conf_is_empty_if_the_fabric_needs_no_setting() -> None:
    assert nccl() == {}


def test_nccl_conf_has_only_the_settings_of_the_fabric() -> None:
    devices = [f"mlx5_{index}" for index in range(8)]
    infiniband = nccl(nccl_devices=devices, nccl_rail_optimized=True, nccl_traffic_class=96)
    assert infiniband == {"NCCL_IB_HCA": "=" + ",".join(devices), "NCCL_CROSS_NIC": "0"}

    roce = nccl(nccl_fabric_kind="roce", nccl_devices=devices[:1], nccl_traffic_class=104)
    assert roce == {"NCCL_IB_HCA": "=mlx5_0", "NCCL_IB_TC": "104"}


def test_comments_of_nccl_conf_have_no_equals_sign() -> None:
    text = Role("nccl", nccl_devices=["mlx5_0"], nccl_rail_optimized=True).render("nccl.conf.j2")
    assert not any("=" in line for line in text.splitlines() if line.startswith("#"))


def test_nccl_build_matches_the_cuda_major_of_the_channel() -> None:
    build = Role("nccl", nccl_version="2.31.2", nccl_cuda_version="13.0.2").value("nccl__build")
    assert fnmatch.fnmatchcase("2.31.2-1+cuda13.0", build)
    assert fnmatch.fnmatchcase("2.31.2-1+cuda13.2", build)
    assert not fnmatch.fnmatchcase("2.31.2-1+cuda12.9", build)
    assert not fnmatch.fnmatchcase("2.32.3-1+cuda13.0", build)


def test_peermem_is_loaded_only_for_closed_modules() -> None:
    common = {"gpudirect_gdrcopy": True}
    opened = Role("gpudirect", gpudirect_open_modules=True, **common).value("gpudirect__modules")
    closed = Role("gpudirect", gpudirect_open_modules=False, **common).value("gpudirect__modules")
    assert opened == ["gdrdrv", "nvidia_fs"]
    assert closed == ["nvidia_peermem", "gdrdrv", "nvidia_fs"]


def test_gdrcopy_is_installed_if_a_mirror_has_it() -> None:
    variables = {"gpudirect_gdrcopy_version": "2.5.2", "gpudirect_cuda_version": "13.0.2"}
    without = Role("gpudirect", **variables)
    assert without.value("gpudirect__wanted") == ["nvidia-gds-13-0"]
    mirrored = Role("gpudirect", gpudirect_gdrcopy=True, **variables)
    assert mirrored.value("gpudirect__wanted") == [
        "gdrdrv-dkms=2.5.2-*",
        "libgdrapi=2.5.2-*",
        "gdrcopy-tests=2.5.2-*",
        "nvidia-gds-13-0",
    ]


@pytest.mark.parametrize(("version", "build"), [("1.19.1-1", "1.19.1-1"), ("1.20.0", "1.20.0-*")])
def test_toolkit_version_may_have_a_revision(version: str, build: str) -> None:
    role = Role("container_toolkit", container_toolkit_version=version)
    assert role.value("container_toolkit__build") == build


def test_dcgm_packages_have_an_epoch_and_the_exporter_version_has_none() -> None:
    role = Role("dcgm", dcgm_version="4.6.0-1", dcgm_exporter_version="4.6.0-4.8.3", dcgm_cuda_major=13)
    assert role.value("dcgm__build") == "1:4.6.0-1"
    assert fnmatch.fnmatchcase("4.8.3-1", role.value("dcgm__exporter_build"))
    assert not fnmatch.fnmatchcase("4.8.2-1", role.value("dcgm__exporter_build"))
    assert "datacenter-gpu-manager-4-cuda13" in role.value("dcgm__system.packages")


def test_each_counter_is_a_field_with_type_and_help_and_appears_once() -> None:
    text = Role("dcgm", dcgm_exporter_counters=["DCGM_FI_DEV_ENC_UTIL, gauge, x"]).render("counters.csv.j2")
    rows = [line.split(", ", 2) for line in text.splitlines() if line and not line.startswith("#")]
    assert all(len(row) == 3 and row[0].startswith(("DCGM_FI_", "DCGM_EXP_")) for row in rows)
    assert {row[1] for row in rows} <= {"gauge", "counter", "label"}
    names = [row[0] for row in rows]
    assert len(names) == len(set(names))
    assert {"DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ENC_UTIL"} <= set(names)


def test_systemd_accepts_the_dcgm_unit(tmp_path: Path) -> None:
    unit = Role("dcgm").render("health.service.j2").replace("/usr/bin/dcgmi", "/bin/true")
    (tmp_path / "gpufleet-dcgm-health.service").write_text(unit)
    engine = "[Service]\nExecStart=/bin/sleep 1\n"
    (tmp_path / "nvidia-dcgm.service").write_text(engine)
    done = subprocess.run(
        [
            find_program("systemd-analyze"),
            "verify",
            "--man=no",
            str(tmp_path / "gpufleet-dcgm-health.service"),
        ],
        capture_output=True,
        text=True,
        env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:/usr/lib/systemd/system", "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) not in done.stderr


def test_all_roles_measure_what_they_configure() -> None:
    for role in ROLES:
        assert (ANSIBLE / "roles" / role / "tasks" / "verify.yml").exists()
