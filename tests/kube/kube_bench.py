"""kube-bench, which judges hosts of a cluster by the CIS Kubernetes Benchmark, and the controls not followed.

The reasons are in ADR 32. A control that is neither passed nor listed there is a fault.
"""

from __future__ import annotations

import functools
import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kube.cluster_programs import benchmarks, program
from tests.programs import ROOT

BENCHMARK = "cis-1.12"
"""The newest one that kube-bench has; written for Kubernetes 1.32 to 1.34."""
MEMBER, NODE, CLUSTER = ("master", "etcd", "controlplane", "node"), ("node",), ("policies",)
"""Targets of kube-bench: for a control plane member, for a node, and for the cluster on one member."""
ADR = ROOT / "docs" / "adr" / "0032-hardening-of-kubernetes.md"
_ROW = re.compile(r"^\| (\d+(?:\.\d+)+) \| (\S.*?) \|$", re.MULTILINE)

Shell = Callable[[str], str]
"""Runs a script as root on a host, and returns its output."""


@dataclass(frozen=True, order=True)
class Control:
    """A control that a host does not pass: its number, what kube-bench says of it, and its text."""

    number: str
    status: str
    text: str


def exceptions() -> dict[str, str]:
    """The reason for each control that is not followed, by its number."""
    found = _ROW.findall(ADR.read_text(encoding="utf-8"))
    numbers = [number for number, _ in found]
    assert len(numbers) == len(set(numbers)), "a control is listed twice"
    return dict(found)


def install(folder: Path) -> None:
    """Put kube-bench and its benchmark into a folder, which hosts have at any path."""
    (folder / "cfg").mkdir(parents=True)
    shutil.copy(program("kube-bench"), folder)
    shutil.copy(benchmarks() / "config.yaml", folder / "cfg")
    shutil.copytree(benchmarks() / BENCHMARK, folder / "cfg" / BENCHMARK)


def judge(shell: Shell, folder: str, targets: Iterable[str]) -> tuple[list[Control], set[str]]:
    """Run kube-bench, in `folder` of a host. Returns controls that are not passed, and the numbers of all."""
    words = [f"{folder}/kube-bench", "run", "--targets", ",".join(targets), "--benchmark", BENCHMARK]
    words += ["--config-dir", f"{folder}/cfg", "--config", f"{folder}/cfg/config.yaml", "--json"]
    report = json.loads(shell(f"KUBECONFIG=/etc/kubernetes/admin.conf {shlex.join(words)} 2>/dev/null"))
    results = [
        result for part in report["Controls"] for group in part["tests"] for result in group["results"]
    ]
    assert results, "kube-bench judged nothing"
    found = [
        Control(result["test_number"], result["status"], _said(result))
        for result in results
        if result["status"] != "PASS"
    ]
    return found, {result["test_number"] for result in results}


def _said(result: dict[str, Any]) -> str:
    text = f"{result['test_desc']}: {result.get('actual_value') or result.get('reason') or ''}"
    return " ".join(text.split())[:400]


def without_reason(found: Iterable[Control]) -> list[str]:
    """Controls that are not passed and that the ADR does not list."""
    reasons = exceptions()
    return [
        f"{item.number} {item.status} {item.text}"
        for item in sorted(set(found))
        if item.number not in reasons
    ]


def judge_cluster(
    shell: Callable[[str, str], str], members: Sequence[str], nodes: Sequence[str], folder: str
) -> list[str]:
    """Controls of a cluster that are neither passed nor listed.

    Each host has kube-bench in `folder`; `shell` runs a script on a host. The first member needs jq.
    """
    asked = [(host, MEMBER) for host in members] + [(host, NODE) for host in nodes] + [(members[0], CLUSTER)]
    found: list[Control] = []
    for host, targets in asked:
        found += judge(functools.partial(shell, host), folder, targets)[0]
    return without_reason(found)
