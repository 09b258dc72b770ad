"""Where a rack's control groups go: below the caller's own, in the hierarchies that are mounted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpufleet.lab.rack import cgroups


def mounted(root: Path, own: str, monkeypatch: pytest.MonkeyPatch, *folders: str) -> Path:
    for folder in folders:
        path = root / folder
        path.mkdir(parents=True, exist_ok=True)
        (path / "cgroup.procs").touch()
    (root / "own").write_text(own)
    monkeypatch.setattr(cgroups, "OWN", root / "own")
    return root


def test_every_cgroup_v1_hierarchy_gets_a_group_below_the_caller(tmp_path: Path, monkeypatch) -> None:
    own = "4:memory:/jobs/7\n3:cpu,cpuacct:/\n1:name=systemd:/\n0::/\n"
    root = mounted(tmp_path, own, monkeypatch, "memory", "memory/jobs/7", "cpu,cpuacct", "systemd", "unified")
    assert cgroups.own_groups("rack", root) == (
        f"{root}/memory/jobs/7/rack",
        f"{root}/cpu,cpuacct/rack",
        f"{root}/systemd/rack",
        f"{root}/unified/rack",
    )


def test_cgroup_v2_has_one_hierarchy_and_the_rack_one_group(tmp_path: Path, monkeypatch) -> None:
    root = mounted(tmp_path, "0::/user.slice\n", monkeypatch, ".", "user.slice")
    assert cgroups.own_groups("rack", root) == (f"{root}/user.slice/rack",)


def test_unmounted_hierarchy_gets_no_group(tmp_path: Path, monkeypatch) -> None:
    root = mounted(tmp_path, "2:pids:/\n1:name=systemd:/\n", monkeypatch, "systemd")
    assert cgroups.own_groups("rack", root) == (f"{root}/systemd/rack",)


def test_groups_are_removed_with_all_their_subgroups(tmp_path: Path) -> None:
    group = tmp_path / "rack"
    (group / "h1" / "system.slice").mkdir(parents=True)
    assert cgroups.remove((str(group),))
    assert not group.exists()
    assert cgroups.remove((str(group),))


def test_groups_that_disappear_meanwhile_are_not_an_error(tmp_path: Path, monkeypatch) -> None:
    """As sessions of users do, whose systemd ends with them."""
    group = tmp_path / "rack"
    session = group / "user.slice" / "session-1.scope"
    session.mkdir(parents=True)
    real = os.scandir

    def scandir(path: str):
        entries = real(path)
        if Path(path).name == "session-1.scope":
            session.rmdir()
            entries.close()
            raise FileNotFoundError(path)
        return entries

    monkeypatch.setattr(os, "scandir", scandir)
    cgroups.end((str(group),))
    assert not group.exists()
