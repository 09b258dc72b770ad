"""Upgrades of Slurm: no downgrade, supported releases only, versions from the repositories."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gpufleet.catalog import load_catalog
from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]
UPGRADES = {name: list(item.upgrades_from) for name, item in load_catalog().slurm_releases.items()}
MADISON = """\
 slurmctld | 23.11.4-1 | http://mirror stable/main amd64 Packages
 slurmctld | 23.02.8-2 | http://mirror stable/main amd64 Packages
 slurmctld | 23.02.8-1 | http://mirror stable/main amd64 Packages
 slurm-client | 23.02.8-2 | http://mirror stable/main amd64 Packages
"""
INSTALLED = """\
ii \tslurmctld\tslurm-wlm\t22.05.8-4+deb12u3
ii \tslurm-client\tslurm-wlm\t22.05.8-4+deb12u3
ii \tlibslurm38\tslurm-wlm\t22.05.8-4+deb12u3
rc \tslurmd\tslurm-wlm\t21.08.5-1
ii \tnvslurm-plugin-pyxis\tpyxis\t0.24.0-1
ii \tmunge\tmunge\t0.5.15-2
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    loaded = load("slurm_release")
    monkeypatch.setattr(loaded, "stale", lambda: False)
    monkeypatch.setattr(loaded, "PLUGINS", tmp_path / "plugstack.conf.d")
    return loaded


@pytest.fixture
def host(tmp_path: Path, programs: Programs) -> Programs:
    (tmp_path / "installed").write_text(INSTALLED)
    (tmp_path / "madison").write_text(MADISON)
    programs.add("dpkg-query", f"cat {tmp_path}/installed")
    programs.add("apt-cache", f"cat {tmp_path}/madison")
    programs.add("apt-get", "exit 0")
    return programs


def test_library_of_the_old_release_does_not_make_an_upgrade_incomplete(
    module: ModuleType, host: Programs, run: Run, tmp_path: Path
) -> None:
    new = INSTALLED.replace("22.05.8-4+deb12u3", "23.02.8-2")
    old_library = "ii \tlibslurm38\tslurm-wlm\t22.05.8-4+deb12u3\n"
    (tmp_path / "installed").write_text(new.replace("libslurm38", "libslurm39") + old_library)
    found = run(module, version="23.02.8", upgrades=UPGRADES)
    assert (found["installed"], found["needed"]) == ("23.02.8", False)


def test_each_package_gets_the_newest_build_and_the_old_library_is_removed(
    module: ModuleType, host: Programs, run: Run
) -> None:
    found = run(module, version="23.02.8", upgrades=UPGRADES)
    assert found["needed"] is True and found["changed"] is False and found["installed"] == "22.05.8"
    assert found["packages"] == ["slurmctld=23.02.8-2", "slurm-client=23.02.8-2"]
    assert host.called("apt-get") == []


def test_installed_release_needs_no_change_and_no_repository(
    module: ModuleType, host: Programs, run: Run
) -> None:
    found = run(module, version="22.05.8", upgrades=UPGRADES)
    assert found["needed"] is False
    assert "slurmctld=22.05.8-4+deb12u3" in found["packages"]
    assert host.called("apt-cache") == []


def test_partly_upgraded_host_is_judged_by_its_oldest_package(
    module: ModuleType, host: Programs, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "installed").write_text(
        INSTALLED.replace("slurmctld\tslurm-wlm\t22.05.8-4+deb12u3", "slurmctld\tslurm-wlm\t23.02.8-1")
    )
    found = run(module, version="23.02.8", upgrades=UPGRADES)
    assert found["needed"] is True
    assert found["packages"] == ["slurmctld=23.02.8-1", "slurm-client=23.02.8-2"]


def test_unfinished_packages_are_configured_before_apt_runs(
    module: ModuleType, host: Programs, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apt = sys.modules["ansible_collections.gpufleet.rack.plugins.module_utils.apt"]
    monkeypatch.setattr(apt, "POLICY", tmp_path / "policy-rc.d")
    host.add("dpkg", f"test -e {tmp_path}/policy-rc.d")  # installed packages must not start services
    new = INSTALLED.replace("22.05.8-4+deb12u3", "23.02.8-2")
    (tmp_path / "installed").write_text(new.replace("ii \tslurmctld", "iF \tslurmctld"))
    assert run(module, version="23.02.8", upgrades=UPGRADES)["needed"] is True
    assert host.called("dpkg ") == []
    assert run(module, version="23.02.8", upgrades=UPGRADES, download=True, check=True)["needed"] is True
    assert host.called("dpkg ") == []
    assert run(module, version="23.02.8", upgrades=UPGRADES, download=True)["needed"] is True
    assert host.called("dpkg ") == ["dpkg --configure -a --force-confdef --force-confold"]
    assert not (tmp_path / "policy-rc.d").exists()
    (tmp_path / "installed").write_text(new)
    assert run(module, version="23.02.8", upgrades=UPGRADES)["needed"] is False


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("22.05.7", "Going back is not supported"),
        ("21.08.8", "Going back is not supported"),
        (
            "24.05.1",
            "takes over from 23.11, 23.02 only: jobs and their accounting would be lost. Go in steps: ",
        ),
        ("25.11.2", "Go in steps: 23.11, then 25.05, then 25.11"),
        ("27.05.0", "does not know from which releases Slurm 27.05 takes over"),
        ("23.11.9", "slurmctld (there is 23.11.4-1, 23.02.8-2, 23.02.8-1)"),
        ("23.11.4", "slurm-client (there is 23.02.8-2)"),
        ("23.11", "has three numbers"),
    ],
)
def test_unsupported_upgrade_is_refused_with_a_supported_path(
    module: ModuleType, host: Programs, run: Run, version: str, message: str
) -> None:
    assert message in run(module, version=version, upgrades=UPGRADES)["msg"]


def test_host_without_slurm_is_refused(module: ModuleType, host: Programs, run: Run, tmp_path: Path) -> None:
    (tmp_path / "installed").write_text("ii \tmunge\tmunge\t0.5.15-2\n")
    assert "no package of Slurm" in run(module, version="23.02.8", upgrades=UPGRADES)["msg"]


def test_packages_are_only_downloaded_on_request(module: ModuleType, host: Programs, run: Run) -> None:
    run(module, version="23.02.8", upgrades=UPGRADES, download=True, check=True)
    assert host.called("apt-get") == []
    run(module, version="23.02.8", upgrades=UPGRADES, download=True)
    (called,) = host.called("apt-get")
    assert "--download-only slurmctld=23.02.8-2 slurm-client=23.02.8-2" in called


def test_plugins_are_named_if_the_release_changes(
    module: ModuleType, host: Programs, run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "plugstack.conf.d"
    folder.mkdir()
    (folder / "pyxis.conf").write_text("# a comment\nrequired /usr/lib/spank_pyxis.so\n")
    assert run(module, version="23.02.8", upgrades=UPGRADES)["plugins"] == ["/usr/lib/spank_pyxis.so"]
    assert run(module, version="22.05.8", upgrades=UPGRADES)["plugins"] == []


def test_catalog_lists_the_releases_and_their_supported_upgrades() -> None:
    catalog = load_catalog()
    assert {lock.slurm.rpartition(".")[0] for lock in catalog.locks.values()} <= catalog.slurm_releases.keys()
    for name, item in catalog.slurm_releases.items():
        assert all(old < name for old in item.upgrades_from)
        # SchedMD's upgrade guide: the two releases before, and from 24.11 on the three before.
        assert len(item.upgrades_from) == (3 if name >= "24.11" else 2)
