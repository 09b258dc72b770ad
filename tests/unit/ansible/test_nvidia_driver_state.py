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


@pytest.fixture
def kernel(tmp_path: Path, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel(tmp_path)
    made.gpu("0000:1b:00.0")
    monkeypatch.setattr(module, "run", made.run)
    return made


@pytest.fixture
def host(kernel: Kernel, module: ModuleType) -> Any:
    return module.DriverHost(kernel.root)


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


def test_monitor_of_dgx_os_is_stopped_for_the_new_driver_and_started_again(
    module: ModuleType, kernel: Kernel, host: Any
) -> None:
    kernel.load("nvidia", "nvidia_uvm", version=OLD)
    kernel.process(7, "nvsm_core", "/dev/nvidiactl", unit="nvsm-core.service")
    assert load(module, host)["reboot_required"] is False
    calls = kernel.changes()
    stopped, started = (("systemctl", word, "nvsm.service") for word in ("stop", "start"))
    assert calls.index(stopped) < calls.index(("modprobe", "-r", "nvidia"))
    assert calls.index(("modprobe", "nvidia")) < calls.index(started)


def test_monitor_that_does_not_run_is_not_started(
    module: ModuleType, kernel: Kernel, host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.load("nvidia", "nvidia_uvm", version=OLD)
    real = kernel.run
    monkeypatch.setattr(module, "run", lambda *words: (3, "") if "is-active" in words else real(*words))
    assert load(module, host)["changed"] is True
    assert not [call for call in kernel.changes() if call[:2] == ("systemctl", "start")]


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


def test_device_plugin_of_kubernetes_has_the_old_driver_in_use(
    module: ModuleType, kernel: Kernel, host: Any
) -> None:
    """It stays on a drained node, so the guard lets it pass; only a reboot unloads the driver below it."""
    kernel.load("nvidia", "nvidia_uvm", version=OLD)
    kernel.process(11, "nvidia-device-p", "/dev/nvidiactl", unit="kubepods-pod1234.slice/cri-1.scope")
    result = load(module, host)
    assert result["reboot_required"] and "in use by nvidia-device-p (11)" in result["reason"]
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
    reported: list[str] = []
    load(module, host, expected_gpus=8, warn=reported.append)
    assert reported == ["1 of 8 GPUs are on the PCI bus; the health check judges that"]
    with pytest.raises(module.DriverError, match="No NVIDIA GPU is on the PCI bus"):
        load(module, module.DriverHost(tmp_path / "empty"))


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


@pytest.fixture
def guard(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Calls of the guard, which finds nothing that runs on the node."""
    calls: list[dict[str, Any]] = []

    def take(change: str, **more: Any) -> Any:
        calls.append({"change": change} | more)
        return SimpleNamespace(drained=True, diff=["drained"])

    monkeypatch.setattr(module, "take_out_of_service", take)
    return calls


def before(module: ModuleType, host: Any, *, check: bool = False) -> dict[str, Any]:
    return module.before(host, WANTED, 60, check)


def test_node_with_the_right_driver_is_unchanged(
    module: ModuleType, kernel: Kernel, host: Any, guard: list[Any]
) -> None:
    kernel.load("nvidia", "nvidia_uvm", version=WANTED[0])
    assert before(module, host) == {
        "changed": False,
        "loaded": WANTED[0],
        "settled": True,
        "drained": False,
    }
    assert guard == []


@pytest.mark.parametrize("check", [True, False])
def test_node_is_drained_before_its_driver_changes(
    module: ModuleType, kernel: Kernel, host: Any, guard: list[Any], check: bool
) -> None:
    kernel.load("nvidia", "nvidia_uvm", version=OLD)
    result = before(module, host, check=check)
    assert (result["changed"], result["drained"], result["settled"]) == (True, True, False)
    assert guard == [
        {"change": f"the driver changes from {OLD} to {WANTED[0]}", "check": check, "wait_s": 60}
    ]
    assert kernel.changes() == []


def test_other_driver_after_the_change_is_an_error(module: ModuleType, kernel: Kernel, host: Any) -> None:
    kernel.load("nvidia", "nvidia_uvm", version=OLD)
    with pytest.raises(
        module.DriverError, match=r"570\.211\.01 \(open\) is loaded and 580\.159\.03 \(open\)"
    ):
        module.after(host, WANTED, check=False)
    kernel.load("nvidia", version=WANTED[0])
    assert module.after(host, WANTED, check=False) == {"changed": False, "loaded": WANTED[0]}


def test_host_without_a_driver_needs_no_guard(
    module: ModuleType, kernel: Kernel, host: Any, guard: list[Any]
) -> None:
    kernel.installed = ""
    assert before(module, host)["changed"] is False
    assert guard == []


@pytest.fixture(scope="module")
def slurm() -> ModuleType:
    return load_module("plugins/module_utils/slurm_node.py")


SHOWN = (
    "NodeName=dgx01 Arch=x86_64 CoresPerSocket=1 Gres=gpu:h100:8 NodeAddr=10.0.0.1 "
    "State=IDLE+DRAIN ThreadsPerCore=1 Partitions=all Reason=gpufleet: driver 580 [root@2026-11-21]"
)


def answers(reported: dict[str, tuple[int, str]], calls: list[tuple[str, ...]]) -> Any:
    def run(*command: str) -> tuple[int, str]:
        calls.append(command)
        return reported[command[0]]

    return run


def test_output_of_scontrol_and_squeue_is_parsed(slurm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []
    reported = {"scontrol": (0, SHOWN), "squeue": (0, "18\n17\n17\n")}
    monkeypatch.setattr(slurm, "run", answers(reported, calls))
    node = slurm.SlurmNode("gpufleet: driver", "dgx01")
    assert node.known and node.drained_by_us()
    assert node.jobs() == ["17", "18"]
    assert not slurm.SlurmNode("gpufleet: kernel", "dgx01").drained_by_us()
    assert not slurm.SlurmNode("gpufleet: driver", "dgx0").known
    node.drain("595")
    assert calls[-1] == (
        "scontrol",
        "update",
        "NodeName=dgx01",
        "State=DRAIN",
        "Reason=gpufleet: driver 595",
    )


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
