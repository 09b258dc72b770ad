"""Texts that all outputs of a verdict share, and escaping of users' text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from decimal import Decimal

from gpufleet.catalog import STALE_AFTER_DAYS
from gpufleet.policy.change import Operation
from gpufleet.report.changes_text import short_type
from gpufleet.report.money import money
from gpufleet.verdict.models import (
    ChangedResource,
    CostDifference,
    Costs,
    ExemptionUse,
    LocatedViolation,
    RackDifference,
    RackFigures,
    RuleResult,
    Verdict,
)
from gpufleet.visible import visible_line

OPERATIONS: tuple[Operation, ...] = ("create", "update", "replace", "delete")
STATUSES = ("failed", "advisory", "exempted", "passed", "disabled")


def one_line(text: str, longest: int = 600) -> str:
    """Return text on one line, with control characters escaped."""
    clean = visible_line(" ".join(text.split())).strip()
    return clean if len(clean) <= longest else f"{clean[: longest - 3]}..."


def in_number(count: int, what: str) -> str:
    """Return `1 rule`, `2 rules`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def headline(verdict: Verdict) -> str:
    """Return `3 violations of 2 rules, 1 advisory violation, 40 rules passed`."""
    found = Counter(each.effect for rule in verdict.rules for each in rule.violations)
    status = Counter(rule.status for rule in verdict.rules)
    parts = (
        (
            found["mandatory"],
            f"{in_number(found['mandatory'], 'violation')} of {in_number(status['failed'], 'rule')}",
        ),
        (found["advisory"], in_number(found["advisory"], "advisory violation")),
        (found["exempted"], in_number(found["exempted"], "exempted violation")),
        (status["passed"], f"{in_number(status['passed'], 'rule')} passed"),
        (status["disabled"], f"{in_number(status['disabled'], 'rule')} skipped"),
    )
    return ", ".join(words for count, words in parts if count) or "no rules"


def against(verdict: Verdict) -> str:
    """Return what the verdict compares with."""
    base = verdict.base
    if base is None:
        return "from nothing (no --base)"
    commit = f" ({base.commit[:12]})" if base.commit else ""
    new = ", which has no such environment yet" if base.new_environment else ""
    return f"against {one_line(base.ref, 80)}{commit}{new}"


def assumed(verdict: Verdict, shown: int = 5) -> str:
    """Return which types are previewed as unknown; empty if none is."""
    if not verdict.assumed:
        return ""
    more = f" and {len(verdict.assumed) - shown} more" if len(verdict.assumed) > shown else ""
    names = ", ".join(one_line(each, 100) for each in verdict.assumed[:shown])
    return f"outputs are unknown, since the emulated AWS does not have the type: {names}{more}"


def judged_by(verdict: Verdict) -> str:
    """Return which code has judged a change that edits code; empty for any other change."""
    code = verdict.judged_by
    if code is None or (code.by == "base" and not code.left_out):
        return ""
    if code.by == "base":
        files = in_number(len(code.left_out), "file")
        return (
            f"only stacks/ is judged; {files} of code of the change are left out: their owners must approve"
        )
    if code.second is None:
        return "the change's own code has judged it: its owners must approve"
    found = {"pass": "passes", "fail": "fails", "none": "has no verdict"}[code.second.verdict]
    return f"stacks/ {found} by the code of the base; the change's own code needs its owners' approval"


def violations(rules: Iterable[RuleResult], *effects: str) -> list[tuple[RuleResult, LocatedViolation]]:
    """Return the violations of these effects with their rules, mandatory ones first."""
    found = [(rule, each) for rule in rules for each in rule.violations if each.effect in effects]
    return sorted(found, key=lambda pair: effects.index(pair[1].effect))


def changes_summary(verdict: Verdict) -> str:
    """Return `12 to create, 1 to replace, 220 unchanged`."""
    counts = verdict.counts
    parts = [f"{counts[name]} to {name}" for name in OPERATIONS if counts[name]]
    return ", ".join([*parts, f"{counts['same']} unchanged"] if counts["same"] or not parts else parts)


def grouped(changes: Iterable[ChangedResource]) -> dict[tuple[str, str], list[ChangedResource]]:
    """Group changes by site and owner, those of the whole account under ("", "") at the end."""
    found: dict[tuple[str, str], list[ChangedResource]] = {}
    for each in changes:
        found.setdefault((each.site, each.owner), []).append(each)
    return dict(sorted(found.items(), key=lambda item: (not item[0][0], item[0])))


def group_name(site: str, owner: str) -> str:
    """Return `use1/pretrain`, `use1`, or a text for resources outside any site."""
    return f"{site}/{owner}" if owner else site or "account"


def resource_text(each: ChangedResource) -> str:
    """Return `aws:eks:Cluster atlas-prod-use1 (forced by name)`."""
    keys = each.replace_keys or each.diff
    verb = "forced by" if each.replace_keys else "differs in"
    because = f" ({verb} {', '.join(keys[:6])}{', ...' if len(keys) > 6 else ''})" if keys else ""
    protected = " [protected]" if each.protected and each.operation in ("replace", "delete") else ""
    return one_line(
        f"{short_type(each.type)} {each.name}{because if each.operation != 'create' else ''}{protected}"
    )


def shown_lines(costs: Costs) -> list[CostDifference]:
    """Return the changed cost lines, the largest difference first.

    Without a base, return all lines with a cost, the largest at maximum size first.
    """
    compared = costs.before is not None

    def size(line: CostDifference) -> Decimal:
        if not compared:
            return line.at_max or Decimal(0)
        return abs((line.after or Decimal(0)) - (line.before or Decimal(0)))

    lines = (line for line in costs.lines if (line.changed if compared else line.at_max or line.reason))
    return sorted(lines, key=lambda line: (-size(line), line.what, line.site, line.owner, line.urn))


def line_name(line: CostDifference) -> str:
    """Return owner and kind of a cost line."""
    return one_line(f"{group_name(line.site, line.owner)}: {line.what}", 120)


def amount(value: Decimal | None, currency: str = "") -> str:
    """Format money, or a dash if there is none."""
    return "-" if value is None else money(value, currency)


def total(value: Decimal | None, costs: Costs) -> str:
    """Format a sum, which is a lower bound if prices are unknown."""
    return amount(value) if value is None or not costs.unknown else f"at least {amount(value)}"


def estimates(costs: Costs) -> str:
    """Return the sum of estimated costs, and the three highest with their calculation."""
    lines = sorted(costs.estimated, key=lambda line: (-(line.at_max or Decimal(0)), line.what, line.urn))
    after = amount(sum(((line.after or Decimal(0)) for line in lines), Decimal(0)), costs.currency)
    shown = "; ".join(f"{line_name(line)}: {one_line(line.estimate)}" for line in lines[:3])
    more = f"; {len(lines) - 3} more" if len(lines) > 3 else ""
    return f"estimated: {after} of it, because the price of the region is not known for sure: {shown}{more}"


def line_amounts(line: CostDifference) -> list[str]:
    """Return a line's amounts before, after and at maximum, with the former maximum if it changed."""
    if line.reason:
        return [amount(line.before), "unknown", "unknown"]
    return [amount(line.before), amount(line.after), _maximum(line.at_max_before, line.at_max)]


def total_amounts(costs: Costs) -> list[str]:
    """Return the same amounts of the sums."""
    at_max = total(costs.at_max, costs)
    if costs.at_max_before is not None and costs.at_max_before != costs.at_max:
        at_max += f" (was {amount(costs.at_max_before)})"
    return [total(costs.before, costs), total(costs.after, costs), at_max]


def _maximum(before: Decimal | None, after: Decimal | None) -> str:
    was = f" (was {amount(before)})" if before is not None and before != after else ""
    return f"{amount(after)}{was}"


def difference(costs: Costs) -> str:
    """Return `+1,200 USD a month, +4,000 USD at maximum`; empty without a base."""
    if costs.increase is None or costs.at_max_before is None:
        return ""
    at_max = _signed(costs.at_max - costs.at_max_before, costs.currency)
    return f"{_signed(costs.increase, costs.currency)} a month, {at_max} at maximum"


def _signed(value: Decimal, currency: str) -> str:
    return f"{'+' if value >= 0 else ''}{money(value, currency)}"


def price_age(costs: Costs) -> str:
    """Return the age of the oldest price."""
    if costs.oldest_price is None or costs.oldest_price_days is None:
        return "no price has a date"
    old = ", too old: run `gpufleet catalog refresh`" if costs.oldest_price_days > STALE_AFTER_DAYS else ""
    return f"prices are up to {costs.oldest_price_days} days old ({costs.oldest_price}){old}"


def exemption_text(each: ExemptionUse) -> str:
    """Return an exemption, and whether it is in force and needed."""
    item = each.exemption
    state = "in force until" if each.in_force else "expired on"
    unused = "; covers nothing now" if each.used == 0 else ""
    return one_line(
        f"{item.rule} for {item.resource}: {state} {item.expires}, by {item.approver}: {item.reason}{unused}"
    )


def rack_rows(difference: RackDifference) -> list[tuple[str, str, str]]:
    """Return (figure, before, after) of a rack site; all of them, changed or not."""
    rows = (
        ("nodes", "nodes"),
        ("gpus", "GPUs"),
        ("hosts", "hosts"),
        ("power_kw", "power of the nodes, kW"),
        ("facility_kw", "with cooling (PUE), kW"),
        ("rack_units", "rack units"),
        ("racks", "racks by power"),
    )
    return [
        (title, _figure(difference.before, name), _figure(difference.after, name)) for name, title in rows
    ]


def _figure(figures: RackFigures | None, name: str) -> str:
    if figures is None:
        return "-"
    value = getattr(figures, name)
    if value is None:
        return "unknown"
    return f"{value.normalize():f}" if isinstance(value, Decimal) else f"{value:,}"
