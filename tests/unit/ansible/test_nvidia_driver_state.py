"""Whether the driver is loaded, reloaded or needs a reboot; jobs are never disturbed."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.unit.ansible.gpu_roles import load_module

WANTED = ("580.159.03", True)
OLD = "570.211.01"


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return load_module("plugins/modules/nvidia_driver_state.py")


class Kernel:
    """A kernel with modules, and the programs that change them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.installed = WANTED[0]
        self.license = "Dual MIT/GPL"
        self.stuck = ""
        self.calls: list[tuple[str, ...]] = []

    def load(self, *names: str, version: str = "", kind: str = " Open Kernel Module") -> None:
        for name in names:
            (self.root / "sys/module" / name).mkdir(parents=True, exist_ok=True)
            (self.root / "sys/module" / name / "version").write_text(version)
        if "nvidia" in names:
            (self.root / "proc/driver/nvidia").mkdir(parents=True, exist_ok=True)
            (self.root / "proc/driver/nvidia/version").write_text(
                f"NVRM version: NVIDIA UNIX{kind} {version}"
            )

    def gpu(self, address: str) -> None:
        folder = self.root / "sys/bus/pci/devices" / address
        folder.mkdir(parents=True)
        (folder / "vendor").write_text("0x10de\n")
        (folder / "class").write_text("0x030200\n")

    def process(self, number: int, name: str, opens: str = "", unit: str = "") -> None:
        folder = self.root / "proc" / str(number)
        (folder / "fd").mkdir(parents=True)
        (folder / "comm").write_text(name + "\n")
        (folder / "cgroup").write_text(f"0::/system.slice/{unit}\n")
        if opens:
            (folder / "fd" / "3").symlink_to(opens)

    def run(self, *command: str) -> tuple[int, str]:
        self.calls.append(command)
        program, *words = command
        if program == "modinfo":
            return (
                (0, self.license if "license" in words else self.installed) if self.installed else (1, "no")
            )
        if program == "modprobe" and words[0] == "-r":
            if words[1] == self.stuck:
                return 1, f"modprobe: FATAL: Module {words[1]} is in use."
            for path in sorted((self.root / "sys/module" / words[1]).glob("*")):
                path.unlink()
            (self.root / "sys/module" / words[1]).rmdir()
        elif program == "modprobe":
            self.load(words[0], version=self.installed)
        return 0, ""

    def changes(self) -> list[tuple[str, ...]]:
        return [call for call in self.calls if call[0] != "modinfo"]


class Node:
    """A Slurm node, for the module."""

    def __init__(self, **state: Any) -> None:
        self.name = "dgx01"
        self.installed = self.known = True
        self.running: list[str] = []
        self.reason = ""
        self.calls: list[str] = []
        self.__dict__.update(state)

    def drained(self) -> bool:
        return bool(self.reason)

    def drained_by_us(self) -> bool:
        return self.reason.startswith("gpufleet: driver")

    def jobs(self) -> list[str]:
        return self.running

    def drain(self, why: str) -> None:
        self.calls.append("drain")
        self.reason = f"gpufleet: driver {why}"

    def resume(self) -> None:
        self.calls.append("resume")
        self.reason = ""


@pytest.fixture
def kernel(tmp_path: Path, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel(tmp_path)
    made.gpu("0000:1b:00.0")
    monkeypatch.setattr(module, "run", made.run)
    return made


@pytest.fixture
def host(kernel: Kernel, module: ModuleType) -> Any:
    return module.Host(kernel.root)


def load(module: ModuleType, host: Any, **more: Any) -> dict[str, Any]:
    given = {"expected_gpus": 1, "blacklisted": False, "check": False, "warn": lambda _: None} | more
    return module.load(host, WANTED, **given)


def test_driver_is_loaded_on_a_host_without_one(module: ModuleType, kernel: Kernel, host: Any) -> None:
    result = load(module, host)
    assert (result["changed"], result["reboot_required"]) == (True, False)
    assert kernel.changes() == [("modprobe", "nvidia"), ("modprobe", "nvidia_uvm")]


def test_matching_driver_is_unchanged(module: ModuleType, kernel: Kernel, host: Any) -> None:
    kernel.load("nvidia", "nvidia_uvm", version=WANTED[0])
    assert load(module, host)["changed"] is False
    assert kernel.changes() == []


def test_unused_old_driver_is_replaced_without_a_reboot(
    module: ModuleType, kernel: Kernel, host: Any
) -> None:
    kernel.load("nvidia", "nvidia_uvm", "gdrdrv", version=OLD)
    kernel.process(7, "nvidia-persiste", "/dev/nvidia0")
    kernel.process(8, "python3", "/dev/nvidia1", unit="nvidia-dcgm.service")
    kernel.process(9, "bash", "/dev/null")
    result = load(module, host)
    assert (result["changed"], result["reboot_required"]) == (True, False)
    unloaded = [call[2] for call in kernel.changes() if call[:2] == ("modprobe", "-r")]
    assert unloaded == ["gdrdrv", "nvidia_uvm", "nvidia"]
    stopped = [call[2] for call in kernel.changes() if call[:2] == ("systemctl", "stop")]
    assert stopped.index("nvidia-fabricmanager.service") < stopped.index("nvidia-persistenced.service")


def test_old_driver_in_use_needs_a_reboot_and_nothing_is_stopped(
    module: ModuleType, kernel: Kernel, host: Any
) -> None:
    kernel.load("nvidia", "nvidia_uvm", version=OLD)
    kernel.process(4242, "python", "/dev/nvidia3")
    for check in (True, False):
        result = load(module, host, check=check)
        assert result["reboot_required"]
        assert "in use by python (4242)" in result["reason"]
        assert kernel.changes() == []


def test_module_that_cannot_be_unloaded_needs_a_reboot(module: ModuleType, kernel: Kernel, host: Any) -> None:
    kernel.load("nvidia", "nvidia_uvm", version=OLD)
    kernel.stuck = "nvidia_uvm"
    result = load(module, host)
    assert result["reboot_required"]
    assert "nvidia_uvm cannot be unloaded" in result["reason"]
    assert ("modprobe", "nvidia") not in kernel.calls


def test_closed_modules_of_the_same_version_are_replaced_by_open_ones(
    module: ModuleType, kernel: Kernel, host: Any
) -> None:
    kernel.load("nvidia", "nvidia_uvm", version=WANTED[0], kind=" x86_64 Kernel Module")
    assert load(module, host)["changed"] is True


def test_nouveau_needs_a_reboot(module: ModuleType, kernel: Kernel, host: Any) -> None:
    kernel.load("nouveau")
    assert load(module, host)["reboot_required"]


def test_check_mode_reports_the_same_and_changes_nothing(
    module: ModuleType, kernel: Kernel, host: Any
) -> None:
    kernel.load("nvidia", "nvidia_uvm", version=OLD)
    kernel.installed = OLD
    result = load(module, host, check=True)
    assert (result["changed"], result["reboot_required"]) == (True, False)
    assert kernel.changes() == []


def test_module_that_was_not_built_is_an_error_with_its_log(
    module: ModuleType, kernel: Kernel, host: Any
) -> None:
    kernel.installed = ""
    with pytest.raises(module.DriverError, match="DKMS did not build it"):
        load(module, host)
    assert kernel.changes() == []


def test_missing_gpus_are_a_warning_and_none_at_all_an_error(
    module: ModuleType, kernel: Kernel, host: Any, tmp_path: Path
) -> None:
    said: list[str] = []
    load(module, host, expected_gpus=8, warn=said.append)
    assert said == ["1 of 8 GPUs are on the PCI bus; the health check judges that"]
    with pytest.raises(module.DriverError, match="No NVIDIA GPU is on the PCI bus"):
        load(module, module.Host(tmp_path / "empty"))


def test_initramfs_older_than_the_blacklist_is_rebuilt(module: ModuleType, kernel: Kernel, host: Any) -> None:
    kernel.load("nvidia", "nvidia_uvm", version=WANTED[0])
    image = host.initramfs()
    blacklist = kernel.root / "etc/modprobe.d/gpufleet-nouveau.conf"
    for path, when in ((image, 1000), (blacklist, 2000)):
        path.parent.mkdir(parents=True)
        path.write_text("")
        os.utime(path, (when, when))
    assert load(module, host, check=True)["changed"] is True
    assert load(module, host)["changed"] is True
    assert kernel.changes() == [("update-initramfs", "-u", "-k", os.uname().release)]
    os.utime(image, (3000, 3000))
    assert load(module, host)["changed"] is False
    assert load(module, host, check=True, blacklisted=True)["changed"] is True


def test_version_of_another_branch_is_refused(module: ModuleType) -> None:
    module.of_branch("580.159.03", 580)
    with pytest.raises(module.DriverError, match="the branch is the first number of the version"):
        module.of_branch("595.91.07", 580)


def before(module: ModuleType, host: Any, node: Node, **more: Any) -> dict[str, Any]:
    given = {"drain_timeout_s": 0, "check": False} | more
    return module.before(host, WANTED, given["drain_timeout_s"], given["check"], node)


def test_node_with_the_right_driver_is_unchanged(module: ModuleType, kernel: Kernel, host: Any) -> None:
    kernel.load("nvidia", "nvidia_uvm", version=WANTED[0])
    node = Node(running=["17"])
    assert before(module, host, node) == {
        "changed": False,
        "loaded": WANTED[0],
        "settled": True,
        "drained": False,
    }
    assert node.calls == []


def test_node_with_jobs_is_drained_and_refused_before_any_change(
    module: ModuleType, kernel: Kernel, host: Any
) -> None:
    kernel.load("nvidia", "nvidia_uvm", version=OLD)
    node = Node(running=["17", "18"])
    with pytest.raises(module.DriverError, match=r"2 jobs run on dgx01 \(17, 18\).* not under running jobs"):
        before(module, host, node)
    assert node.calls == ["drain"]
    assert kernel.changes() == []


def test_check_mode_refuses_the_same_and_drains_nothing(
    module: ModuleType, kernel: Kernel, host: Any
) -> None:
    kernel.load("nvidia", "nvidia_uvm", version=OLD)
    node = Node(running=["17"])
    with pytest.raises(module.DriverError, match="would be drained"):
        before(module, host, node, check=True)
    assert node.calls == []


def test_drain_waits_for_jobs(
    module: ModuleType, kernel: Kernel, host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.load("nvidia", "nvidia_uvm", version=OLD)
    node = Node(running=["17"])
    clock = iter(range(0, 1000, 5))
    ends = SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: node.running.clear())
    monkeypatch.setattr(module, "time", ends)
    assert before(module, host, node, drain_timeout_s=60)["drained"] is True


def test_idle_node_is_drained_and_resumed(module: ModuleType, kernel: Kernel, host: Any) -> None:
    kernel.load("nvidia", "nvidia_uvm", version=OLD)
    node = Node()
    result = before(module, host, node)
    assert (result["changed"], result["drained"], result["settled"]) == (True, True, False)
    with pytest.raises(
        module.DriverError, match=r"570\.211\.01 \(open\) is loaded and 580\.159\.03 \(open\)"
    ):
        module.after(host, WANTED, drained=True, check=False, node=node)
    kernel.load("nvidia", version=WANTED[0])
    assert module.after(host, WANTED, drained=True, check=False, node=node)["changed"] is True
    assert node.calls == ["drain", "resume"]
    assert before(module, host, node)["settled"] is True


def test_node_drained_by_others_stays_drained(module: ModuleType, kernel: Kernel, host: Any) -> None:
    kernel.load("nvidia", "nvidia_uvm", version=OLD)
    node = Node(reason="broken fan")
    assert before(module, host, node)["drained"] is False
    kernel.load("nvidia", version=WANTED[0])
    assert module.after(host, WANTED, drained=False, check=False, node=node)["changed"] is False
    assert node.reason == "broken fan"
    assert node.calls == []


def test_next_run_resumes_a_node_that_a_killed_run_drained(
    module: ModuleType, kernel: Kernel, host: Any
) -> None:
    kernel.load("nvidia", "nvidia_uvm", version=WANTED[0])
    node = Node(reason="gpufleet: driver 580.159.03 [root@2026-11-21T17:00:00]")
    assert before(module, host, node)["settled"] is False
    assert module.after(host, WANTED, drained=True, check=False, node=node)["changed"] is True
    assert node.calls == ["resume"]


def test_host_without_a_driver_does_not_wait_for_jobs(module: ModuleType, kernel: Kernel, host: Any) -> None:
    kernel.installed = ""
    node = Node(running=["17"])
    assert before(module, host, node)["changed"] is False
    assert node.calls == []


@pytest.fixture(scope="module")
def slurm() -> ModuleType:
    return load_module("plugins/module_utils/slurm_node.py")


SHOWN = (
    "NodeName=dgx01 Arch=x86_64 CoresPerSocket=1 Gres=gpu:h100:8 NodeAddr=10.0.0.1 "
    "State=IDLE+DRAIN ThreadsPerCore=1 Partitions=all Reason=gpufleet: driver 580 [root@2026-11-21]"
)


def answers(said: dict[str, tuple[int, str]], calls: list[tuple[str, ...]]) -> Any:
    def run(*command: str) -> tuple[int, str]:
        calls.append(command)
        return said[command[0]]

    return run


def test_output_of_scontrol_and_squeue_is_parsed(slurm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []
    said = {"scontrol": (0, SHOWN), "squeue": (0, "18\n17\n17\n")}
    monkeypatch.setattr(slurm, "run", answers(said, calls))
    node = slurm.SlurmNode("gpufleet: driver", "dgx01")
    assert node.known and node.drained_by_us()
    assert node.jobs() == ["17", "18"]
    assert not slurm.SlurmNode("gpufleet: kernel", "dgx01").drained_by_us()
    assert not slurm.SlurmNode("gpufleet: driver", "dgx0").known
    node.drain("595")
    assert calls[-1] == ("scontrol", "update", "NodeName=dgx01", "State=DRAIN", "Reason=gpufleet: driver 595")


def test_local_job_steps_count_without_a_controller(
    slurm: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(slurm, "run", lambda *_: (1, "Unable to contact slurm controller"))
    node = slurm.SlurmNode("gpufleet: driver", "dgx01", str(tmp_path))
    assert node.installed and not node.known
    assert node.jobs() == []
    (tmp_path / "proc/77").mkdir(parents=True)
    (tmp_path / "proc/77/comm").write_text("slurmstepd\n")
    assert node.jobs() == ["77"]
