"""RDMA adapters: changed ports, required reboots, and names that stay while a device is missing."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.gpufleet.rack.plugins.module_utils import rdma_hardware
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError

from tests.unit.ansible.collection.conftest import Programs, load

# mlxconfig with a file for each parameter of each adapter.
MLXCONFIG = """\
for word in "$@"; do case "$word" in LINK_TYPE_P*) parameter=${word%%=*};; 0000:*) bus=$word;; esac; done
state={folder}/$bus.$parameter
case "$*" in
  *" query "*) [ -e $state ] || { echo "-E- Unknown Parameter: $parameter" >&2; exit 3; }
     printf 'Device #1:\\nConfigurations:            Next Boot\\n'
     printf '*       %s        %s\\n' $parameter "$(cat $state)";;
  *) [ -w $state ] && echo "X(${{word#*=}})" >$state || { echo "-E- locked" >&2; exit 3; };;
esac
"""


class Host:
    """A folder that looks like /sys, and the firmware of its adapters."""

    def __init__(self, root: Path, programs: Programs) -> None:
        self.root, self.firmware = root, root / "firmware"
        (root / "sys/class/infiniband").mkdir(parents=True)
        (root / "sys/bus/pci/devices").mkdir(parents=True)
        self.firmware.mkdir()
        programs.add(
            "mlxconfig",
            MLXCONFIG.replace("{folder}", str(self.firmware)).replace("{{", "{").replace("}}", "}"),
        )
        programs.add("modinfo", "exit 1")
        self.programs = programs

    def adapter(
        self, number: int, bus: str, kind: str = "InfiniBand", *, next_kind: str = "", device: str = ""
    ) -> None:
        function = self.root / "sys/bus/pci/devices" / bus
        function.mkdir()
        (function / "vendor").write_text("0x15b3\n")
        (function / "class").write_text("0x020700\n" if kind == "InfiniBand" else "0x020000\n")
        folder = self.root / "sys/class/infiniband" / (device or f"mlx5_{number}")
        (folder / "ports/1").mkdir(parents=True)
        (folder / "ports/1/link_layer").write_text(f"{kind}\n")
        (folder / "device").symlink_to(function)
        number_of = {"InfiniBand": "IB(1)", "Ethernet": "ETH(2)"}
        parameter = f"LINK_TYPE_P{int(bus[-1]) + 1}"
        (self.firmware / f"{bus}.{parameter}").write_text(number_of[next_kind or kind] + "\n")

    def gone(self, number: int) -> None:
        folder = self.root / "sys/class/infiniband" / f"mlx5_{number}"
        function = (folder / "device").resolve()
        folder.rename(self.root / f"gone{number}")
        function.rename(self.root / f"gone-{function.name}")


@pytest.fixture
def module(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    found = load("rdma_adapters")
    monkeypatch.setattr(rdma_hardware, "PLACES", f"{programs.folder}:/usr/bin:/bin")
    return found


@pytest.fixture
def host(tmp_path: Path, programs: Programs) -> Host:
    made = Host(tmp_path / "host", programs)
    for number, bus in enumerate(("0000:18:00.0", "0000:40:00.0", "0000:4f:00.0")):
        made.adapter(number, bus)
    return made


def work(module: ModuleType, host: Host, *, check: bool = False, **given: Any) -> dict[str, Any]:
    parameters = {"link_layer": "InfiniBand", "devices": [], "count": 0, "rules": str(host.root / "60.rules")}
    parameters |= {"load": [], "driver_changes": False}
    found: dict[str, Any] = module.work(parameters | given, check, host.root)
    return found


def kinds(found: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {port["device"]: (port["link_layer"], port["after_reboot"]) for port in found["ports"]}


def test_correct_adapters_are_unchanged(module: ModuleType, host: Host) -> None:
    found = work(module, host, count=3)
    assert found["changed"] is False and found["reboot_reasons"] == [] and found["notes"] == []
    assert kinds(found) == dict.fromkeys(("mlx5_0", "mlx5_1", "mlx5_2"), ("InfiniBand", "InfiniBand"))
    assert not [line for line in host.programs.called("mlxconfig") if " set " in line]


def test_wrong_port_type_is_set_once_and_waits_for_a_reboot(module: ModuleType, host: Host) -> None:
    host.adapter(3, "0000:5e:00.0", "Ethernet")
    predicted = work(module, host, check=True, count=4)
    assert not [line for line in host.programs.called("mlxconfig") if " set " in line]
    found = work(module, host, count=4)
    assert predicted["changed"] is found["changed"] is True
    assert predicted["diff"] == found["diff"]
    sets = [line for line in host.programs.called("mlxconfig") if " set " in line]
    assert sets == ["mlxconfig -y -d 0000:5e:00.0 set LINK_TYPE_P1=1"]
    again = work(module, host, count=4)
    assert again["changed"] is False
    assert again["reboot_reasons"] == ["mlx5_3 (0000:5e:00.0) is Ethernet and InfiniBand after a reboot"]
    assert kinds(again)["mlx5_3"] == ("Ethernet", "InfiniBand")


def test_port_that_would_change_to_the_wrong_type_is_set_back(module: ModuleType, host: Host) -> None:
    host.adapter(3, "0000:5e:00.0", "InfiniBand", next_kind="Ethernet")
    found = work(module, host, count=4)
    assert found["changed"] is True and found["reboot_reasons"] == []
    assert work(module, host, count=4)["changed"] is False


def test_second_port_of_an_adapter_has_its_own_parameter(module: ModuleType, host: Host) -> None:
    host.adapter(3, "0000:5e:00.1", "Ethernet")
    work(module, host, devices=["mlx5_3"])
    sets = [line for line in host.programs.called("mlxconfig") if " set " in line]
    assert sets == ["mlxconfig -y -d 0000:5e:00.1 set LINK_TYPE_P2=1"]


def test_adapters_of_the_host_network_are_never_set(module: ModuleType, host: Host) -> None:
    host.adapter(3, "0000:5e:00.0", "Ethernet")
    for count in (0, 3):
        found = work(module, host, count=count)
        assert found["changed"] is False
        assert "mlx5_3 (0000:5e:00.0): not InfiniBand, and left as they are" in found["notes"][0]
    named = work(module, host, devices=["mlx5_0", "mlx5_1", "mlx5_2"])
    assert kinds(named)["mlx5_3"] == ("Ethernet", "Ethernet")
    assert [port["fabric"] for port in named["ports"]] == [True, True, True, False]
    assert not [line for line in host.programs.called("mlxconfig") if " set " in line]


def test_adapter_with_one_type_passes_if_it_is_the_right_one(module: ModuleType, host: Host) -> None:
    (host.firmware / "0000:18:00.0.LINK_TYPE_P1").unlink()
    assert work(module, host, count=3)["changed"] is False
    host.adapter(3, "0000:5e:00.0", "Ethernet")
    (host.firmware / "0000:5e:00.0.LINK_TYPE_P1").unlink()
    with pytest.raises(RefusalError, match=r"mlx5_3 .* its firmware did not take LINK_TYPE_P1=1: -E- locked"):
        work(module, host, count=4)


def test_check_mode_uses_the_current_type_without_the_firmware_tool(module: ModuleType, host: Host) -> None:
    (host.programs.folder / "mlxconfig").unlink()
    assert work(module, host, check=True, count=3)["changed"] is False
    host.adapter(3, "0000:5e:00.0", "Ethernet")
    assert work(module, host, check=True, count=4)["changed"] is True
    with pytest.raises(RefusalError, match="Install the package mft or mstflint"):
        work(module, host, count=4)


def test_names_are_bound_to_bus_addresses_and_kept_for_missing_devices(
    module: ModuleType, host: Host
) -> None:
    devices = ["mlx5_0", "mlx5_1", "mlx5_2"]
    rules = host.root / "60.rules"
    predicted = work(module, host, check=True, devices=devices)
    assert predicted["changed"] is True and not rules.exists()
    assert work(module, host, devices=devices)["diff"] == predicted["diff"]
    text = rules.read_text()
    for name, bus in zip(devices, ("0000:18:00.0", "0000:40:00.0", "0000:4f:00.0"), strict=True):
        assert f'KERNELS=="{bus}", PROGRAM="/usr/lib/gpufleet/rdma-name {bus} {name}"' in text
    assert work(module, host, devices=devices)["changed"] is False

    host.gone(1)
    found = work(module, host, devices=devices)
    assert found["changed"] is False and found["notes"] == ["mlx5_1 is not there"]
    assert rules.read_text() == text


def test_no_binding_is_written_without_names(module: ModuleType, host: Host) -> None:
    work(module, host, count=3)
    assert not (host.root / "60.rules").exists()


def test_missing_adapters_are_reported(module: ModuleType, host: Host) -> None:
    found = work(module, host, count=8)
    assert found["changed"] is False
    assert found["notes"] == ["3 adapters are there, and the fabric has 8"]


def test_running_driver_that_differs_from_the_installed_one_needs_a_reboot(
    module: ModuleType, host: Host
) -> None:
    (host.root / "sys/module/mlx5_core").mkdir(parents=True)
    host.programs.add("modinfo", "echo 26.04-0.8.6.0")
    reason = "mlx5_core of the kernel is loaded, 26.04-0.8.6.0 is installed"
    assert work(module, host, count=3)["reboot_reasons"] == [reason]
    (host.root / "sys/module/mlx5_core/version").write_text("26.04-0.8.6.0\n")
    assert work(module, host, count=3)["reboot_reasons"] == []


def test_modules_are_loaded_once_or_at_the_next_boot_if_the_driver_changes(
    module: ModuleType, host: Host
) -> None:
    wanted = {"count": 3, "load": ["ib_umad", "rdma-ucm", "built_in"]}
    (host.root / "sys/module/mlx5_core").mkdir(parents=True)
    host.programs.add("modinfo", "echo 26.04-0.8.6.0")
    host.programs.add("modprobe", f"mkdir -p {host.root}/sys/module/$(echo $1 | tr - _)")
    for found in (
        work(module, host, **wanted),
        work(module, host, check=True, **wanted, driver_changes=True),
    ):
        assert found["changed"] is False
    assert host.programs.called("modprobe") == []

    # Where no driver is loaded, none is in the way.
    (host.root / "sys/module/mlx5_core").rmdir()
    assert work(module, host, check=True, **wanted, driver_changes=True)["changed"] is True
    built_in = host.root / "lib/modules" / module.os.uname().release / "modules.builtin"
    built_in.parent.mkdir(parents=True)
    built_in.write_text("kernel/drivers/built-in.ko\n")
    assert host.programs.called("modprobe") == []
    assert work(module, host, **wanted)["changed"] is True
    assert host.programs.called("modprobe") == ["modprobe ib_umad", "modprobe rdma-ucm"]
    assert work(module, host, **wanted)["changed"] is False


def test_module_that_fails_to_load_is_reported(module: ModuleType, host: Host) -> None:
    host.programs.add("modprobe", "echo 'modprobe: FATAL: Module ib_umad not found' >&2; exit 1")
    with pytest.raises(RefusalError, match=r"did not load ib_umad: .* not found"):
        work(module, host, count=3, load=["ib_umad"])


def test_other_vendors_virtual_functions_and_bridges_are_not_adapters(module: ModuleType, host: Host) -> None:
    for bus, vendor, kind, virtual in (
        ("0000:1b:00.0", "0x10de", "0x030200", False),
        ("0000:60:00.0", "0x8086", "0x020000", False),
        ("0000:18:00.1", "0x15b3", "0x020700", True),
        ("0000:17:00.0", "0x15b3", "0x060400", False),
    ):
        folder = host.root / "sys/bus/pci/devices" / bus
        folder.mkdir()
        (folder / "vendor").write_text(vendor)
        (folder / "class").write_text(kind)
        if virtual:
            (folder / "physfn").mkdir()
    assert len(work(module, host, count=3)["ports"]) == 3


def test_next_boot_value_is_parsed_from_the_output_of_either_tool() -> None:
    plain = "Configurations:              Next Boot\n         LINK_TYPE_P1      IB(1)\n"
    columns = "Configurations:   Default   Current   Next Boot\n*   LINK_TYPE_P1   ETH(2)   ETH(2)   IB(1)\n"
    assert (
        rdma_hardware.parse_next(plain, "LINK_TYPE_P1")
        == rdma_hardware.parse_next(columns, "LINK_TYPE_P1")
        == "1"
    )
    assert rdma_hardware.parse_next(plain, "LINK_TYPE_P2") is None
    assert rdma_hardware.parse_next("LINK_TYPE_P1   unknown", "LINK_TYPE_P1") is None


@pytest.mark.parametrize(
    ("value", "number"), [("ETH(2)", "2"), ("ETH", "2"), ("IB", "1"), ("2", "2"), ("VPI", "3"), ("N/A", None)]
)
def test_a_row_without_a_number_is_read_by_its_name(value: str, number: str | None) -> None:
    text = f"Configurations:              Next Boot\n         LINK_TYPE_P1      {value}\n"
    assert rdma_hardware.parse_next(text, "LINK_TYPE_P1") == number


def test_adapters_that_manage_nvswitches_are_none_of_the_fabric_s(module: ModuleType, host: Host) -> None:
    for number, bus in enumerate(("0000:05:00.0", "0000:06:00.0")):
        host.adapter(number + 20, bus)
        (host.root / "sys/bus/pci/devices" / bus / "vpd").write_bytes(b"\x90\x0e\x00V3\x0bSMDL=SW_MNG")
    found = work(module, host, link_layer="Ethernet", count=3)
    assert kinds(found) == {f"mlx5_{n}": ("InfiniBand", "Ethernet") for n in range(3)}
    assert (host.firmware / "0000:05:00.0.LINK_TYPE_P1").read_text() == "IB(1)\n"
