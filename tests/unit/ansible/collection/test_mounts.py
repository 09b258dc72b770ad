"""Mounts and lines of /etc/fstab: those of a role, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]
OTHERS = "# /etc/fstab\nUUID=1 / ext4 defaults 0 1\n\n/swap none swap sw 0 0\n"
HOME = {"source": "nas01:/home", "path": "/people"}
# mount(8) and umount(8) on a table of their own; a server called "silent" does not answer.
MOUNT = """\
for word; do case "$word" in *:/*) source=$word;; /*) path=$word;; esac; done
case "$source" in silent*) echo "mount.nfs: Connection timed out" >&2; exit 32;; esac
case "$source" in vanished*) exit 0;; esac
echo "$source $path nfs4 rw 0 0" >>{table}
"""
UMOUNT = 'case "$1" in */busy) echo "target is busy" >&2; exit 32;; esac\nsed -i "\\\\| $1 |d" {table}\n'


@pytest.fixture
def host(tmp_path: Path, programs: Programs, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module on a host with two lines of its own and nothing mounted."""
    module = load("mounts")
    table = tmp_path / "mounts"
    table.write_text("/dev/sda1 / ext4 rw 0 0\n")
    (tmp_path / "fstab").write_text(OTHERS)
    monkeypatch.setattr(module.fstab, "FSTAB", tmp_path / "fstab")
    monkeypatch.setattr(module.fstab, "MOUNTS", table)
    programs.add("mount", MOUNT.format(table=table))
    programs.add("umount", UMOUNT.format(table=table))
    programs.add("systemctl", "exit 0")
    return module


def mounts(run: Run, host: ModuleType, root: Path, *items: dict[str, str], **more: Any) -> dict[str, Any]:
    wanted = [item | {"path": f"{root}{item['path']}"} for item in items]
    given = {"owner": "nfs_client", "fstype": "nfs", "options": "hard", "mounts": wanted} | more
    return run(host, **given)


def test_file_system_is_mounted_once_and_other_fstab_lines_stay(
    host: ModuleType, run: Run, programs: Programs, tmp_path: Path
) -> None:
    predicted = mounts(run, host, tmp_path, HOME, check=True)
    assert programs.called() == [] and (tmp_path / "fstab").read_text() == OTHERS
    done = mounts(run, host, tmp_path, HOME)
    assert predicted["actions"] == done["actions"] == [f"mount {tmp_path}/people (nas01:/home)"]
    line = f"# gpufleet: nfs_client\nnas01:/home {tmp_path}/people nfs hard 0 0\n"
    assert (tmp_path / "fstab").read_text() == OTHERS + line
    assert not mounts(run, host, tmp_path, HOME)["changed"]


def test_changed_options_or_source_remount_the_file_system(
    host: ModuleType, run: Run, tmp_path: Path
) -> None:
    mounts(run, host, tmp_path, HOME)
    done = mounts(run, host, tmp_path, HOME, options="hard,nconnect=8")
    assert [word.split()[0] for word in done["actions"]] == ["unmount", "mount"]
    moved = mounts(run, host, tmp_path, HOME | {"source": "nas02:/home"})
    assert moved["actions"][-1].endswith("(nas02:/home)")
    assert (tmp_path / "fstab").read_text().count("/people") == 1


def test_removed_file_system_is_unmounted_and_lines_of_other_roles_stay(
    host: ModuleType, run: Run, tmp_path: Path
) -> None:
    mounts(run, host, tmp_path, HOME)
    other = {"source": "mgs:/fs", "path": "/lustre"}
    mounts(run, host, tmp_path, other, owner="lustre_client", fstype="lustre")
    done = mounts(run, host, tmp_path)
    assert done["actions"] == [f"unmount {tmp_path}/people (nas01:/home)"]
    text = (tmp_path / "fstab").read_text()
    assert "/people" not in text and "mgs:/fs" in text and text.startswith(OTHERS)


def test_busy_file_system_is_not_unmounted_and_fstab_is_unchanged(
    host: ModuleType, run: Run, tmp_path: Path
) -> None:
    busy = {"source": "nas01:/busy", "path": "/busy"}
    mounts(run, host, tmp_path, busy)
    before = (tmp_path / "fstab").read_text()
    refused = mounts(run, host, tmp_path)
    assert "target is busy" in refused["msg"] and "fuser -vm" in refused["msg"]
    assert (tmp_path / "fstab").read_text() == before


def test_run_that_ended_before_mounting_is_completed(host: ModuleType, run: Run, tmp_path: Path) -> None:
    assert "Connection timed out" in mounts(run, host, tmp_path, {"source": "silent:/x", "path": "/x"})["msg"]
    assert "silent:/x" in (tmp_path / "fstab").read_text()
    again = mounts(run, host, tmp_path, {"source": "nas01:/x", "path": "/x"})
    assert again["actions"] == [f"mount {tmp_path}/x (nas01:/x)"]


def test_mount_that_is_not_in_effect_is_refused(host: ModuleType, run: Run, tmp_path: Path) -> None:
    refused = mounts(run, host, tmp_path, {"source": "vanished:/x", "path": "/x"})
    assert "nothing is mounted there" in refused["msg"]


def test_path_in_use_by_others_is_refused_before_any_change(
    host: ModuleType, run: Run, programs: Programs, tmp_path: Path
) -> None:
    (tmp_path / "fstab").write_text(f"{OTHERS}other:/y {tmp_path}/y nfs hard 0 0\n")
    refused = mounts(run, host, tmp_path, HOME, {"source": "nas01:/y", "path": "/y"})
    assert "/etc/fstab has other:/y" in refused["msg"] and programs.called() == []
    (tmp_path / "fstab").write_text(OTHERS)
    (tmp_path / "mounts").write_text(f"/dev/sdb1 {tmp_path}/y ext4 rw 0 0\n")
    refused = mounts(run, host, tmp_path, {"source": "nas01:/y", "path": "/y"})
    assert "/dev/sdb1 (ext4) is mounted" in refused["msg"] and programs.called() == []


def test_paths_with_spaces_are_parsed_as_the_kernel_writes_them(host: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "mounts").write_text("a:/b\\040c /d\\040e nfs rw 0 0\n")
    assert host.fstab.mounted() == {"/d e": ("a:/b c", "nfs")}


def test_type_and_options_of_a_mount_override_the_defaults(
    host: ModuleType, run: Run, tmp_path: Path
) -> None:
    fast = {"source": "w1:/fast", "path": "/fast", "fstype": "wekafs", "options": "num_cores=2"}
    mounts(run, host, tmp_path, HOME, fast)
    text = (tmp_path / "fstab").read_text()
    assert f"w1:/fast {tmp_path}/fast wekafs num_cores=2 0 0\n" in text
    assert f"nas01:/home {tmp_path}/people nfs hard 0 0\n" in text


@pytest.mark.parametrize(
    ("fstype", "source", "shown"),
    [
        ("wekafs", "weka01,weka02/fast", "weka02/fast"),
        ("wekafs", "weka01,weka02/fast", "fast"),
        ("gpfs", "fast", "/dev/fast"),
    ],
)
def test_mount_shown_under_another_source_is_recognized(
    host: ModuleType, run: Run, tmp_path: Path, fstype: str, source: str, shown: str
) -> None:
    (tmp_path / "mounts").write_text(f"{shown} {tmp_path}/fast {fstype} rw 0 0\n")
    item = {"source": source, "path": "/fast", "fstype": fstype}
    done = mounts(run, host, tmp_path, item)
    assert done["actions"] == [] and f"{source} {tmp_path}/fast" in (tmp_path / "fstab").read_text()
    (tmp_path / "fstab").write_text(OTHERS)
    (tmp_path / "mounts").write_text(f"{shown}2 {tmp_path}/fast {fstype} rw 0 0\n")
    assert "is to be" in mounts(run, host, tmp_path, item)["msg"]


def test_fstab_line_of_storage_scale_is_used_and_not_duplicated(
    host: ModuleType, run: Run, tmp_path: Path
) -> None:
    line = f"/dev/fast {tmp_path}/fast gpfs rw,mtime,dev=fast,noauto 0 0\n"
    (tmp_path / "fstab").write_text(OTHERS + line)
    (tmp_path / "mounts").write_text(f"fast {tmp_path}/fast gpfs rw 0 0\n")
    item = {"source": "fast", "path": "/fast", "fstype": "gpfs"}
    assert not mounts(run, host, tmp_path, item)["changed"]
    assert (tmp_path / "fstab").read_text() == OTHERS + line
    assert "already" in mounts(run, host, tmp_path, item | {"source": "slow"})["msg"]
