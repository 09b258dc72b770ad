"""Health by Redfish, compared with what real controllers say."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.rack.plugins.module_utils.redfish_health import faults

from tests.captures import load_capture


def test_a_leak_is_critical() -> None:
    (found,) = faults(load_capture("redfish/leak-detector_leak.json"))
    assert (found["health"], found["message"]) == ("Critical", "LeakDetected")
    assert found["name"] == "Chassis 0 LeakDetector 1 Manifold"
    assert faults(load_capture("redfish/leak-detectors_collection.json")) == []


@pytest.mark.parametrize(
    "name",
    [
        "redfish/dell_power.json",
        "redfish/hpe_Chassis_1_Power.json",
        "redfish/supermicro_x10_Chassis_1_Power.json",
        "redfish/supermicro-gb300_chassis0-fans-power-thermal.json",
        "redfish/supermicro-gb300_gpu-processor-and-nvlink.json",
        "redfish/supermicro-gb300_gpu0-sensors-environment.json",
    ],
)
def test_healthy_controllers_have_no_faults(name: str) -> None:
    value: dict[str, Any] = load_capture(name)
    bodies = value.values() if all(key.startswith("/redfish/") for key in value) else [value]
    assert [found for body in bodies for found in faults(body)] == []
