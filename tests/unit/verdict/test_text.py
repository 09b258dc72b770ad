"""The verdict on a terminal."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from gpufleet.report.verdict_text import print_verdict
from tests.unit.verdict.conftest import cost_line, costs, rule, verdict, violated


def _shown(*rules: Any, **changes: Any) -> str:
    file = io.StringIO()
    print_verdict(verdict(*rules, **changes), Console(file=file, width=140, color_system=None))
    return file.getvalue()


def test_verdict_comes_first_with_counts_of_violations() -> None:
    found = rule("a", violated("one"), violated("two"), violated("soft", effect="advisory"))
    assert _shown(found, rule("b")).startswith(
        "FAIL  prod  against main (0123456789ab): "
        "2 violations of 1 rule, 1 advisory violation, 1 rule passed\n"
    )
    assert _shown(rule("a")).startswith("PASS  prod  against main (0123456789ab): 1 rule passed\n")


def test_failed_verdict_ends_with_each_broken_rule_its_line_and_remedy() -> None:
    hard = violated("hard; close it", remedy="close it")
    lines = _shown(rule("a", violated("soft", effect="advisory"), hard, violated("bare"))).splitlines()
    assert lines[-5:] == [
        "2 violations of 1 rule forbid this:",
        "stacks/prod/fleet.yaml:17: error: a: atlas-prod-use1-data: hard",
        "    remedy: close it",
        "stacks/prod/fleet.yaml:17: error: a: atlas-prod-use1-data: bare",
        "    remedy: close it",
    ]
    assert lines[2] == "stacks/prod/fleet.yaml:17: advice: a: atlas-prod-use1-data: soft"
    assert "nothing was changed" not in "".join(lines)


def test_passed_verdict_ends_without_reasons() -> None:
    assert "forbid" not in _shown(rule("a", violated("soft", effect="advisory")))


def test_all_failures_are_listed_and_advice_is_truncated() -> None:
    hard = [violated(f"hard {n}") for n in range(40)]
    soft = [violated(f"soft {n}", effect="advisory") for n in range(40)]
    text = _shown(rule("a", *hard, *soft))
    assert all(f"hard {n}\n" in text for n in range(40))
    assert "soft 14\n" in text
    assert "soft 15\n" not in text
    assert "(25 more; --json has all)" in text


def test_cost_without_a_base_is_listed_line_by_line() -> None:
    lines = (
        cost_line("2 x g6e.2xlarge", None, 300, changed=False),
        cost_line("volumes", None, 5, changed=False),
        cost_line("free", None, 0, changed=False),
        cost_line("odd", None, None, changed=False, reason="no price was read"),
    )
    nothing = {"before": None, "at_max_before": None, "upfront_before": None}
    text = _shown(base=None, costs=costs(*lines, **nothing))
    shown = [
        line.split() for line in text.splitlines() if "use1/burst: " in line and "unknown cost" not in line
    ]
    assert shown == [
        ["use1/burst:", "2", "x", "g6e.2xlarge", "300", "600"],
        ["use1/burst:", "volumes", "5.00", "10.00"],
        ["use1/burst:", "odd", "unknown", "unknown"],
    ]
    assert ["USD", "a", "month", "requested", "at", "maximum"] in [each.split() for each in text.splitlines()]


def test_cost_has_the_changed_lines_and_the_sums() -> None:
    text = _shown()
    assert "use1/burst: 2 x g6e.2xlarge" in text
    assert "volumes" not in text
    assert "1,235" in text
    assert "2,500 (was 2,000)" in text
    assert "difference: +235 USD a month, +500 USD at maximum" in text


def test_unknown_price_makes_the_sum_a_lower_bound() -> None:
    text = _shown(costs=costs(cost_line("odd", 1, None, reason="no price was read")))
    assert "at least 1,235" in text
    assert "unknown cost: use1/burst: odd: no price was read" in text


def test_replacements_have_their_reasons_and_racks_their_requirements() -> None:
    text = _shown()
    assert "replace aws:s3:Bucket atlas-prod-use1-data (forced by bucket) [protected]" in text
    assert "racks of lab" in text
    assert "40.8" in text


def test_exemptions_open_changes_and_price_ages_are_listed() -> None:
    text = _shown()
    assert "closed-buckets for atlas-prod-use1-data: in force until 2027-01-31, by carol: public data" in text
    assert "open change feature/x: 70.00 USD" in text
    assert "open change broken: unknown" in text
    assert "prices are up to 20 days old (2026-11-01)" in text
    assert "catalog refresh" not in text
    assert "catalog refresh" in _shown(costs=costs(oldest_price_days=400))


def test_escape_sequences_and_markup_of_a_user_are_escaped() -> None:
    text = _shown(rule("a", violated("[red]x[/red] \x1b[2Jgone :smile:", name="\x1b]0;title\x07")))
    assert "\x1b" not in text
    assert "[red]x[/red]" in text
