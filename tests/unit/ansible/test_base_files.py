"""Files of the role base: the governor script, and the repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.unit.ansible.gpu_roles import SYSTEMS, Role

DOCA = "https://linux.mellanox.com/public/repo/doca/3.4.0"
ROLE = Path(__file__).resolve().parents[3] / "ansible" / "roles" / "base"


def governor(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(ROLE / "files" / "set-cpu-governor"), name, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_governor_is_set_for_all_processors_that_support_it(tmp_path: Path) -> None:
    for index in range(3):
        (tmp_path / f"cpu{index}" / "cpufreq").mkdir(parents=True)
        (tmp_path / f"cpu{index}" / "cpufreq" / "scaling_governor").write_text("powersave\n")
    (tmp_path / "cpu3").mkdir()
    assert governor(tmp_path, "performance").returncode == 0
    found = {path.read_text() for path in tmp_path.rglob("scaling_governor")}
    assert found == {"performance\n"} and not (tmp_path / "cpu3" / "cpufreq").exists()


def test_processors_without_frequency_scaling_pass_and_a_refusal_fails(tmp_path: Path) -> None:
    assert governor(tmp_path, "performance").returncode == 0
    (tmp_path / "cpu0" / "cpufreq" / "scaling_governor").mkdir(parents=True)
    assert governor(tmp_path, "performance").returncode == 1


@pytest.mark.parametrize(
    ("given", "url", "key"),
    [
        ({}, f"{DOCA}/ubuntu24.04/x86_64", f"{DOCA}/ubuntu24.04/x86_64/doca_keyring.gpg"),
        (
            {"base_doca_repository": "https://m.example/d"},
            "https://m.example/d",
            "https://m.example/d/doca_keyring.gpg",
        ),
        ({"base_doca_key": "/etc/doca.gpg"}, f"{DOCA}/ubuntu24.04/x86_64", "/etc/doca.gpg"),
    ],
)
def test_doca_repository_and_key_are_those_of_the_site_or_the_vendor(
    given: dict[str, str], url: str, key: str
) -> None:
    role = Role("base", "ubuntu_24_04", base_doca_version="3.4.0", **given)
    found = role.value("base__repositories_of")["doca"]
    assert (found["url"], found["key_url"]) == (url, key)


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_has_its_folder_in_the_doca_repository(system: str) -> None:
    url = Role("base", system, base_doca_version="3.4.0").value("base__doca_url")
    folder = {"dgx_os_6": "ubuntu22.04", "dgx_os_7": "ubuntu24.04", "debian_12": "debian12.5"}
    assert url == f"{DOCA}/{folder.get(system, system.replace('_', '', 1).replace('_', '.'))}/x86_64"


def test_every_repository_has_a_fingerprint_or_requires_one() -> None:
    variables = yaml.safe_load((ROLE / "vars" / "main.yml").read_text())
    for system, found in variables["base__systems"].items():
        names = {item["name"] for item in found["repositories"]}
        ours = {"cuda", "container-toolkit", "doca", "kubernetes", "docker", "helm", "grafana"}
        assert names == ours, system
        for item in found["repositories"]:
            digits = item["fingerprint"].replace(" ", "")
            whole = len(digits) == 40 and set(digits) <= set("0123456789ABCDEF")
            asked = {"doca": "{{base_doca_key_fingerprint}}", "grafana": "{{base_grafana_key_fingerprint}}"}
            assert whole or digits == asked[item["name"]], item["name"]
            if item["name"] == "doca":
                continue
            assert item["url"].startswith("https://")
            assert item["key_url"].startswith("https://")


def test_tools_of_adapters_come_from_doca_where_cuda_has_them_too() -> None:
    found = Role("base").value("base__repositories_of")
    assert found["doca"]["priority"] > found["cuda"]["priority"] > 500


def test_members_of_every_quorum_reboot_one_at_a_time_also_where_groups_are_missing() -> None:
    controllers = {"rack_slurm_controllers": ["ctl01", "ctl02"], "rack_slurm_database": ["ctl01"]}
    role = Role("base", groups=controllers | {"rack_gpu_nodes": ["dgx01"]})
    assert role.value("base__quorum") == ["ctl01", "ctl02"]
    assert Role("base", groups={}).value("base__quorum") == []
