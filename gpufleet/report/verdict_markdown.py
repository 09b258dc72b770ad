"""The verdict as one comment of a pull request that is updated: short on top, details folded.

Names, tags and messages come from the author of the change. They are escaped, so that none becomes HTML, a
link, a mention, an issue number or a quick action of GitHub or GitLab.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpufleet.comment_form import ADVICE, EDITS, FAILS, JUDGED, escaped, heading, marker
from gpufleet.report import verdict_words as words
from gpufleet.verdict.models import Verdict
from gpufleet.verdict.racks import LICENCES

LONGEST = 60_000
"""Maximum characters of a comment; GitHub rejects more than 65,536."""
_ROWS = (200, 100, 50, 20, 10, 5, 2, 0)


def verdict_to_markdown(verdict: Verdict) -> str:
    """Return the comment, at most `LONGEST` characters: long lists are cut, failures last."""
    for rows in _ROWS:
        text = _text(verdict, rows)
        if len(text) <= LONGEST:
            return text
    return _text(verdict, 0, longest=80)[:LONGEST]


def escape(text: str, longest: int = 500) -> str:
    """Escape text of a user, so that it is shown unchanged and has no effect."""
    return escaped(words.one_line(text, longest))


def _text(verdict: Verdict, rows: int, longest: int = 500) -> str:
    sections: list[str] = [marker(verdict.environment), *_summary(verdict)]
    sections += _violated(verdict, max(rows, 5), longest)
    for section in (_cost, _changes, _racks, _rules, _exemptions):
        sections += section(verdict, rows)
    return "\n".join(sections) + "\n"


def _summary(verdict: Verdict) -> list[str]:
    costs = verdict.costs
    lines = [
        heading(verdict.environment, passed=verdict.passed),
        "",
        f"{words.headline(verdict)}, {escape(words.against(verdict))}",
        "",
    ]
    rows = [["USD a month", *words.total_amounts(costs)]]
    if costs.upfront or costs.upfront_before:
        rows.append(["upfront, once", words.amount(costs.upfront_before), words.amount(costs.upfront), ""])
    if costs.budget is not None:
        rows.append(["budget", "", words.amount(costs.budget), ""])
    lines += _table(["", "before", "after", "at maximum"], rows)
    lines += ["", f"Resources: {words.changes_summary(verdict)}."]
    if verdict.base is not None:
        lines[-1] += f" Difference: {words.difference(costs)}."
    if unknown := words.assumed(verdict):
        lines += ["", f"Note: {escape(unknown)}."]
    if verdict.guard.files or verdict.guard.settings:
        names = [*verdict.guard.settings, *verdict.guard.files]
        shown = ", ".join(escape(name, 100) for name in names[:5])
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        lines += ["", f"{EDITS} {shown}{more}."]
    if judged := words.judged_by(verdict):
        lines += ["", f"{JUDGED} {escape(judged)}."]
    return lines


def _violated(verdict: Verdict, rows: int, longest: int) -> list[str]:
    lines: list[str] = []
    for effect, title in (("mandatory", FAILS), ("advisory", ADVICE)):
        found = words.violations(verdict.rules, effect)
        if not found:
            continue
        items = [
            f"- {escape(each.file, 200)}:{each.line} **{escape(rule.name)}** {escape(each.name, 150)}: "
            f"{escape(each.message, longest)}"
            for rule, each in found
        ]
        lines += ["", title, "", *_cut(items, rows, "- ")]
    return lines


def _cost(verdict: Verdict, rows: int) -> list[str]:
    costs = verdict.costs
    lines = words.shown_lines(costs)
    body = _table(
        ["", "before", "after", "at maximum"],
        [[escape(words.line_name(line)), *words.line_amounts(line)] for line in lines[:rows]],
    )
    if len(lines) > rows:
        body += ["", f"({len(lines) - rows} more lines)"]
    if not lines:
        body = ["No line of the cost changed." if costs.before is not None else "No resource has a price."]
    unknown = [f"- {escape(words.line_name(line))}: {escape(line.reason)}" for line in costs.unknown]
    if unknown:
        body += ["", "Unknown:", "", *_cut(unknown, rows, "- ")]
    if costs.estimated:
        body += ["", f"{escape(words.estimates(costs))}."]
    others = []
    for each in verdict.open_changes:
        priced = each.increase is not None
        price = words.amount(each.increase, costs.currency) if priced else escape(each.reason)
        others.append(f"- {escape(each.name)}: {price}")
    if others:
        body += ["", "Other open changes:", "", *_cut(others, rows, "- ")]
    if costs.not_counted:
        body += ["", "Not counted, because it depends on usage:", ""]
        body += _cut([f"- {escape(text)}" for text in costs.not_counted], rows, "- ")
    body += ["", f"{escape(words.price_age(costs))}."]
    changed = " changed" if costs.before is not None else ""
    return _folded(f"Cost, line by line ({len(lines)}{changed})", body)


def _changes(verdict: Verdict, rows: int) -> list[str]:
    items = [
        f"- {each.operation} {escape(words.group_name(site, owner))}: {escape(words.resource_text(each))}"
        for (site, owner), changes in words.grouped(verdict.changes).items()
        for each in sorted(changes, key=lambda one: words.OPERATIONS[::-1].index(one.operation))
    ]
    return _folded(f"Resources ({len(items)} change)", _cut(items, rows, "- ")) if items else []


def _racks(verdict: Verdict, rows: int) -> list[str]:
    body: list[str] = []
    for each in verdict.racks:
        body += ["", f"{escape(each.site)}{'' if each.changed else ', unchanged'}:", ""]
        body += _table(["", "before", "after"], [list(row) for row in words.rack_rows(each)])
    if not body or not rows:
        return []
    return _folded("On-premises: power, space, licences", [*body, "", f"Licences: {LICENCES}."])


def _rules(verdict: Verdict, rows: int) -> list[str]:
    items = [
        [escape(rule.name), rule.enforcement, rule.status, escape(rule.note or rule.title)]
        for status in words.STATUSES
        for rule in verdict.rules
        if rule.status == status
    ]
    body = _table(["rule", "enforcement", "status", ""], items[:rows])
    if len(items) > rows:
        body += ["", f"({len(items) - rows} more)"]
    return _folded(f"Rules ({words.headline(verdict)})", body)


def _exemptions(verdict: Verdict, rows: int) -> list[str]:
    items = [f"- {escape(words.exemption_text(each))}" for each in verdict.exemptions]
    for rule, each in words.violations(verdict.rules, "exempted"):
        items.append(f"- {escape(rule.name)} {escape(each.name, 150)}: {escape(each.message)}")
    return _folded(f"Exemptions ({len(verdict.exemptions)})", _cut(items, rows, "- ")) if items else []


def _folded(title: str, body: Sequence[str]) -> list[str]:
    return ["", "<details>", f"<summary>{title}</summary>", "", *body, "", "</details>"]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    def row(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    return [row(head), row(["---", *["---:" for _ in head[1:]]]), *map(row, rows)]


def _cut(items: Sequence[str], rows: int, bullet: str) -> list[str]:
    left = len(items) - rows
    return [*items[:rows], f"{bullet}({left} more)"] if left > 0 else list(items)
