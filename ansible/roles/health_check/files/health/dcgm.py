"""DCGM's reports: incidents of `dcgmi health`, and the results of `dcgmi diag` that were kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from health.config import Config
from health.dcgm_codes import CODES, HEALTH_MESSAGES, SEVERITIES, severity_of
from health.finding import Finding
from health.readings import Readings

# After these a node runs no jobs until what they name is repaired, examined or reset.
DRAINING = ("ISOLATE", "TRIAGE", "RESET", "UNKNOWN")
REMEDY = {
    "ISOLATE": "drain the node and run `dcgmi diag -r 3`; exchange what fails again",
    "TRIAGE": "run `dcgmi diag -r 3` on the drained node, and NVIDIA's field diagnostics if it fails",
    "RESET": "reset the GPU (nvidia-smi --gpu-reset) or reboot the node",
    "UNKNOWN": "see `dcgmi health -c` and NVIDIA's DCGM documentation",
    "CONFIG": "correct the node's configuration",
    "MONITOR": "watch it; see `dcgmi health -c`",
    "NONE": "",
}
# Other checks of this program judge these: pending repairs, Xids, the driver's recovery action, and NVLinks
# by the number that the GPU has.
JUDGED_ELSEWHERE = frozenset({6, 14, 83, 85, 101, 125, 126, 127, 128})
IMEX = 122
LEVELS = {"1": 300.0, "2": 900.0, "3": 3600.0, "4": 7200.0}
"""Levels of `dcgmi diag` -> the most seconds that a run takes."""
KEPT = "dcgm_diag_{}.json"


@dataclass(frozen=True)
class Incident:
    """One thing that DCGM reports. `code` is -1 where no code of this version fits the message."""

    subject: str
    code: int
    severity: str
    message: str

    @property
    def name(self) -> str:
        """DCGM's name of the code."""
        return CODES[self.code][0] if self.code in CODES else "no known code"


def parse_health(text: str) -> list[Incident]:
    """Return the incidents of `dcgmi health -c -j`. Raise ValueError for anything else.

    The report has a tree: entity group, entity, `Errors`, system; messages of one system are joined.
    """
    body = _object(text).get("body")
    if not isinstance(body, dict) or "Overall Health" not in body:
        raise ValueError("no report of dcgmi health")
    found = []
    for group, entities in body.items():
        for number, entity in _children(entities):
            for system, error in _children(dict(_children(entity)).get("Errors", {})):
                words = " ".join([str(part) for part in error.get("overflow", [])])
                found += list(_incidents(f"{group} {number}", system, str(error.get("value", "")), words))
    return found


def _incidents(subject: str, system: str, state: str, words: str) -> Iterator[Incident]:
    message = " ".join(words.split()) or f"{system}: {state}"
    codes = list(dict.fromkeys(code for pattern, code in HEALTH_MESSAGES if pattern.search(message)))
    for code in codes:
        yield Incident(subject, code, severity_of(code), message)
    if not codes and state != "Healthy":
        yield Incident(subject, -1, "MONITOR" if state == "Warning" else "UNKNOWN", message)


def parse_diag(text: str) -> list[Incident]:
    """Return what failed in `dcgmi diag -j` of DCGM 3 and 4. Raise ValueError for anything else."""
    values = _object(text)
    root = next((value for name, value in values.items() if name.startswith("DCGM") and "Diag" in name), None)
    if not isinstance(root, dict):
        raise ValueError("no report of dcgmi diag")
    found = []
    if root.get("runtime_error"):
        found.append(Incident("", -1, "UNKNOWN", f"dcgmi diag failed: {root['runtime_error']}"))
    for category in root.get("test_categories", []):
        for test in category.get("tests", []):
            for result in test.get("results", []):
                found += list(_failures(str(test.get("name", "")), result))
    return found


def _failures(test: str, result: dict[str, Any]) -> Iterator[Incident]:
    if str(result.get("status", "")).lower() not in ("fail", "warn"):
        return
    group, number = result.get("entity_group", "GPU"), result.get("entity_id", result.get("gpu_id", ""))
    subject = f"{group} {number}".strip() if str(number) else ""
    warnings = result.get("warnings") or [{}]
    for warning in warnings if isinstance(warnings, list) else [{"warning": warnings}]:
        values = warning if isinstance(warning, dict) else {"warning": warning}
        code = values.get("error_id", -1)
        place = values.get("error_severity", -1)
        severity = SEVERITIES[place] if place in range(len(SEVERITIES)) else severity_of(code)
        words = " ".join(str(values.get("warning", "")).split())
        yield Incident(subject, code, severity, f"{test}: {words or result['status']}")


def _object(text: str) -> dict[str, Any]:
    found = json.loads(text[text.find("{") :] if "{" in text else text)
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found


def _children(node: Any) -> list[tuple[str, Any]]:
    children = node.get("children", {}) if isinstance(node, dict) else {}
    return list(children.items()) if isinstance(children, dict) else []


def check_health(config: Config, readings: Readings) -> list[Finding]:
    """Judge the incidents of `dcgmi health`. A node without DCGM, or without its watches, has none."""
    if not readings.ok("dcgm"):
        return []
    try:
        incidents = parse_health(readings.done["dcgm"].out)
    except ValueError as error:
        message = f"dcgmi health is not readable: {error}"
        return [Finding("dcgm_monitor", "", message, "run dcgmi health -c -j")]
    # IMEX shares memory between nodes. DCGM 4 reports it on nodes whose NVLinks end inside as well.
    shared = config.gpu.startswith("GB")
    return [
        _finding("dcgm", item, advise=item.code == IMEX)
        for item in incidents
        if item.code not in JUDGED_ELSEWHERE and (item.code != IMEX or shared)
    ]


def _finding(check: str, item: Incident, *, advise: bool = False) -> Finding:
    drains = item.severity in DRAINING and not advise
    code = f"code {item.code} {item.name}" if item.code >= 0 else item.name
    message = f"DCGM: {item.message[:120].rstrip('. ')} ({code}, {item.severity})"
    name = check if drains else f"{check}_monitor"
    return Finding(name, item.subject, message, REMEDY[item.severity], confirmed=check != "dcgm")


def check_diag(config: Config) -> list[Finding]:
    """Judge the results of `health-check diag` that were kept: those of a level until it passes again."""
    found = []
    for level in LEVELS:
        path = config.path(config.state_directory) / KEPT.format(level)
        try:
            incidents = parse_diag(path.read_text(encoding="utf-8"))
        except OSError:
            continue
        except ValueError as error:
            incidents = [Incident("", -1, "UNKNOWN", f"{path.name} is not readable: {error}")]
        found += [_finding("dcgm_diag", item) for item in incidents]
    return found


def keep_diag(folder: Path, level: str, text: str) -> list[Incident]:
    """Keep the result of a level, drop those that it replaces, and return what failed.

    Raise ValueError for a text that is no report, OSError where it cannot be written.
    """
    incidents = parse_diag(text)
    drains = [item for item in incidents if item.severity in DRAINING]
    for each in LEVELS:
        if each <= level and not drains:
            (folder / KEPT.format(each)).unlink(missing_ok=True)
    if incidents:
        (folder / KEPT.format(level)).write_text(text, encoding="utf-8")
    return incidents


def message_of(text: str) -> str:
    """Return the last words of a run that printed no report."""
    lines = [line for line in text.splitlines() if re.search(r"\w", line)]
    return lines[-1].strip()[:200] if lines else "it printed nothing"
