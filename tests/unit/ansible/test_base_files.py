"""Files of the role base: the governor script, and the repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path

import jinja2
import pytest
import yaml

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
    variables = yaml.safe_load((ROLE / "vars" / "main.yml").read_text())
    found = next(
        item for item in variables["base__systems"]["ubuntu_24_04"]["repositories"] if item["name"] == "doca"
    )
    values = {"base_doca_repository": "", "base_doca_key": "", "base__doca_url": DOCA} | given
    template = jinja2.Environment(undefined=jinja2.StrictUndefined)
    assert template.from_string(found["url"]).render(values) == url
    assert template.from_string(found["key_url"]).render(values) == key


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
                assert item["url"].startswith("{{ base_doca_repository or base__doca_url ~ '/")
                assert "~ '/doca_keyring.gpg'" in item["key_url"]
                continue
            assert item["url"].startswith("https://")
            assert item["key_url"].startswith("https://")
    assert variables["base__doca_url"].startswith("https://")
