"""Management controllers of a fleet file: each must be identifiable."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checks.fleets import GONE, Judge

SITE = "onprem.0"
PLAIN: dict[str, Any] = {"user": "admin"}
EVERYTHING = PLAIN | {
    "ca": "/etc/ssl/bmc.pem",
    "serials": {"dgx001": "1660224000001"},
    "certificates": {"dgx001": "ab" * 32},
    "firmware": {"HostBMC_0": "24.09.17"},
    "power_cap": "9 kW",
    "boot_order": ["disk", "pxe"],
    "bios": {"SriovEnable": "Enabled"},
}


@pytest.mark.parametrize("found", [PLAIN, EVERYTHING])
def test_bmc_model_of_a_dgx_comes_from_its_name(judge: Judge, found: dict[str, Any]) -> None:
    assert judge({f"{SITE}.management": found}).rules == set()


def test_management_section_without_bmcs_is_refused(judge: Judge) -> None:
    finding = judge({f"{SITE}.management": PLAIN, f"{SITE}.bmc": GONE}).only("management-identity")
    assert "but no controllers" in finding.message


def test_baseboard_in_another_vendors_server_needs_a_model_or_all_serials(judge: Judge) -> None:
    changes: dict[str, Any] = {f"{SITE}.system": "hgx-h100", f"{SITE}.fabric.rails": ["mlx5_0"]}
    finding = judge(changes | {f"{SITE}.management": EVERYTHING}).only("management-identity")
    assert "write the `model`" in finding.remedy
    named = judge(changes | {f"{SITE}.management": PLAIN | {"model": "SYS-821GE-TNHR"}})
    assert "management-identity" not in named.rules
    serials = {f"dgx{number:03}": str(number) for number in range(1, 9)}
    every = judge(changes | {f"{SITE}.management": PLAIN | {"serials": serials}})
    assert "management-identity" not in every.rules


@pytest.mark.parametrize(
    ("more", "field", "message"),
    [
        ({"serials": {"dgx001": "1", "dgx002": "1"}}, "serials.dgx002", "have the same serial number"),
        ({"serials": {"dgx099": "1"}}, "serials.dgx099", "is not a GPU node"),
        ({"certificates": {"ctl01": "ab" * 32}}, "certificates.ctl01", "is not a GPU node"),
    ],
)
def test_serial_numbers_belong_to_one_node_each(
    judge: Judge, more: dict[str, Any], field: str, message: str
) -> None:
    finding = judge({f"{SITE}.management": PLAIN | more}).only("management-identity")
    assert finding.field == f"onprem[0].management.{field}" and message in finding.message


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"protocol": "ipmi", "bios": {"a": "b"}}, "bios"),
        ({"protocol": "ipmi", "ca": "/etc/ssl/bmc.pem"}, "ca"),
        ({"protocol": "ipmi", "firmware": {"HostBIOS_0": "1"}}, "firmware"),
        ({"protocol": "ipmi", "boot_order": ["disk", "pxe"]}, "boot_order"),
        ({"protocol": "ipmi", "boot_order": ["http"]}, "boot_order"),
        ({"boot_order": ["disk", "disk"]}, "boot_order"),
        ({"power_cap": "2 kW"}, "power_cap"),
    ],
)
def test_unsupported_bmc_setting_is_refused(judge: Judge, more: dict[str, Any], field: str) -> None:
    finding = judge({f"{SITE}.management": PLAIN | more}).only("management-settings")
    assert finding.field == f"onprem[0].management.{field}" and finding.severity == "error"


@pytest.mark.parametrize(
    "more",
    [
        {"protocol": "ipmi", "boot_order": ["disk"], "firmware": {"bmc": "1"}},
        {"power_cap": "2.8 kW"},
        {"power_cap": "10.2 kW"},
    ],
)
def test_settings_at_the_limits_pass(judge: Judge, more: dict[str, Any]) -> None:
    assert judge({f"{SITE}.management": PLAIN | more}).rules == set()


def test_power_cap_below_half_the_gpus_draw_is_refused(judge: Judge) -> None:
    finding = judge({f"{SITE}.management": PLAIN | {"power_cap": "2.799 kW"}}).only("management-settings")
    assert finding.message == "2.799 kW is less than half the draw of the 8 GPUs of a dgx-h100 (5.6 kW)"


@pytest.mark.parametrize("system", ["dgx-b300", "dgx-z9"])
def test_power_cap_of_a_system_of_unknown_power_passes(judge: Judge, system: str) -> None:
    reported = judge({f"{SITE}.management": PLAIN | {"power_cap": "12 kW"}, f"{SITE}.system": system})
    assert reported.of("management-settings") == []


def test_site_without_management_settings_passes(judge: Judge) -> None:
    assert judge().rules == set()


def test_power_cap_above_the_maximum_power_is_a_warning(judge: Judge) -> None:
    (finding,) = judge({f"{SITE}.management": PLAIN | {"power_cap": "12 kW"}}).of("management-settings")
    assert finding.severity == "warning" and "10.2 kW" in finding.message
