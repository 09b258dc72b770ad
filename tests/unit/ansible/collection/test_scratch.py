"""Scratch: usable drives, from output of blkid and mdadm on real hosts."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.gpufleet.rack.plugins.module_utils import nvme_drives
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError

from tests.unit.ansible.collection.conftest import Programs, load

DETAIL = """\
/dev/nvme2n1:
          Magic : a92b4efc
        Version : 1.2
    Feature Map : 0x0
     Array UUID : 7b664f0c:049a4c95:97f83562:964cfdd7
           Name : dgx01:{name}  (local to host dgx01)
  Creation Time : Sat Nov 21 17:51:30 2026
     Raid Level : raid0
   Raid Devices : {members}
"""


@pytest.fixture
def module() -> ModuleType:
    return load("scratch")


@pytest.fixture
def drive(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Contents of a drive with this output of blkid and mdadm."""

    def make(blkid: dict[str, str] | None = None, mdadm: str = "", used: bool = False) -> Any:
        answers = {"blkid": (0 if blkid else 2, "".join(f"{k}={v}\n" for k, v in (blkid or {}).items()))}
        answers["mdadm"] = (0 if mdadm else 1, mdadm)

        def run(command: list[str], _timeout_s: int = 0) -> Any:
            code, out = answers[command[0]]
            return subprocess.CompletedProcess(command, code, out, "")

        monkeypatch.setattr(nvme_drives.fstab, "run", run)
        monkeypatch.setattr(nvme_drives.shutil, "which", lambda *_, **__: "/sbin/mdadm")
        monkeypatch.setattr(nvme_drives, "above", lambda _: [])
        numbers = {Path("/dev/null").stat().st_rdev} if used else set()
        return nvme_drives.inspect("/dev/null", numbers)

    return make


def test_only_an_empty_drive_is_blank(drive: Callable[..., Any]) -> None:
    assert drive().blank
    assert not drive(used=True).blank
    assert not drive({"TYPE": "ext4"}).blank
    assert not drive({"PTTYPE": "gpt"}).blank
    assert not drive({"TYPE": "LVM2_member"}).blank
    assert not drive(mdadm=DETAIL.format(name="0", members=2)).blank


def test_contents_of_a_drive_are_reported(drive: Callable[..., Any]) -> None:
    assert drive({"TYPE": "ext4", "UUID": "1"}).content == "ext4 (type)"
    assert drive({"PTTYPE": "gpt", "PTUUID": "1"}).content == "gpt (pttype)"
    found = drive(mdadm=DETAIL.format(name="scratch", members=8))
    assert (found.array, found.members, found.content) == ("scratch", 8, "")
    # Before mdadm is installed, by what blkid says.
    assert drive({"TYPE": "linux_raid_member", "LABEL": "dgx01:scratch"}).array == "scratch"


def test_blank_drives_are_used_if_their_number_matches(module: ModuleType) -> None:
    blank = [nvme_drives.Drive(f"/dev/nvme{index}n1") for index in range(8)]
    system = nvme_drives.Drive("/dev/nvme9n1", used=True)
    assert module.choose([*blank, system], 8, "scratch") == blank
    assert module.choose([*blank, system], 0, "scratch") == blank
    other = nvme_drives.Drive("/dev/nvme10n1", content="ntfs (type)")
    assert module.choose([*blank, other], 8, "scratch") == blank


def test_too_few_and_too_many_drives_are_refused_with_their_contents(module: ModuleType) -> None:
    blank = [nvme_drives.Drive(f"/dev/nvme{index}n1") for index in range(7)]
    full = nvme_drives.Drive("/dev/nvme7n1", content="ext4 (type)")
    member = nvme_drives.Drive("/dev/nvme8n1", array="0")
    with pytest.raises(RefusalError) as refused:
        module.choose([*blank, full, member], 8, "scratch")
    reported = str(refused.value)
    assert "7 NVMe drives are blank" in reported and "8 have to be" in reported
    assert "/dev/nvme7n1 has ext4 (type)" in reported and "/dev/nvme8n1 has a part of the array 0" in reported
    assert "wipefs" in reported
    with pytest.raises(RefusalError, match="local_nvme_devices"):
        module.choose(blank, 4, "scratch")
    with pytest.raises(RefusalError, match="at least one has to be"):
        module.choose([full], 0, "scratch")


def test_existing_array_is_used_and_one_with_a_missing_drive_is_refused(module: ModuleType) -> None:
    ours = [nvme_drives.Drive(f"/dev/nvme{index}n1", array="scratch", members=8) for index in range(8)]
    assert module.choose(ours, 8, "scratch") is None
    assert module.choose(ours, 0, "scratch") is None
    fresh = nvme_drives.Drive("/dev/nvme8n1")
    with pytest.raises(RefusalError, match="of 8 drives, 7 of them are there"):
        module.choose([*ours[:7], fresh], 8, "scratch")
    with pytest.raises(RefusalError, match="it has to be of 4"):
        module.choose(ours, 4, "scratch")


def test_drives_are_sorted_by_number() -> None:
    found = sorted(["/dev/nvme10n1", "/dev/nvme9n1"], key=nvme_drives.natural)
    assert found == ["/dev/nvme9n1", "/dev/nvme10n1"]


def test_unreadable_drive_is_refused_by_name(programs: Programs) -> None:
    programs.add("blkid", "echo 'error: /dev/null: Input/output error' >&2; exit 4")
    with pytest.raises(RefusalError, match=r"/dev/null cannot be read.*Input/output error"):
        nvme_drives.probe("/dev/null")


def test_array_has_one_line_in_mdadm_conf(module: ModuleType) -> None:
    text = "HOMEHOST <system>\n"
    once = module.with_array(text, "local_nvme", "ARRAY /dev/md/scratch UUID=1")
    assert once == f"{text}# gpufleet: local_nvme\nARRAY /dev/md/scratch UUID=1\n"
    again = module.with_array(once + "PROGRAM /x\n", "local_nvme", "ARRAY /dev/md/scratch UUID=2")
    assert again == f"{text}# gpufleet: local_nvme\nARRAY /dev/md/scratch UUID=2\nPROGRAM /x\n"


@pytest.mark.parametrize("kind", ["ext4", "linux_raid_member"])
def test_device_with_other_data_is_never_formatted(kind: str, module: ModuleType, programs: Programs) -> None:
    programs.add("blkid", f"echo TYPE={kind}")
    programs.add("mkfs.xfs", "exit 0")
    with pytest.raises(RefusalError, match=f"has {kind} on it"):
        module.make_file_system("/dev/null")
    programs.add("blkid", "echo TYPE=xfs")
    module.make_file_system("/dev/null")
    assert programs.called("mkfs.xfs") == []
