"""The result of `gpufleet configure` as one page without scripts or external resources."""

from __future__ import annotations

from gpufleet.racks.configure.result import ConfigureResult
from gpufleet.racks.hostlists import fold_equal, fold_hosts
from gpufleet.report.pages import render_page


def configure_page(result: ConfigureResult) -> str:
    """Return the page. All text from hosts is escaped."""
    mode = "check of " if result.check else ""
    failed = len(result.failed_hosts)
    verdict = (
        f"{len(result.hosts)} hosts: {result.changed} tasks {'would change' if result.check else 'changed'}"
        f" something, {failed} hosts failed"
    )
    longest = max([*result.role_seconds.values(), 0.01])
    bars = [
        {"name": role, "seconds": f"{seconds:.1f}", "width": round(520 * seconds / longest, 1)}
        for role, seconds in result.role_seconds.items()
    ]
    return render_page(
        "configure.html.j2",
        title=f"gpufleet configure: {mode}{result.environment}",
        verdict=verdict,
        result=result,
        columns=("ok", "changed", "failed", "unreachable", "skipped"),
        failures=fold_equal(
            (item.host, (item.kind, item.role, item.task, item.message)) for item in result.failures
        ),
        notices=fold_equal((item.host, (item.role, item.message)) for item in result.notices),
        findings=fold_equal(
            (
                item.host,
                (item.check, item.status, item.measured, item.expected, f"{item.message}. {item.remedy}"),
            )
            for item in result.verdicts
            if item.status in ("fail", "warn")
        ),
        changes=[
            {
                "role": change.role,
                "task": change.task,
                "hosts": fold_hosts(change.hosts),
                "diffs": [
                    {"what": diff.what, "lines": [_line(line) for line in diff.text.splitlines()]}
                    for diff in change.diffs
                ],
            }
            for change in result.changes
        ],
        bars=bars,
        bars_text=", ".join(f"{bar['name']} {bar['seconds']}" for bar in bars),
    )


def _line(text: str) -> dict[str, str]:
    return {"kind": {"+": "add", "-": "del", "@": "dim"}.get(text[:1], ""), "text": text}
