"""Missing requirements of a rack are reported in one line, with the packages to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.errors import ExitCode, InputError
from gpufleet.lab.rack import needs


def test_all_missing_requirements_are_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(needs.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(
        needs.shutil, "which", lambda tool: None if tool == "systemd-nspawn" else f"/bin/{tool}"
    )
    monkeypatch.setattr(needs, "KEYRING", tmp_path / "none")

    lacks = needs.missing()

    assert "\n" not in lacks
    assert lacks.startswith("root, the packages debian-archive-keyring systemd-container")
    with pytest.raises(InputError, match="a rack in a box needs root") as raised:
        needs.require()
    assert raised.value.exit_code == ExitCode.BAD_INPUT
    assert raised.value.remedy


def test_message_on_other_operating_systems_only_requires_linux(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(needs.sys, "platform", "darwin")
    assert needs.missing() == "Linux (this is darwin)"


def test_every_reported_package_is_installed_by_setup() -> None:
    setup = (Path(__file__).resolve().parents[4] / "scripts" / "setup").read_text()
    always_there = {"apt", "dpkg", "mount", "util-linux"}
    for package in {*needs.TOOLS.values(), "debian-archive-keyring"} - always_there:
        assert package in setup.split()
