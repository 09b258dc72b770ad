"""What every command writes with: one console for people, one JSON object for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape

from gpufleet.errors import GpufleetError, SpecError
from gpufleet.findings import Finding

# Without a terminal (a pipe, a CI log) there is no width to fit into, and 80 columns break tables.
_WIDTH_WITHOUT_TERMINAL = 120


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _WIDTH_WITHOUT_TERMINAL
    return Console(stderr=stderr, highlight=False, width=width)


out = _console(stderr=False)
err = _console(stderr=True)


def emit_json(document: Mapping[str, Any]) -> None:
    """Write one JSON object on one line of stdout: the last line of a command with --json."""
    sys.stdout.write(json.dumps(document, default=str, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def print_findings(findings: Iterable[Finding], console: Console = err) -> None:
    """Each finding as `file:line: severity: field: message` with its value and remedy below."""
    for finding in findings:
        color = "red" if finding.severity == "error" else "yellow"
        place = escape(f"{finding.file}:{finding.line}")
        console.print(
            f"[bold]{place}[/bold]: [{color}]{finding.severity}[/{color}]: "
            f"{escape(finding.field)}: {escape(finding.message)} [dim]({escape(finding.rule)})[/dim]",
            soft_wrap=True,
        )
        value = finding.to_json()["value"]
        if value not in (None, ""):
            console.print(f"    value:  {escape(str(value))}", soft_wrap=True)
        console.print(f"    remedy: {escape(finding.remedy)}", soft_wrap=True)


def print_error(error: GpufleetError) -> None:
    """The error for a person: findings first, then what is wrong and what to do."""
    if isinstance(error, SpecError):
        print_findings(error.findings)
    err.print(f"[red]error:[/red] {escape(error.message)}", soft_wrap=True)
    if error.remedy:
        err.print(f"  fix: {escape(error.remedy)}", soft_wrap=True)


def error_json(error: GpufleetError) -> dict[str, Any]:
    """The error for a program, under the same exit code."""
    document: dict[str, Any] = {
        "error": error.message,
        "remedy": error.remedy,
        "exit_code": int(error.exit_code),
    }
    if isinstance(error, SpecError):
        document["findings"] = [finding.to_json() for finding in error.findings]
    return document
