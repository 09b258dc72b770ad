"""Management controllers by third-party programs: OpenStack's Redfish emulator, OpenIPMI's simulator.

What these do not model (power caps, firmware over Redfish, staged BIOS settings, ETags, lasting boot devices
by IPMI) is in test_bmc.py, against a service and an ipmitool of our own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.judges import ipmi_simulator, redfish_emulator
from tests.judges.ipmi_simulator import SUITE_3, Simulator
from tests.judges.redfish_emulator import ATTRIBUTES, NODE, Emulator
from tests.redfish_server import PASSWORD, USER
from tests.unit.ansible.collection.conftest import Programs, load

pytestmark = pytest.mark.daemon

Run = Callable[..., dict[str, Any]]
SECRET = "GPUFLEET_SECRET_BMC_PASSWORD_DC1"
SYSTEM = f"/Systems/{NODE['uuid']}"
RESET = f"POST /redfish/v1{SYSTEM}/Actions/ComputerSystem.Reset"
module = load("bmc")


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET, PASSWORD)


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    made = Emulator(tmp_path_factory.mktemp("redfish"))
    yield made
    made.close()


@pytest.fixture
def simulator(tmp_path: Path, programs: Programs, monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulator]:
    programs.add("ipmitool", SUITE_3)
    monkeypatch.setenv(SECRET, ipmi_simulator.PASSWORD)
    (tmp_path / "ipmi").mkdir()
    made = Simulator(tmp_path / "ipmi")
    yield made
    made.close()


def by_redfish(emulator: Emulator, **changes: Any) -> dict[str, Any]:
    return {
        "node": "dgx001",
        "address": "127.0.0.1",
        "port": emulator.port,
        "protocol": "redfish",
        "user": USER,
        "password_from": SECRET,
        "certificate": emulator.fingerprint,
        "model": redfish_emulator.MODEL,
        "serials": {"dgx001": redfish_emulator.SERIAL, "dgx002": "437XR1138R3"},
    } | changes


def by_ipmi(simulator: Simulator, **changes: Any) -> dict[str, Any]:
    return {
        "node": "dgx001",
        "address": "127.0.0.1",
        "port": simulator.port,
        "protocol": "ipmi",
        "user": USER,
        "password_from": SECRET,
        "model": ipmi_simulator.MODEL,
        "serials": {"dgx001": ipmi_simulator.SERIAL},
    } | changes


@pytest.mark.parametrize(
    ("changes", "secret", "reported"),
    [
        ({"model": "DGXH100"}, PASSWORD, "it shows model 3500RX, serial number 437XR1138R2 instead of"),
        ({"serials": {"dgx002": redfish_emulator.SERIAL}}, PASSWORD, "is the controller of dgx002"),
        ({"certificate": "0" * 64}, PASSWORD, "nothing was sent to it"),
        ({"user": "nobody"}, PASSWORD, "refuses the user (HTTP 401)"),
        ({}, "wrong-Passw0rd", "refuses the user (HTTP 401)"),
    ],
)
def test_redfish_of_another_node_or_with_wrong_credentials_changes_nothing(
    emulator: Emulator,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    secret: str,
    reported: str,
) -> None:
    monkeypatch.setenv(SECRET, secret)
    before = emulator.changes
    for asked in ({"boot_order": ["cd"], "bios": {"BootMode": "Legacy"}}, {"only": "cycle"}):
        answer = run(module, **by_redfish(emulator, **asked) | changes)
        assert reported in answer["msg"]
        assert secret not in json.dumps(answer)
    assert emulator.changes == before


@pytest.mark.fresh
def test_redfish_changes_only_settings_that_differ(emulator: Emulator, run: Run) -> None:
    wanted = by_redfish(emulator, boot_order=["pxe"], bios=ATTRIBUTES | {"ProcTurboMode": "Disabled"})
    before = len(emulator.changes)
    checked = run(module, check=True, **wanted)
    assert len(emulator.changes) == before

    first = run(module, **wanted)

    assert first["diff"] == checked["diff"]
    assert first["diff"]["after"].splitlines() == [
        "boot order: Hdd -> Pxe",
        "BIOS, from the next boot on: ProcTurboMode: Enabled -> Disabled",
    ]
    assert first["found"]["power"] == "On"
    assert (first["found"]["model"], first["found"]["serial"]) == ("3500RX", "437XR1138R2")
    assert emulator.changes[before:] == [
        f"PATCH /redfish/v1{SYSTEM}",
        f"PATCH /redfish/v1{SYSTEM}/BIOS/Settings",
    ]
    assert emulator.get(SYSTEM)["Boot"]["BootSourceOverrideTarget"] == "Pxe"
    assert emulator.get(f"{SYSTEM}/BIOS")["Attributes"] == ATTRIBUTES | {"ProcTurboMode": "Disabled"}
    assert not run(module, **wanted)["changed"]
    assert len(emulator.changes) == before + 2


@pytest.mark.parametrize(
    ("asked", "reported"),
    [
        ({"boot_order": ["usb"]}, "has no boot option of the kind usb; it has Cd, Hdd, Pxe, UefiHttp"),
        ({"bios": {"ProcTurbo": "Disabled"}}, "has no attribute ProcTurbo"),
        ({"power_cap_w": 9000}, "offers no cap"),
    ],
)
def test_redfish_without_a_requested_feature_is_refused_before_any_change(
    emulator: Emulator, run: Run, asked: dict[str, Any], reported: str
) -> None:
    before = emulator.changes
    both = {"boot_order": ["cd"], "bios": {"EmbeddedSata": "Ahci"}} | asked
    assert reported in run(module, **by_redfish(emulator, **both))["msg"]
    assert emulator.changes == before


def test_redfish_cycles_the_power_with_a_supported_reset_type(emulator: Emulator, run: Run) -> None:
    before = len(emulator.changes)
    assert run(module, check=True, **by_redfish(emulator, only="cycle"))["changed"]
    assert len(emulator.changes) == before
    # It has no PowerCycle.
    assert run(module, **by_redfish(emulator, only="cycle"))["reset"] == "ForceRestart"
    assert emulator.changes[before:] == [RESET]
    assert emulator.get(SYSTEM)["PowerState"] == "On"


def test_ipmi_reports_the_identity_and_sets_the_boot_device(
    simulator: Simulator, run: Run, programs: Programs
) -> None:
    wanted = by_ipmi(simulator, boot_order=["pxe"], firmware={"bmc": ipmi_simulator.FIRMWARE})
    checked = run(module, check=True, **wanted)
    assert simulator.changes == []
    found = checked["found"]
    assert (found["model"], found["serial"], found["power"]) == ("DGXH100", "1660224000001", "On")
    assert found["firmware"] == {"bmc": "24.09"}
    assert run(module, **wanted)["diff"] == checked["diff"]
    assert simulator.changes == ["set boot pxe"]
    called = programs.called("ipmitool")
    assert called and all(f" -C 17 -H 127.0.0.1 -p {simulator.port} -U {USER} -E " in line for line in called)
    assert ipmi_simulator.PASSWORD not in "".join(called)


@pytest.mark.parametrize(
    ("changes", "secret", "reported"),
    [
        (
            {"model": "DGXB200"},
            ipmi_simulator.PASSWORD,
            "it shows model DGXH100, serial number 1660224000001 instead of",
        ),
        (
            {"serials": {"dgx002": ipmi_simulator.SERIAL}},
            ipmi_simulator.PASSWORD,
            "is the controller of dgx002",
        ),
        ({}, "wrong-Passw0rd", "Check its address, `management.user` and the secret"),
    ],
)
def test_ipmi_of_another_node_or_with_a_wrong_password_changes_nothing(
    simulator: Simulator,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    secret: str,
    reported: str,
) -> None:
    monkeypatch.setenv(SECRET, secret)
    for asked in ({"boot_order": ["pxe"]}, {"only": "cycle"}):
        answer = run(module, **by_ipmi(simulator, **asked) | changes)
        assert reported in answer["msg"]
        assert secret not in json.dumps(answer)
    assert simulator.changes == []


def test_ipmi_without_dcmi_refuses_a_power_cap_before_any_change(simulator: Simulator, run: Run) -> None:
    answer = run(module, **by_ipmi(simulator, power_cap_w=9000, boot_order=["pxe"]))
    assert "offers no cap" in answer["msg"]
    assert simulator.changes == []


def test_ipmi_with_only_older_ciphers_is_refused(simulator: Simulator, run: Run, programs: Programs) -> None:
    programs.add("ipmitool", 'exec /usr/bin/ipmitool "$@"')
    assert "invalid authentication algorithm" in run(module, **by_ipmi(simulator))["msg"]


def test_ipmi_switches_the_power_off_and_on(simulator: Simulator, run: Run) -> None:
    assert run(module, check=True, **by_ipmi(simulator, only="cycle"))["changed"]
    assert simulator.changes == []
    assert run(module, **by_ipmi(simulator, only="cycle"))["reset"] == "cycle"
    simulator.wait_for("set power 0", "set power 1")
    assert simulator.power
    simulator.power = False
    assert run(module, **by_ipmi(simulator, only="cycle"))["reset"] == "on"
    simulator.wait_for("set power 0", "set power 1", "set power 1")
