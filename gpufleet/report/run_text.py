"""The end of a run: as text with the next steps, and as the stable JSON object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from gpufleet.engine.api import SECRET, RunResult
from gpufleet.report.changes_text import format_changes, names_for_urns
from gpufleet.report.sites import SiteChanges

_SHOWN_NAMES = 8
_LONGEST_OUTPUT = 110


def result_to_json(result: RunResult, cloud: str) -> dict[str, Any]:
    """Return the final object of a run with --json; `engine` to `duration_s` are the stable contract."""
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
                "severity": item.severity,
                "message": item.message,
                "urn": item.urn,
            }
            for item in result.violations
        ],
    }


def sites_to_json(groups: Sequence[SiteChanges]) -> list[dict[str, Any]]:
    """Return the changes of each site; `site` is null outside any site. Unchanged ones are only counted."""
    return [
        {
            "site": group.site,
            "changes": group.changes.to_json(),
            "resources": [
                {
                    "urn": event.urn,
                    "type": event.type,
                    "name": event.name,
                    "op": str(event.op),
                    "diff": list(event.diff),
                    "replace_keys": list(event.replace_keys),
                }
                for event in group.events
            ],
        }
        for group in groups
    ]


def print_result(result: RunResult, console: Console, errors: Console) -> None:
    """Print failures, skipped resources, and counts of changes."""
    skipped = [event for event in result.failures if event.status == "skipped"]
    for event in result.failures:
        if event.status == "failed":
            errors.print(
                f"[red]failed[/red] {escape(event.name)} ({escape(event.type)}): "
                f"{escape(names_for_urns(event.error))}",
                soft_wrap=True,
            )
    if skipped:
        why = "had not begun" if result.interrupted else "need what failed"
        names = ", ".join(event.name for event in skipped[:_SHOWN_NAMES])
        more = f" and {len(skipped) - _SHOWN_NAMES} more" if len(skipped) > _SHOWN_NAMES else ""
        errors.print(
            f"[yellow]skipped[/yellow] {len(skipped)} that {why}: {escape(names)}{more}",
            soft_wrap=True,
        )
    console.print(summary_line(result), soft_wrap=True)


def summary_line(result: RunResult) -> Text:
    """Return `up: 12 created, 3 updated, 80 unchanged, 1 failed in 4.2 s`."""
    parts = [
        format_changes(result.changes, foreseen=result.verb == "preview"),
        f"{result.changes.same} unchanged",
    ]
    for status in ("failed", "skipped"):
        count = sum(1 for event in result.failures if event.status == status)
        parts.append(f"{count} {status}" if count else "")
    line = Text(result.verb, style="bold green" if result.ok else "bold red")
    words = ", ".join(part for part in parts if part)
    return line.append(f": {words} in {result.duration_s:.1f} s", style="not bold default")


def print_outputs(outputs: Mapping[str, Any], console: Console) -> None:
    """Print the stack's outputs, nested ones indented; a secret is replaced by how to show it."""
    for key, value in sorted(outputs.items()):
        _print_output(key, value, console, indent=1)


def missing_nodes(outputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each order of a site that has fewer nodes than it asks for, with the reasons."""
    for site, value in sorted(outputs.items()):
        orders = value.get("ordered_capacity") if isinstance(value, Mapping) else None
        for name, order in sorted((orders or {}).items()):
            # Numbers are floating point in Pulumi's protocol; unknown before the first `up`.
            missing = order.get("missing")
            if isinstance(missing, int | float) and missing > 0:
                wanted, why = int(order["nodes"]), "; ".join(order["reasons"])
                yield (
                    f"{site}/{name}: {wanted - int(missing)} of {wanted} nodes: {why}."
                    " The next `up` asks for the others again"
                )


def _print_output(key: str, value: Any, console: Console, indent: int) -> None:
    pad = "  " * indent
    short = f"{pad}{key}: {_scalar(value)}"
    if isinstance(value, Mapping) and value and (_is_nested(value) or len(short) > _LONGEST_OUTPUT):
        console.print(f"{pad}{key}:", markup=False)
        for inner, item in sorted(value.items()):
            _print_output(str(inner), item, console, indent + 1)
        return
    console.print(short, markup=False, soft_wrap=True)


def _is_nested(value: Mapping[str, Any]) -> bool:
    return any(isinstance(item, Mapping) and item for item in value.values())


def _scalar(value: Any) -> str:
    if value == SECRET:
        return "[secret; `gpufleet outputs --show-secrets` prints it]"
    if isinstance(value, list):
        return ", ".join(map(_scalar, value)) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_scalar(item)}" for key, item in sorted(value.items())) or "none"
    return "none" if value is None else str(value)


def next_steps(result: RunResult) -> list[str]:
    """Return what to do next, in lines; commands in backticks are completed when they are printed."""
    if not result.ok and result.verb == "preview":
        refused = any(each.enforcement == "mandatory" for each in result.violations)
        # The rules that refuse it are printed last, each with its remedy.
        return ["nothing was changed" if refused else "nothing was changed. Fix the cause and preview again"]
    if not result.ok:
        kept = "nothing is lost: the state contains what exists"
        return [f"{kept}. Fix the cause, then run the same command again; it continues from here"]
    if result.verb == "preview":
        return ["next: `gpufleet up`" if result.changes.total else "nothing to do"]
    if result.verb == "up":
        return ["next: `gpufleet outputs`, `gpufleet inventory` or `gpufleet destroy`"]
    if result.verb == "refresh" and result.changes.total:
        return [
            f"drift: {result.changes.total} resources differed from the state, which is now updated",
            "next: `gpufleet preview` shows what `up` would correct",
        ]
    return []
