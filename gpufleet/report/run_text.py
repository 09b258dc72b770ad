"""How a run ended: as text with what to do next, and as the stable JSON object."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape

from gpufleet.engine.api import SECRET, RunResult

_WORDS = {
    "create": ("created", "to create"),
    "update": ("updated", "to update"),
    "replace": ("replaced", "to replace"),
    "delete": ("deleted", "to delete"),
}


def result_to_json(result: RunResult, cloud: str) -> dict[str, Any]:
    """The object that a run with --json ends with; `engine` to `duration_s` are the stable contract."""
    return {
        "engine": result.engine,
        "cloud": cloud,
        "verb": result.verb,
        "ok": result.ok,
        "changes": result.changes.to_json(),
        "duration_s": round(result.duration_s, 3),
        "outputs": dict(result.outputs),
        "failures": [
            {
                "urn": event.urn,
                "type": event.type,
                "name": event.name,
                "status": event.status,
                "error": event.error,
            }
            for event in result.failures
        ],
        "diagnostics": [
            {"severity": item.severity, "message": item.message, "urn": item.urn}
            for item in result.diagnostics
            if item.severity in {"warning", "error"}
        ],
        "violations": [
            {
                "pack": item.pack,
                "policy": item.policy,
                "enforcement": item.enforcement,
                "message": item.message,
                "urn": item.urn,
            }
            for item in result.violations
        ],
    }


def print_result(result: RunResult, environment: str, cloud: str, console: Console, errors: Console) -> None:
    """Changes, failures, outputs, and the next command."""
    console.print(summary_line(result))
    failed = [event for event in result.failures if event.status == "failed"]
    skipped = [event for event in result.failures if event.status == "skipped"]
    for event in failed:
        errors.print(
            f"[red]failed[/red] {escape(event.name)} ({event.type}): {escape(event.error)}", soft_wrap=True
        )
    if skipped:
        names = ", ".join(event.name for event in skipped[:8]) + (", ..." if len(skipped) > 8 else "")
        errors.print(
            f"[yellow]skipped[/yellow] {len(skipped)} that depend on it: {escape(names)}", soft_wrap=True
        )
    if result.verb == "up" and result.ok:
        _print_outputs(result, console)
    for line in _next_steps(result, environment, cloud):
        console.print(line, soft_wrap=True)


def summary_line(result: RunResult) -> str:
    """`up: 12 created, 3 updated, 80 unchanged in 4.2 s`."""
    foreseen = 1 if result.verb == "preview" else 0
    counts = result.changes.to_json()
    parts = [f"{counts[key]} {words[foreseen]}" for key, words in _WORDS.items() if counts[key]]
    parts.append(f"{counts['same']} unchanged")
    color = "green" if result.ok else "red"
    return f"[bold {color}]{result.verb}[/bold {color}]: {', '.join(parts)} in {result.duration_s:.1f} s"


def _print_outputs(result: RunResult, console: Console) -> None:
    if not result.outputs:
        return
    console.print("outputs:")
    for key, value in sorted(result.outputs.items()):
        _print_output(key, value, console, indent=1)


def _print_output(key: str, value: Any, console: Console, indent: int) -> None:
    pad = "  " * indent
    if isinstance(value, dict) and value:
        console.print(f"{pad}{key}:", markup=False)
        for inner, item in value.items():
            _print_output(str(inner), item, console, indent + 1)
    elif isinstance(value, list):
        console.print(f"{pad}{key}: {', '.join(str(item) for item in value)}", markup=False, soft_wrap=True)
    else:
        shown = "[secret; `gpufleet outputs --show-secrets` prints it]" if value == SECRET else value
        console.print(f"{pad}{key}: {shown}", markup=False, soft_wrap=True)


def _next_steps(result: RunResult, environment: str, cloud: str) -> list[str]:
    suffix = f" --cloud {cloud}" if cloud == "sandbox" and environment != "sandbox" else ""
    if not result.ok:
        return [
            (
                "nothing is lost: what exists is in the state. Mend the cause, then run the same "
                "command again; it goes on from here"
            )
        ]
    if result.verb == "preview":
        return [f"next: gpufleet up {environment}{suffix}"] if result.changes.total else ["nothing to do"]
    if result.verb == "up":
        return [
            (
                f"next: gpufleet outputs {environment}{suffix}   gpufleet inventory {environment}{suffix}"
                f"   gpufleet destroy {environment}{suffix}"
            )
        ]
    return []
