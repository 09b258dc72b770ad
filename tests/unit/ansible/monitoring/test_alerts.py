"""Every alert fires when it should, with the right text, and not otherwise: tested with promtool."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from . import (
    alert_cases,
    alert_cases_of_etcd,
    alert_cases_of_fabric,
    alert_cases_of_hosts,
    alert_cases_of_kubelets,
    alert_cases_of_kubernetes,
)
from .alert_cases import Case

ROOT = Path(__file__).resolve().parents[4]
RULES = ROOT / "ansible" / "roles" / "prometheus" / "files" / "rules"
ALWAYS = {"Watchdog"}
CASES = (
    alert_cases.CASES
    + alert_cases_of_fabric.CASES
    + alert_cases_of_hosts.CASES
    + alert_cases_of_kubernetes.CASES
    + alert_cases_of_kubelets.CASES
    + alert_cases_of_etcd.CASES
)


@functools.cache
def alerts() -> dict[str, dict[str, Any]]:
    """All alerts of the role, by name."""
    groups = [
        group for path in sorted(RULES.glob("*.yml")) for group in yaml.safe_load(path.read_text())["groups"]
    ]
    found = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    assert len({rule["alert"] for rule in found}) == len(found)
    return {rule["alert"]: rule for rule in found}


def records(expression: str) -> list[dict[str, Any]]:
    """The recording rules that an expression needs, in their order."""
    (group,) = yaml.safe_load((RULES / "recording.yml").read_text())["groups"]
    named, unread = set(), [expression]
    while unread:
        read = set(re.findall(r"gpufleet:[\w:]+", unread.pop())) - named
        named |= read
        unread += [rule["expr"] for rule in group["rules"] if rule["record"] in read]
    return [rule for rule in group["rules"] if rule["record"] in named]


def judge(tests: list[tuple[Case, dict[str, Any]]], folder: Path) -> str:
    """Output of promtool for tests; empty if all pass.

    Each case has a file of its own with its alert and the recording rules that it needs: promtool evaluates
    all rules of a file every minute of every test. What is about a day is evaluated every twenty minutes.
    """
    files = []
    for number, (case, test) in enumerate(tests):
        rule = alerts()[case.alert]
        rules = folder / f"{number}.rules.yml"
        groups = [{"name": "recording", "rules": records(rule["expr"])}, {"name": "alert", "rules": [rule]}]
        rules.write_text(yaml.safe_dump({"groups": groups}, sort_keys=False))
        files.append(folder / f"{number}.test.yml")
        day = int(case.at[:-1]) > 12 and case.at.endswith("h")
        content = {
            "rule_files": [str(rules)],
            "evaluation_interval": "20m" if day else "1m",
            # The order is random otherwise, and a rule would read a record that is too old.
            "group_eval_order": [group["name"] for group in groups],
            "tests": [test],
        }
        files[-1].write_text(yaml.safe_dump(content, sort_keys=False))
    done = subprocess.run(
        ["promtool", "test", "rules", *files], capture_output=True, text=True, check=False, timeout=120
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def written(series: Mapping[str, str], case: Case, expected: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [{"eval_time": case.at, "alertname": case.alert, "exp_alerts": expected}],
    }


def expected(case: Case) -> list[dict[str, Any]]:
    rule = alerts()[case.alert]
    annotations = {"summary": case.summary, "remedy": rule["annotations"]["remedy"]}
    return [{"exp_labels": dict(case.labels) | rule["labels"], "exp_annotations": annotations}]


def metrics(series: Mapping[str, str]) -> set[str]:
    return {name.partition("{")[0] for name in series}


def test_every_alert_has_series_that_fire_and_series_that_do_not() -> None:
    assert {case.alert for case in CASES} == set(alerts()) - ALWAYS
    for case in CASES:
        assert case.fires and case.quiet, case.alert
        # A missing alert proves nothing without series.
        assert metrics(case.fires) == metrics(case.quiet), case.alert
        assert case.fires != case.quiet


def test_every_alert_fires_with_labels_and_description(tmp_path: Path) -> None:
    assert judge([(case, written(case.fires, case, expected(case))) for case in CASES], tmp_path) == ""


def test_the_watchdog_fires_without_any_series(tmp_path: Path) -> None:
    case = Case("Watchdog", "1m", {}, {}, {}, "Prometheus and Alertmanager deliver alerts")
    assert judge([(case, written({}, case, expected(case)))], tmp_path) == ""


def test_no_alert_fires_on_healthy_series(tmp_path: Path) -> None:
    silent = [(case, series) for case in CASES for series in (case.quiet, *case.near)]
    assert judge([(case, written(series, case, [])) for case, series in silent], tmp_path) == ""


def test_promtool_finds_alerts_that_wrongly_fire_or_do_not_fire(tmp_path: Path) -> None:
    case = CASES[0]
    assert "GpuXid" in judge([(case, written(case.quiet, case, expected(case)))], tmp_path)
    assert "GpuXid" in judge([(case, written(case.fires, case, []))], tmp_path)


@pytest.mark.parametrize("rule", alerts().values(), ids=lambda rule: str(rule["alert"]))
def test_every_alert_has_a_severity_a_summary_and_a_remedy(rule: dict[str, Any]) -> None:
    severities = ("none",) if rule["alert"] in ALWAYS else ("warning", "critical")
    assert set(rule["labels"]) == {"severity"} and rule["labels"]["severity"] in severities
    assert set(rule["annotations"]) == {"summary", "remedy"}
    assert "{{" not in rule["annotations"]["remedy"]


def selectors(expression: str) -> Iterator[str]:
    """Names of series that an expression reads."""
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]', "", expression)
    bare = re.sub(r"\b(by|on|ignoring|without|group_left|group_right)\s*\([^)]*\)", "", bare)
    yield from (
        name for name in re.findall(r"[a-zA-Z_][\w:]+(?!\w*\s*\()", bare) if "_" in name or ":" in name
    )


def test_alerts_on_dcgm_read_fields_that_the_exporter_serves() -> None:
    counters = (ROOT / "ansible/roles/dcgm/templates/counters.csv.j2").read_text()
    served = set(re.findall(r"^(DCGM_\w+),", counters, re.M))
    read = {
        name
        for path in RULES.glob("*.yml")
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
        for name in selectors(rule["expr"])
        if name.startswith("DCGM_")
    }
    assert read and read <= served
