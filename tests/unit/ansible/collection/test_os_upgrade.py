"""Upgrades of packages and kernel: what is held stays, and no host starts without its GPU driver."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpufleet.rack.plugins.module_utils import apt

from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]
module = load("os_upgrade")
OLD, NEW = "6.8.0-60-generic", "6.8.0-71-generic"
BUILT = f"nvidia/580.159.03, {OLD}, x86_64: installed\n"
UPGRADES = """\
Inst openssl [3.0.13-1] (3.0.15-1 Ubuntu:24.04 [amd64])
Inst libnew (1.0-1 Ubuntu:24.04 [amd64])
"""
KERNEL = f"Inst linux-image-{NEW} (6.8.0-71.1 Ubuntu:24.04 [amd64])\n"


@pytest.fixture
def host(programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with a held kernel and driver; upgrades are in the files `upgrade` and `install`."""
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(apt, "STAMP", tmp_path / "apt.json")
    monkeypatch.setattr(module, "os", SimpleNamespace(uname=lambda: SimpleNamespace(release=OLD)))
    (tmp_path / "boot").mkdir()
    (tmp_path / f"boot/vmlinuz-{OLD}").touch()
    for name, text in {"upgrade": UPGRADES, "install": KERNEL, "dkms": BUILT, "after": ""}.items():
        (tmp_path / name).write_text(text)
    programs.add(
        "apt-get",
        f"""case "$*" in
          *--simulate*upgrade*--with-new*) cat {tmp_path}/upgrade;;
          *--simulate*install*) cat {tmp_path}/install;;
          upgrade*) : >{tmp_path}/upgrade; : >{tmp_path}/install; touch {tmp_path}/boot/vmlinuz-{NEW}
            [ ! -e {tmp_path}/broken ] || {{ echo 'E: broken' >&2; exit 100; }};;
        esac""",
    )
    programs.add("apt-mark", "[ $1 != showhold ] || printf 'linux-image-generic\\nnvidia-open\\n'")
    programs.add("dpkg", f'[ "$2" = {OLD} ]')
    programs.add(
        "dkms", f'case "$1" in status) cat {tmp_path}/dkms;; *) cat {tmp_path}/after >>{tmp_path}/dkms;; esac'
    )
    return tmp_path


def upgrade(run: Run, **more: Any) -> dict[str, Any]:
    return run(module, kernel=["linux-image-*"], **more)


def test_packages_and_kernel_are_upgraded_and_held_ones_stay(
    host: Path, run: Run, programs: Programs
) -> None:
    (host / "after").write_text(f"nvidia/580.159.03, {NEW}, x86_64: installed\n")
    checked = upgrade(run, check=True)
    assert [call for call in programs.called("apt-mark") if "showhold" not in call] == []
    done = upgrade(run)
    assert (
        checked["upgraded"]
        == done["upgraded"]
        == [
            "libnew absent -> 1.0-1",
            f"linux-image-{NEW} absent -> 6.8.0-71.1",
            "openssl 3.0.13-1 -> 3.0.15-1",
        ]
    )
    assert done["reboot_reasons"] == [f"kernel {OLD} -> {NEW}"] and checked["reboot_reasons"]
    marks = [call for call in programs.called("apt-mark") if "showhold" not in call]
    assert marks == ["apt-mark unhold linux-image-generic", "apt-mark hold linux-image-generic"]
    (headers,) = [call for call in programs.called("apt-get install") if "--simulate" not in call]
    assert headers.endswith(f" linux-headers-{NEW}")
    again = upgrade(run)
    # The reboot is still to come, also for the next run.
    assert (again["changed"], again["reboot_reasons"]) == (False, [f"kernel {OLD} -> {NEW}"])


def test_missing_module_for_the_new_kernel_stops_the_reboot(host: Path, run: Run) -> None:
    reported = upgrade(run)["msg"]
    assert f"DKMS did not build nvidia for the kernel {NEW}" in reported
    assert f"The host still runs {OLD} and was not rebooted" in reported


def test_kernel_is_held_again_after_a_failure(host: Path, run: Run, programs: Programs) -> None:
    (host / "broken").touch()
    assert "broken" in upgrade(run)["msg"]
    assert programs.called("apt-mark")[-1] == "apt-mark hold linux-image-generic"


def test_host_without_upgrades_is_unchanged(host: Path, run: Run, programs: Programs) -> None:
    for name in ("upgrade", "install"):
        (host / name).write_text("")
    answer = upgrade(run)
    assert (answer["changed"], answer["reboot_reasons"]) == (False, [])
    assert programs.called("apt-get upgrade") == []
    (host / "run").mkdir()
    (host / "run/reboot-required").touch()
    assert upgrade(run)["reboot_reasons"] == ["updates wait for it"]


def test_host_without_dkms_needs_no_headers(host: Path, run: Run, programs: Programs) -> None:
    (host / "dkms").write_text("")
    assert upgrade(run)["reboot_reasons"] == [f"kernel {OLD} -> {NEW}"]
    assert [call for call in programs.called("apt-get install") if "--simulate" not in call] == []
    assert os.uname().release not in (OLD, NEW)
