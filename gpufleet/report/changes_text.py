"""Changes on a terminal: one line per resource, and a table of counts per type."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpufleet.engine.api import Changes, Op, ResourceEvent
from gpufleet.report.sites import SiteChanges
from gpufleet.report.tables import print_table

GLYPHS = {
    Op.CREATE: ("+", "green"),
    Op.UPDATE: ("~", "yellow"),
    Op.REPLACE: ("+-", "magenta"),
    Op.CREATE_REPLACEMENT: ("++", "magenta"),
    Op.DELETE_REPLACED: ("--", "magenta"),
    Op.DELETE: ("-", "red"),
    Op.READ: (">", "cyan"),
    Op.REFRESH: ("^", "cyan"),
    Op.SAME: (" ", "dim"),
}
KINDS = (Op.CREATE, Op.UPDATE, Op.REPLACE, Op.DELETE)
_SHOWN_KEYS = 6
_SHOWN_TYPES = 6
_SHOWN_CHANGES = 20
_URN = re.compile(r"urn:pulumi:\S+::([^\s:]+)")


def describe(event: ResourceEvent, depth: int = 0) -> Text:
    """Return one resource event as a line: operation, type, name, and what differs."""
    glyph, color = GLYPHS[event.op]
    line = Text()
    line.append(f"{glyph:>2} {'  ' * depth}", style=color)
    line.append(short_type(event.type), style="dim")
    line.append(f"  {event.name}")
    keys = event.replace_keys or event.diff
    if keys and event.op is not Op.CREATE:
        more = ", ..." if len(keys) > _SHOWN_KEYS else ""
        line.append(f"  [{', '.join(keys[:_SHOWN_KEYS])}{more}]", style=color)
    if event.status == "failed":
        line.append(f"  failed: {names_for_urns(event.error)}", style="bold red")
    elif event.status == "skipped":
        line.append(f"  skipped: {names_for_urns(event.error)}", style="yellow")
    elif event.status == "done" and event.elapsed_s >= 1:
        line.append(f"  {event.elapsed_s:.0f}s", style="dim")
    return line


def short_type(token: str) -> str:
    """Return `aws:ec2/vpc:Vpc` as `aws:ec2:Vpc`, as Pulumi's own display shortens it."""
    parts = token.split(":")
    if len(parts) == 3 and "/" in parts[1]:
        return f"{parts[0]}:{parts[1].split('/')[0]}:{parts[2]}"
    return token


def names_for_urns(message: str) -> str:
    """Replace URNs in an engine's message with the names of the resources."""
    return _URN.sub(r"\1", message)


def format_changes(changes: Changes, *, foreseen: bool) -> str:
    """Return `12 to create, 3 to update` (`12 created, ...` once done); empty without changes."""
    words = {"create": "created", "update": "updated", "replace": "replaced", "delete": "deleted"}
    counts = changes.to_json()
    return ", ".join(
        f"{counts[key]} {f'to {key}' if foreseen else done}" for key, done in words.items() if counts[key]
    )


def print_site_changes(group: SiteChanges, heading: str, console: Console, *, listed: bool = True) -> None:
    """Print one site of a preview: counts per type, then each change, children below their parents.

    Unless `listed`, creations are counted on a line, and a limited number of other changes is listed.
    """
    console.print()
    console.print(
        Text(heading, style="bold").append(
            f"  {format_changes(group.changes, foreseen=True)}", style="not bold"
        ),
        soft_wrap=True,
    )
    if not listed:
        _print_short(group.events, console)
        return
    print_table(_type_table(group.events), console)
    for event, depth in _as_tree(group.events):
        console.print(describe(event, depth), soft_wrap=True)


def _print_short(events: Sequence[ResourceEvent], console: Console) -> None:
    created = Counter(short_type(event.type) for event in events if event.op is Op.CREATE)
    if created:
        most = created.most_common(_SHOWN_TYPES)
        counts = [f"{count} {name}" for name, count in most]
        left = len(created) - len(most)
        others_created = created.total() - sum(count for _, count in most)
        more = [f"{others_created} of {left} more types"] if left else []
        line = Text(" + ", style=GLYPHS[Op.CREATE][1]).append(", ".join([*counts, *more]), style="default")
        console.print(line, soft_wrap=True)
    others = [event for event in events if event.op is not Op.CREATE]
    for event in others[:_SHOWN_CHANGES]:
        console.print(describe(event), soft_wrap=True)
    if len(others) > _SHOWN_CHANGES:
        console.print(Text(f"   and {len(others) - _SHOWN_CHANGES} more changes"), soft_wrap=True)


def _type_table(events: Sequence[ResourceEvent]) -> Table:
    counts: dict[str, Counter[Op]] = {}
    for event in events:
        counts.setdefault(short_type(event.type), Counter())[event.op] += 1
    kinds = [kind for kind in KINDS if any(row[kind] for row in counts.values())]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=True)
    table.add_column("type", overflow="fold")
    for kind in kinds:
        table.add_column(str(kind), justify="right", style=GLYPHS[kind][1], no_wrap=True)
    for name, row in sorted(counts.items()):
        table.add_row(name, *(str(row[kind] or "") for kind in kinds))
    return table


def _as_tree(events: Iterable[ResourceEvent]) -> list[tuple[ResourceEvent, int]]:
    """Return the events in order, each followed by its children one level deeper."""
    own = {event.urn for event in events}
    children: dict[str, list[ResourceEvent]] = {}
    for event in events:
        children.setdefault(event.parent if event.parent in own else "", []).append(event)
    found: list[tuple[ResourceEvent, int]] = []
    waiting = [(event, 0) for event in reversed(children.get("", []))]
    while waiting:
        event, depth = waiting.pop()
        found.append((event, depth))
        waiting += [(child, depth + 1) for child in reversed(children.pop(event.urn, []))]
    return found
