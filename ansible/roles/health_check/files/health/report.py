"""Results of a run: a JSON file, metrics for the node exporter's textfile collector, and the journal."""

from __future__ import annotations

import json
import syslog
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from health import memory as remembering
from health import sxid
from health.finding import ACTIONS, ADVISE, DRAIN, OFF, Finding
from health.memory import Memory

SCHEMA = 1


@dataclass
class Report:
    """One run. `drained` is whether this program has drained the node."""

    mode: str
    node: str
    time: float
    duration_s: float
    findings: list[Finding]
    drained: bool = False
    scheduler: str = ""
    xids: list[dict[str, Any]] = field(default_factory=list)
    rates: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def drains(self) -> list[Finding]:
        """Findings that drain."""
        return [item for item in self.findings if item.action == DRAIN]

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "schema": SCHEMA,
            "mode": self.mode,
            "node": self.node,
            "time": round(self.time, 3),
            "duration_s": round(self.duration_s, 3),
            "healthy": not self.drains,
            "drained": self.drained,
            "scheduler": self.scheduler,
            "findings": [item.as_json() for item in self.findings],
            "xids": self.xids,
            "port_error_rates_per_hour": self.rates,
        }


def label(text: str) -> str:
    """Escape a label value for Prometheus."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def metrics(report: Report, wanted: dict[str, str]) -> str:
    """The metrics, without disabled checks."""
    lines: list[str] = []

    def metric(name: str, text: str, samples: list[tuple[str, float]]) -> None:
        lines.append(f"# HELP gpufleet_health_{name} {text}")
        lines.append(f"# TYPE gpufleet_health_{name} gauge")
        lines.extend(f"gpufleet_health_{name}{labels} {value:g}" for labels, value in samples)

    actions = {**ACTIONS, **wanted}
    counts = {name: 0 for name, action in actions.items() if action != OFF}
    for finding in report.findings:
        counts[finding.check] += 1
    checks = [
        (f'{{check="{name}",action="{actions[name]}"}}', float(n)) for name, n in sorted(counts.items())
    ]
    rates = [
        (f'{{device="{label(device)}",counter="{label(name)}"}}', rate)
        for device, values in sorted(report.rates.items())
        for name, rate in sorted(values.items())
    ]
    xids: dict[tuple[int, str], float] = {}
    sxids: dict[tuple[int, str], float] = {}
    for event in report.xids:
        key = (event["xid"], event["action"])
        kind = sxids if event["xid"] >= sxid.FIRST else xids
        kind[key] = kind.get(key, 0) + event["count"]
    metric("healthy", "Whether nothing keeps jobs away from this node.", [("", float(not report.drains))])
    metric("drained", "Whether the health check has drained this node.", [("", float(report.drained))])
    metric("findings", "Findings of the last run, by check.", checks)
    metric(
        "xids",
        "Xids that count, by number and by the action that they ask for.",
        [(f'{{xid="{xid}",action="{action}"}}', n) for (xid, action), n in sorted(xids.items())],
    )
    metric(
        "sxids",
        "SXids of NVSwitches that count, by number and by the action that they ask for.",
        [(f'{{sxid="{number}",action="{action}"}}', n) for (number, action), n in sorted(sxids.items())],
    )
    metric("port_errors_per_hour", "Growth of a port's error counters since the run before.", rates)
    metric("run_duration_seconds", "How long the last run took.", [("", round(report.duration_s, 3))])
    lines.append("# HELP gpufleet_health_run_timestamp_seconds When the last run started.")
    lines.append("# TYPE gpufleet_health_run_timestamp_seconds gauge")
    lines.append(f"gpufleet_health_run_timestamp_seconds {report.time:.3f}")
    return "\n".join(lines) + "\n"


def publish(report: Report, state: Path, textfiles: Path, wanted: dict[str, str]) -> None:
    """Write the files. The drain comes first, since a full disk must not prevent it."""
    problems = []
    for path, text in (
        (state / "findings.json", json.dumps(report.as_json(), indent=1) + "\n"),
        (textfiles / "gpufleet_health.prom", metrics(report, wanted)),
    ):
        try:
            remembering.write(path, text)
        except OSError as error:
            problems.append(f"{path}: {error.strerror}")
    for problem in problems:
        log(f"cannot write {problem}", syslog.LOG_WARNING)


def log_findings(report: Report, memory: Memory) -> None:
    """Log new and resolved findings to the journal; a lasting fault is logged once."""
    levels = {DRAIN: syslog.LOG_ERR, ADVISE: syslog.LOG_WARNING}
    now = {f"{item.check}: {item.short}": item for item in report.findings}
    for text, item in now.items():
        if text not in memory.told:
            log(f"{text}. {item.remedy}".rstrip(". "), levels.get(item.action, syslog.LOG_WARNING))
    for text in memory.told:
        if text not in now:
            log(f"over: {text}", syslog.LOG_NOTICE)
    memory.told = list(now)


def log(text: str, level: int = syslog.LOG_NOTICE) -> None:
    """Log one line to the journal."""
    syslog.openlog("gpufleet-health", syslog.LOG_PID, syslog.LOG_DAEMON)
    syslog.syslog(level, text)
