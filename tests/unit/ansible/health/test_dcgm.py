"""DCGM's reports: the severity of each code, what drains, and what is judged elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from health import dcgm, dcgm_codes
from health.main import main

from tests.captures import read_capture

from .conftest import Node

ROOT = Path(__file__).resolve().parents[4]


def report(*errors: tuple[str, str, str, str], overall: str = "Failure") -> str:
    """A report of `dcgmi health -c -j`: (entity, system, state, messages)."""
    gpus: dict[str, Any] = {}
    for entity, system, state, words in errors:
        entry = gpus.setdefault(entity, {"children": {"Errors": {"children": {}}}, "value": state})
        entry["children"]["Errors"]["children"][system] = {"overflow": [words], "value": state}
    body: dict[str, Any] = {"Overall Health": {"value": overall}}
    if gpus:
        body["GPU"] = {"children": gpus}
    return json.dumps({"body": body, "header": ["Health Monitor Report"]}, indent=3)


IMEX = (
    "IMEX daemon status is -3 (not READY) Check IMEX installation, configuration, domain and daemon status."
)
DBE = "Detected 2 volatile double-bit ECC error(s) in GPU 3. Drain the GPU and reset it or reboot the node."


def diag(*warnings: dict[str, Any], status: str = "Fail") -> str:
    """A report of `dcgmi diag -j` of DCGM 4 with one test on GPU 2."""
    result = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 2, "status": status}
    if warnings:
        result["warnings"] = list(warnings)
    test = {"name": "memory", "results": [result], "test_summary": {"status": status}}
    return json.dumps(
        {"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [test]}]}, "metadata": {}}
    )


def test_the_codes_are_those_of_the_version_in_the_lock() -> None:
    software = json.loads((ROOT / "gpufleet/catalog/data/software.json").read_text())
    text = json.dumps(software)
    assert f'"dcgm": "{dcgm_codes.VERSION}-' in text
    assert sorted(dcgm_codes.CODES) == list(range(133))
    assert {severity for _, severity in dcgm_codes.CODES.values()} <= set(dcgm_codes.SEVERITIES)
    assert {code for _, code in dcgm_codes.HEALTH_MESSAGES} <= set(dcgm_codes.CODES)


def test_a_healthy_node_and_one_without_dcgm_have_no_findings(node: Node) -> None:
    node.dcgm(report(overall="Healthy"))
    node.run()
    assert node.found == {}


def test_imex_is_no_fault_of_a_node_whose_nvlinks_end_inside(node: Node) -> None:
    node.dcgm(report(("0", "NVLINK system", "Failure", IMEX)))
    node.run()
    node.run()
    assert node.found == {}
    node.config["gpu"] = "GB200"
    node.run()
    assert node.found["dcgm_monitor"][0] == "advise"


def test_an_incident_to_isolate_drains_when_it_is_seen_twice(node: Node) -> None:
    node.dcgm(report(("3", "Memory system", "Failure", DBE)))
    node.run()
    assert node.found["dcgm"][0] == "advise"
    node.run()
    assert node.found["dcgm"][0] == "drain"
    assert "(code 4 VOLATILE_DBE_DETECTED, ISOLATE)" in node.found["dcgm"][1]


def test_dcgm_is_not_asked_before_and_after_jobs(node: Node) -> None:
    node.dcgm(report(overall="Healthy"))
    node.program("dcgmi", f"#!/bin/sh\ntouch {node.bin}/asked\n")
    node.run("prolog")
    node.run("epilog")
    assert not (node.bin / "asked").exists()
    node.run()
    assert (node.bin / "asked").exists()


@pytest.mark.parametrize(
    ("words", "check"),
    [
        ("Detected clocks event due to thermal violation in GPU 1. Check cooling.", "dcgm_monitor"),
        ("GPU 1's NvLink link 3 is currently down Check the NVLink.", None),
        ("Detected XID 63 for GPU 1", None),
        ("something that DCGM says from a later version on", "dcgm"),
    ],
)
def test_incidents_are_judged_by_their_code(node: Node, words: str, check: str | None) -> None:
    node.dcgm(report(("1", "Thermal system", "Failure", words)))
    node.run()
    assert set(node.found) == ({check} if check else set())


def test_a_failed_diag_drains_until_it_passes_at_that_level(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    node.slurm("IDLE+DRAIN", "maintenance")
    node.diag(diag({"error_category": 10, "error_id": 52, "error_severity": 2, "warning": "Found 3 faulty"}))
    assert main(["diag", "3"]) == 1
    assert "code 52 FAULTY_MEMORY, ISOLATE" in capsys.readouterr().out
    node.run()
    assert node.found["dcgm_diag"] == (
        "drain",
        "GPU 2 DCGM: memory: Found 3 faulty (code 52 FAULTY_MEMORY, ISOLATE)",
    )
    node.diag(diag(status="Pass"))
    assert main(["diag", "1"]) == 0
    node.run()
    assert "dcgm_diag" in node.found
    assert main(["diag", "3"]) == 0
    node.run()
    assert node.found == {}


def test_a_diag_that_loads_gpus_is_refused_while_the_node_takes_jobs(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    node.run()
    assert main(["diag", "2"]) == 2
    assert "drain" in capsys.readouterr().err
    assert main(["diag", "9"]) == 2


def test_a_diag_without_a_report_is_an_error_with_its_message(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    node.run()
    node.diag("Error: unable to establish a connection to the specified host: localhost")
    assert main(["diag", "1"]) == 1
    assert "unable to establish a connection" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["dcgm/diag_gb10-level1_dcgm4.2.3.json", "dcgm/diag_gb10-level2-partial-skip_dcgm4.2.3.json"]
)
def test_persistence_mode_that_is_off_is_configuration_and_a_skipped_test_is_nothing(name: str) -> None:
    (found,) = dcgm.parse_diag(read_capture(name))
    assert (found.subject, found.code, found.severity) == ("GPU 0", 29, "CONFIG")
    assert found.message.startswith("software: Persistence Mode: Persistence mode for GPU 0 is disabled.")


def test_the_layout_of_dcgm_3_is_read_as_well() -> None:
    result = {"gpu_id": "4", "status": "Fail", "warnings": [{"error_id": 29, "warning": "Persistence mode"}]}
    tests = [{"name": "Persistence Mode", "results": [result]}]
    text = json.dumps(
        {"DCGM GPU Diagnostic": {"test_categories": [{"category": "Deployment", "tests": tests}]}}
    )
    (found,) = dcgm.parse_diag(text)
    assert (found.subject, found.code, found.severity) == ("GPU 4", 29, "CONFIG")
    with pytest.raises(ValueError, match="no report"):
        dcgm.parse_diag("{}")
    with pytest.raises(ValueError, match="no report"):
        dcgm.parse_health("{}")
