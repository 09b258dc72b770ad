"""Management controllers: identity first, foreign ones refused, only differences changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.captures import load_capture
from tests.redfish_server import BIOS, CHASSIS, PASSWORD, SYSTEM, USER, Service
from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]
SECRET = "GPUFLEET_SECRET_BMC_PASSWORD_DC1"
module = load("bmc")


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv(SECRET, PASSWORD)
    made = Service(tmp_path)
    yield made
    made.close()


def arguments(service: Service, **changes: Any) -> dict[str, Any]:
    return {
        "node": "dgx001",
        "address": "127.0.0.1",
        "port": service.port,
        "protocol": "redfish",
        "user": USER,
        "password_from": SECRET,
        "certificate": service.fingerprint,
        "model": "DGXH100",
        "serials": {"dgx001": "1660224000001", "dgx002": "1660224000002"},
    } | changes


EVERYTHING: dict[str, Any] = {
    "firmware": {"HostBMC_0": "24.09.17", "HostBIOS_0": "1.7.0"},
    "power_cap_w": 9000,
    "boot_order": ["disk", "pxe"],
    "bios": {"SriovEnable": "Enabled", "NumaNodes": "8", "QuietBoot": "true"},
}


def test_check_mode_matches_the_first_run_and_a_second_run_changes_nothing(
    service: Service, run: Run
) -> None:
    checked = run(module, check=True, **arguments(service, **EVERYTHING))
    assert checked["changed"] and service.changes == []

    first = run(module, **arguments(service, **EVERYTHING))

    assert first["diff"] == checked["diff"]
    assert first["diff"]["after"].splitlines() == [
        "power cap: none -> 9000 W",
        "boot order: Boot0003 Boot0001 Boot0002 -> Boot0001 Boot0003 Boot0002",
        "BIOS, from the next boot on: SriovEnable: Disabled -> Enabled",
        "BIOS, from the next boot on: NumaNodes: 4 -> 8",
    ]
    limit = service.resources[f"{CHASSIS}/EnvironmentMetrics"]["PowerLimitWatts"]
    assert limit == {"SetPoint": 9000, "ControlMode": "Automatic"}
    assert service.resources[SYSTEM]["Boot"]["BootOrder"] == ["Boot0001", "Boot0003", "Boot0002"]
    # A number stays a number, and current values are not staged.
    assert service.resources[f"{BIOS}/SD"]["Attributes"] == {"SriovEnable": "Enabled", "NumaNodes": 8}
    assert service.resources[BIOS]["Attributes"]["SriovEnable"] == "Disabled"

    done = len(service.changes)
    second = run(module, **arguments(service, **EVERYTHING))
    assert not second["changed"] and len(service.changes) == done
    assert second["waits_for_reboot"] == ["SriovEnable", "NumaNodes"]
    service.boot()
    assert run(module, **arguments(service, **EVERYTHING))["waits_for_reboot"] == []


@pytest.mark.parametrize(
    ("changes", "printed"),
    [
        ({"model": "DGXB200"}, "shows model HGX H100 8 GPU, serial number 1570000000001; model DGXH100"),
        ({"serials": {"dgx001": "1"}}, "instead of model DGXH100, serial number 1"),
        ({"serials": {"dgx001": "1", "dgx002": "1660224000001"}}, "is the controller of dgx002"),
        ({"model": "", "serials": {}}, "Cannot check whether"),
    ],
)
def test_bmc_of_another_machine_is_refused_before_any_change(
    service: Service, run: Run, changes: dict[str, Any], printed: str
) -> None:
    for more in (EVERYTHING, {"only": "cycle"}):
        answer = run(module, **arguments(service, **more) | changes)
        assert answer["failed"] and printed in answer["msg"]
    assert service.changes == [] and service.resets == []


def test_model_names_match_in_any_spelling(service: Service, run: Run) -> None:
    service.resources[SYSTEM]["Model"] = "DGX H100"
    assert not run(module, **arguments(service))["changed"]


def test_model_and_serial_come_from_the_chassis_if_it_holds_one_system(service: Service, run: Run) -> None:
    service.resources[SYSTEM] |= {"SerialNumber": None, "Model": ""}
    held = [{"@odata.id": SYSTEM}, {"@odata.id": "/redfish/v1/Systems/HGX_Baseboard_0"}]
    shown = {"Model": "DGXH100", "SerialNumber": "1660224000001"}
    service.resources[CHASSIS] |= shown | {"Links": {"ComputerSystems": held}}
    assert "model none, serial number none instead of" in run(module, **arguments(service))["msg"]
    del held[1]
    answer = run(module, **arguments(service))
    assert (answer["found"]["model"], answer["found"]["serial"]) == ("DGXH100", "1660224000001")


def test_bmc_with_another_certificate_never_gets_the_password(service: Service, run: Run) -> None:
    answer = run(module, **arguments(service, certificate="0" * 64))
    assert f"SHA-256 {service.fingerprint} instead of" in answer["msg"]
    untrusted = run(module, **arguments(service, certificate=""))
    assert "is not to be trusted" in untrusted["msg"]
    assert service.requests == []
    # A CA that is configured is trusted.
    signed = arguments(service, certificate="", ca=str(service.pem.parent / "bmc.crt"))
    assert not run(module, **signed).get("failed")


def test_wrong_or_missing_password_is_reported_without_its_value(
    service: Service, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET, "wrong-Passw0rd")
    answer = run(module, **arguments(service))
    assert "refuses the user (HTTP 401)" in answer["msg"] and "wrong-Passw0rd" not in json.dumps(answer)
    monkeypatch.delenv(SECRET)
    assert f"{SECRET} is not set" in run(module, **arguments(service))["msg"]


def test_older_bmc_uses_power_control_and_a_boot_override(service: Service, run: Run) -> None:
    service.resources[CHASSIS] = {"@odata.id": CHASSIS, "Power": {"@odata.id": f"{CHASSIS}/Power"}}
    service.resources[f"{CHASSIS}/Power"] = {
        "@odata.type": "#Power.v1_5_2.Power",
        "PowerControl": [{"MemberId": "0", "PowerLimit": {"LimitInWatts": None}}],
    }
    service.resources[SYSTEM]["Boot"] = {
        "BootSourceOverrideTarget": "Pxe",
        "BootSourceOverrideEnabled": "Once",
    }
    wanted = {"power_cap_w": 8000, "boot_order": ["pxe"]}
    assert run(module, **arguments(service, **wanted))["changed"]
    control = service.resources[f"{CHASSIS}/Power"]["PowerControl"][0]
    assert control == {"MemberId": "0", "PowerLimit": {"LimitInWatts": 8000}}
    assert service.resources[SYSTEM]["Boot"]["BootSourceOverrideEnabled"] == "Continuous"
    assert not run(module, **arguments(service, **wanted))["changed"]


@pytest.mark.parametrize(
    ("wanted", "printed"),
    [
        ({"bios": {"SriovEnabel": "Enabled"}}, "has no attribute SriovEnabel"),
        ({"boot_order": ["cd"], "power_cap_w": 9000}, "no boot option of the kind cd"),
    ],
)
def test_unsupported_setting_is_refused_before_any_change(
    service: Service, run: Run, wanted: dict[str, Any], printed: str
) -> None:
    assert printed in run(module, **arguments(service, **wanted))["msg"]
    assert service.changes == []


def test_node_without_a_power_cap_is_refused_with_an_alternative(service: Service, run: Run) -> None:
    service.resources[CHASSIS] = {"@odata.id": CHASSIS}
    assert "offers no cap" in run(module, **arguments(service, power_cap_w=9000))["msg"]


def test_refusal_of_the_bmc_is_reported_in_its_own_text(service: Service, run: Run) -> None:
    service.resources[SYSTEM]["@odata.type"] = "#Other.v1_0_0.Other"
    answer = run(module, **arguments(service, boot_order=["disk"]))
    assert "HTTP 400 The property Boot is a read-only property" in answer["msg"]


def test_reference_to_another_host_is_not_followed(service: Service, run: Run) -> None:
    service.resources["/redfish/v1/"]["Systems"] = {"@odata.id": "//evil.example.com/redfish"}
    assert "outside of Redfish" in run(module, **arguments(service))["msg"]


def test_measuring_reports_a_refusal_and_changes_nothing(service: Service, run: Run) -> None:
    state = run(module, **arguments(service, only="measure", **EVERYTHING))["measurements"]["bmc_state"]
    reported = json.loads(state["stdout"])
    assert reported["firmware"] == {"HostBMC_0": "24.09.17", "HostBIOS_0": "1.6.7"}
    assert reported["power_cap_w"] is None and reported["waits_for_reboot"] == ["SriovEnable", "NumaNodes"]
    other = run(module, **arguments(service, only="measure", model="DGXB200"))
    assert other["measurements"]["bmc_state"]["rc"] == 1
    assert service.changes == []


def test_power_is_cycled_once_and_not_in_check_mode(service: Service, run: Run) -> None:
    assert run(module, check=True, **arguments(service, only="cycle"))["changed"]
    assert service.resets == []
    assert run(module, **arguments(service, only="cycle"))["reset"] == "PowerCycle"
    service.resources[SYSTEM]["PowerState"] = "Off"
    assert run(module, **arguments(service, only="cycle"))["reset"] == "On"
    assert service.resets == ["PowerCycle", "On"]


def test_reset_types_are_read_from_the_action_info(service: Service, run: Run) -> None:
    action = service.resources[SYSTEM]["Actions"]["#ComputerSystem.Reset"]
    del action["ResetType@Redfish.AllowableValues"]
    assert "offers none of PowerCycle" in run(module, **arguments(service, only="cycle"))["msg"]
    action["@Redfish.ActionInfo"] = f"{SYSTEM}/ResetActionInfo"
    service.resources[f"{SYSTEM}/ResetActionInfo"] = {
        "Parameters": [
            {"Name": "Other", "AllowableValues": ["ForceRestart"]},
            {"Name": "ResetType", "DataType": "String", "AllowableValues": ["On", "PowerCycle"]},
        ]
    }
    assert run(module, **arguments(service, only="cycle"))["reset"] == "PowerCycle"


def test_staged_bios_settings_take_effect_where_they_need_an_apply_time(service: Service, run: Run) -> None:
    service.resources[BIOS]["@Redfish.Settings"]["SupportedApplyTimes"] = [
        "OnReset",
        "AtMaintenanceWindowStart",
    ]
    wanted = arguments(service, bios={"SriovEnable": "Enabled"})
    assert run(module, **wanted)["changed"]
    service.boot()
    assert run(module, **wanted)["waits_for_reboot"] == []


@pytest.mark.parametrize("mode", ["Disabled", "Manual", "Override"])
def test_cap_whose_control_does_not_work_is_no_cap(service: Service, run: Run, mode: str) -> None:
    limit = {"SetPoint": 9000, "ControlMode": mode}
    service.resources[f"{CHASSIS}/EnvironmentMetrics"]["PowerLimitWatts"] = limit
    assert run(module, **arguments(service, power_cap_w=9000))["changed"]
    assert limit["ControlMode"] == "Automatic"


def test_measuring_reports_what_a_capped_node_draws(service: Service, run: Run) -> None:
    path = f"{CHASSIS}/Power"
    service.resources[CHASSIS] = {"@odata.id": CHASSIS, "Power": {"@odata.id": path}}
    service.resources[path] = load_capture("redfish/dell_power.json")
    wanted = arguments(service, only="measure", power_cap_w=348)
    found = json.loads(run(module, **wanted)["measurements"]["bmc_state"]["stdout"])
    assert (found["power_cap_w"], found["power_w"]) == (348, 426)


def test_firmware_name_of_several_components_is_refused_and_their_ids_are_listed(
    service: Service, run: Run
) -> None:
    inventory = "/redfish/v1/UpdateService/FirmwareInventory"
    for name in ("HostBMC_0", "HostBIOS_0"):
        service.resources[f"{inventory}/{name}"]["Name"] = "Software Inventory"
    answer = run(module, **arguments(service, firmware={"Software Inventory": "24.09.17"}))
    assert "2 components with the name 'Software Inventory'" in answer["msg"]
    assert "HostBIOS_0, HostBMC_0" in answer["msg"]
    service.resources[f"{inventory}/HostBMC_0"]["Name"] = "BMC"
    found = run(module, **arguments(service, firmware={"BMC": "24.09.17", "HostBIOS_0": "1.6.7"}))["found"]
    assert found["firmware"] == {"BMC": "24.09.17", "HostBIOS_0": "1.6.7"}


def test_health_of_parts_that_are_not_inspected_is_reported(service: Service, run: Run) -> None:
    status = {"Health": "OK", "HealthRollup": "Critical", "State": "Enabled"}
    service.resources[SYSTEM] |= {"Name": "DGX", "Status": status}
    state = run(module, **arguments(service, only="measure"))["measurements"]["bmc_state"]
    assert json.loads(state["stdout"])["health"] == [
        {"name": "DGX", "health": "Critical", "message": "a part of it"}
    ]


def test_unreachable_bmc_is_reported(service: Service, run: Run) -> None:
    service.close()
    assert "does not answer" in run(module, **arguments(service))["msg"]


IPMITOOL = """\
env | grep ^IPMITOOL_PASSWORD= >>{folder}/environment
case "$*" in
*"fru print"*) printf ' Product Name          : DGXH100\\n Product Serial        : 1660224000001\\n';;
*"mc info"*) echo 'Firmware Revision         : 24.09';;
*"power status"*) echo 'Chassis Power is on';;
*"set_limit limit"*) echo "$*" | sed 's/.*limit //' >{folder}/limit;;
*"dcmi power activate"*) touch {folder}/active;;
*"get_limit"*)
  [ -e {folder}/active ] && echo 'Current Limit State: Power Limit Active' || echo 'No Active Power Limit'
  echo "    Power Limit:         $(cat {folder}/limit 2>/dev/null || echo 0)     Watts";;
*"bootdev"*) echo "$*" | sed 's/.*bootdev //' >{folder}/bootdev;;
*"bootparam get 5"*)
  if [ -e {folder}/bootdev ]; then
    printf '   - Options apply to all future boots\\n   - Boot Device Selector : Force PXE\\n'
  else
    printf '   - Options apply to only next boot\\n   - Boot Device Selector : No override\\n'
  fi;;
*"power cycle"*) echo 'Chassis Power Control: Cycle';;
*) echo "Invalid command: $*" >&2; exit 1;;
esac
"""


def test_ipmi_applies_the_same_settings_and_no_argument_has_the_password(
    programs: Programs, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A stand-in for ipmitool that records arguments and environment."""
    monkeypatch.setenv(SECRET, PASSWORD)
    programs.add("ipmitool", IPMITOOL.replace("{folder}", str(tmp_path)))
    given: dict[str, Any] = {
        "node": "dgx001",
        "address": "bmc001",
        "port": 623,
        "protocol": "ipmi",
        "user": USER,
        "password_from": SECRET,
        "model": "DGXH100",
    }
    wanted = given | {"power_cap_w": 9000, "boot_order": ["pxe"], "firmware": {"bmc": "24.09"}}
    first = run(module, **wanted)
    assert first["diff"]["after"].splitlines() == ["power cap: none -> 9000 W", "boot order: none -> pxe"]
    assert (tmp_path / "bootdev").read_text() == "pxe options=persistent,efiboot\n"
    assert first["found"]["firmware"] == {"bmc": "24.09"}
    assert not run(module, **wanted)["changed"]
    assert run(module, **given, only="cycle")["reset"] == "cycle"
    assert "not the controller of" in run(module, **given | {"model": "DGXB200"}, power_cap_w=1)["msg"]
    called = programs.called("ipmitool")
    assert called and all(" -I lanplus -C 17 -H bmc001 -p 623 -U admin -E " in line for line in called)
    assert PASSWORD not in "".join(called)
    assert set((tmp_path / "environment").read_text().split()) == {f"IPMITOOL_PASSWORD={PASSWORD}"}


def test_missing_ipmitool_is_reported_with_the_package(
    programs: Programs, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET, PASSWORD)
    monkeypatch.setenv("PATH", str(programs.folder))
    answer = run(
        module,
        **{"node": "a", "address": "b", "port": 623, "protocol": "ipmi", "user": USER, "model": "X"},
        password_from=SECRET,
    )
    assert "ipmitool is not installed" in answer["msg"]


def test_measuring_reports_a_coolant_leak_and_other_parts_that_are_not_ok(service: Service, run: Run) -> None:
    thermal, leaks = f"{CHASSIS}/ThermalSubsystem", f"{CHASSIS}/ThermalSubsystem/LeakDetection"
    state = run(module, **arguments(service, only="measure"))["measurements"]["bmc_state"]
    assert json.loads(state["stdout"])["health"] == []
    service.resources[CHASSIS] |= {
        "ThermalSubsystem": {"@odata.id": thermal},
        "Power": {"@odata.id": f"{CHASSIS}/Power"},
        "PowerSubsystem": {"@odata.id": f"{CHASSIS}/not-there"},
    }
    service.resources[thermal] = {"@odata.id": thermal, "LeakDetection": {"@odata.id": leaks}}
    service.resources[leaks] = {"LeakDetectors": {"@odata.id": f"{leaks}/LeakDetectors"}}
    members = [{"@odata.id": f"{leaks}/LeakDetectors/{number}"} for number in (0, 1)]
    service.resources[f"{leaks}/LeakDetectors"] = {"Members": members}
    for number, detector, health in ((0, "OK", "OK"), (1, "LeakDetected", "OK")):
        service.resources[f"{leaks}/LeakDetectors/{number}"] = {
            "Name": f"Leak {number}",
            "DetectorState": detector,
            "Status": {"Health": health, "State": "Enabled"},
        }
    service.resources[f"{CHASSIS}/Power"] = {
        "PowerSupplies": [
            {"Name": "PSU 1", "Status": {"Health": "Warning", "State": "Enabled"}},
            {"Name": "PSU 2", "Status": {"Health": "Critical", "State": "Absent"}},
        ]
    }
    state = run(module, **arguments(service, only="measure"))["measurements"]["bmc_state"]
    assert json.loads(state["stdout"])["health"] == [
        {"name": "PSU 1", "health": "Warning", "message": ""},
        {"name": "Leak 1", "health": "Critical", "message": "LeakDetected"},
    ]
    assert service.changes == []
