"""dcgmi and `nvidia-smi -q -x` of the racks in tests print what the tools print."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from gpufleet.catalog import load_catalog
from tests.captures import load_capture, read_capture

KIT = Path(__file__).resolve().parents[2] / "rack" / "kit"
RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import state
state.load_driver = lambda _: "580.159.03"
state.loaded_module = lambda _: "580.159.03"
state.library_version = lambda: "580.159.03"
module = __import__(sys.argv[2])
sys.exit(module.main(sys.argv[3:]))
"""


def described() -> dict[str, Any]:
    """The hardware of a DGX H100, as a rack has it."""
    sys.path.insert(0, str(KIT))
    try:
        describe = importlib.import_module("describe")
    finally:
        sys.path.remove(str(KIT))
    found: dict[str, Any] = describe.describe(
        {"name": "dgx01", "role": "gpu"}, load_catalog().system("dgx-h100")
    )
    return found


def run(folder: Path, hardware: dict[str, Any], module: str, *arguments: str) -> tuple[int, str]:
    """Exit code and output of a stand-in."""
    (folder / "state.json").write_text(json.dumps(hardware))
    settings = {"dcgm": {"version": "4.6.0", "watches": ["Memory", "NVLINK", "Driver"]}}
    (folder / "settings.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(KIT / "hardware"), module, *arguments],
        env={**os.environ, "RACK_HARDWARE": str(folder), "RACK_KERNEL": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def shape(value: Any) -> Any:
    """The names and kinds of a JSON value: of a list, those of its items together."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    if isinstance(value, list):
        merged: Any = {}
        for item in map(shape, value):
            merged = merged | item if isinstance(item, dict) and isinstance(merged, dict) else item
        return [merged]
    return type(value).__name__


def test_a_failed_diag_has_the_layout_of_the_genuine_one(tmp_path: Path) -> None:
    hardware = described()
    hardware["gpus"][2]["ecc"]["volatile"]["dram_uncorrected"] = 3
    code, text = run(tmp_path, hardware, "dcgmi", "4.6.0", "diag", "-r", "2", "-j")
    assert code == 226
    genuine = load_capture("dcgm/diag_gb10-level2-partial-skip_dcgm4.2.3.json")
    for category in genuine["DCGM Diagnostic"]["test_categories"]:
        for test in category["tests"]:
            test["test_summary"].pop("info", None)
    assert shape(json.loads(text)) == shape(genuine)


def test_a_healthy_node_passes_diag_and_health(tmp_path: Path) -> None:
    hardware = described()
    code, text = run(tmp_path, hardware, "dcgmi", "4.6.0", "diag", "-r", "3", "-j")
    assert code == 0 and '"Fail"' not in text and '"warnings"' not in text
    code, text = run(tmp_path, hardware, "dcgmi", "4.6.0", "health", "-c", "-j")
    assert code == 0 and json.loads(text)["body"] == {"Overall Health": {"value": "Healthy"}}


def paths(element: ElementTree.Element, above: str = "") -> set[str]:
    """The elements of a document, each by its place."""
    here = f"{above}/{element.tag}"
    return {here}.union(*(paths(child, here) for child in element))


def test_the_xml_has_only_elements_that_the_tool_has(tmp_path: Path) -> None:
    code, text = run(tmp_path, described(), "nvidia_smi", "-q", "-x")
    assert code == 0, text
    genuine = set().union(
        *(
            paths(ElementTree.fromstring(read_capture(name)))
            for name in (
                "nvidia-smi/q-x_a100-sxm4-40gb_570.148.08.xml",
                "nvidia-smi/q-x_b200_580.105.08.xml",
                "nvidia-smi/q-x_gb200_580.173.02.xml",
            )
        )
    )
    assert sorted(paths(ElementTree.fromstring(text)) - genuine) == []
