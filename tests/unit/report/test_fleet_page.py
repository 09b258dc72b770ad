"""The report page: one computation, everything escaped, nothing from outside, unknown never 0."""

from __future__ import annotations

import re
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpufleet.plan.capacity_models import OnDemandPlan
from gpufleet.pricing.models import CostLine
from gpufleet.report.fleet_costs import charts, price_sources
from gpufleet.report.fleet_html import fleet_page
from gpufleet.report.fleet_picture import fleet_pictures
from gpufleet.verdict.models import ChangedResource, ComparisonBase, Verdict
from tests.unit.report.fleets import racks_only, verdict_on
from tests.unit.verdict.conftest import cost_line, costs, rule, verdict, violated

VOID = {"meta", "br", "rect", "line", "path"}
HOSTILE = "</title><script>alert(1)</script>\x1b[31m\u202e"


class PageText(HTMLParser):
    """The text of a page; every tag has to be closed, and no script or address of elsewhere may be there."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.tags: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag != "script"
        for name, value in attrs:
            assert not name.startswith("on"), name
            assert name not in ("src", "href", "action") or (value or "").startswith("#"), value
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    def __str__(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def sandbox() -> Verdict:
    """The sandbox with one rule of each status."""
    return verdict_on(
        "sandbox",
        rule("closed-buckets", violated("it is open to everybody")),
        rule("price-age", violated("prices are old", effect="advisory"), status="advisory"),
        rule("encrypted", title="Volumes are encrypted"),
        rule("change-size", status="disabled", note="judged against a --base only"),
    )


def test_page_starts_with_monthly_cost_and_verdict(sandbox: Verdict) -> None:
    text = str(PageText(fleet_page(sandbox)))
    head = text[: text.index("Findings and rules")]
    total = sandbox.after.cost.total
    assert "environment sandbox" in head
    assert f"{total.expected:,.0f} USD a month" in head
    assert "FAIL 1 violation of 1 rule, 1 advisory violation, 1 rule passed, 1 rule skipped" in head
    assert f"{total.minimum:,.0f} to {total.maximum:,.0f} USD" in head
    assert "45,000 USD" in head
    assert text.index("Findings and rules") < text.index("The fleet") < text.index("Cost")


def test_failed_rules_have_place_and_reason_and_passed_ones_only_a_name(sandbox: Verdict) -> None:
    text = str(PageText(fleet_page(sandbox)))
    assert "Failed closed-buckets" in text
    assert "stacks/prod/fleet.yaml:17 atlas-prod-use1-data : it is open to everybody" in text
    assert "Advice price-age" in text
    assert "1 rule passed encrypted: Volumes are encrypted" in text
    assert "change-size: judged against a --base only" in text


def test_hostile_text_stays_text_without_control_characters(sandbox: Verdict) -> None:
    made = replace(
        sandbox,
        environment=HOSTILE,
        rules=(rule(HOSTILE, violated(HOSTILE, name=HOSTILE, file=HOSTILE), title=HOSTILE),),
        warnings=(HOSTILE,),
        base=ComparisonBase(HOSTILE, ""),
        changes=(ChangedResource(HOSTILE, HOSTILE, HOSTILE, "replace", HOSTILE, HOSTILE, (HOSTILE,)),),
        costs=costs(cost_line(HOSTILE, 1, None, reason=HOSTILE)),
    )
    page = fleet_page(made)
    PageText(page)
    assert "<script" not in page
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", page)
    assert "&lt;script&gt;alert(1)" in page


def test_content_security_policy_allows_only_the_style_sheet(sandbox: Verdict) -> None:
    page = fleet_page(sandbox)
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src &#39;none&#39;; style-src &#39;sha256-")
    assert " style=" not in page
    assert "@import" not in page
    assert "url(" not in page


def test_every_picture_has_alternative_text(sandbox: Verdict) -> None:
    page = fleet_page(sandbox)
    pictures = re.findall(r"<svg[^>]*>", page)
    assert len(pictures) > 20
    assert [
        each
        for each in pictures
        if 'role="img" aria-label="' not in each and 'aria-hidden="true"' not in each
    ] == []
    assert "2 nodes, at most 2, 8 H100 each" in page
    assert "By site: use1: " in page


def test_costs_are_split_by_site_team_and_purchase_option_with_range_and_budget() -> None:
    by_title = {chart.title: {bar.name: bar for bar in chart.bars} for chart in charts(verdict_on("prod"))}
    assert list(by_title) == ["By site", "By team", "By purchase option"]
    assert by_title["By site"]["dc1"].budget_words == "budget 750,000 USD"
    assert by_title["By team"]["research"].budget_words == "at maximum over budget 300,000 USD"
    options = by_title["By purchase option"]
    assert {
        "On demand",
        "Spot",
        "Capacity reservation",
        "Capacity Block",
        "Storage",
        "Racks: ownership",
    } <= set(options)
    assert options["Spot"].range.startswith("0 to ")
    assert options["Spot"].low < options["Spot"].expected < options["Spot"].high


def test_sum_with_unknown_parts_is_a_lower_bound_and_a_sum_of_unknowns_is_unknown(
    sandbox: Verdict,
) -> None:
    line = CostLine(
        "", "", "x", "GPU nodes", "compute", None, None, None, site="use9", reason="no price was read"
    )
    cost = replace(sandbox.after.cost, lines=(*sandbox.after.cost.lines, line))
    made = replace(sandbox, after=replace(sandbox.after, cost=cost))
    by_site = {bar.name: bar for bar in charts(made)[0].bars}
    assert by_site["use9"].amount == "unknown"
    assert not any(bar.amount.startswith("at least ") for bar in by_site.values())
    also = replace(cost, lines=(*cost.lines, replace(line, site="use1")))
    more = {bar.name: bar for bar in charts(replace(made, after=replace(made.after, cost=also)))[0].bars}
    assert more["use1"].amount.startswith("at least ")
    assert not more["lab"].amount.startswith("at least ")
    text = str(PageText(fleet_page(made)))
    assert "use9: GPU nodes no price was read unknown" in text


def test_estimated_costs_are_marked(sandbox: Verdict) -> None:
    cost = sandbox.after.cost
    line = next(each for each in cost.lines if "FSx for Lustre" in each.what)
    lines = tuple(replace(each, estimated=True) if each is line else each for each in cost.lines)
    made = replace(sandbox, after=replace(sandbox.after, cost=replace(cost, lines=lines)))
    text = str(PageText(fleet_page(made)))
    assert f"{line.what} (estimate)" in text and text.count("(estimate)") == 1


def test_prices_have_source_date_and_age(sandbox: Verdict) -> None:
    sources = {(each.source, each.date): each for each in price_sources(sandbox)}
    listed = next(
        each
        for (name, _), each in sources.items()
        if "Price List Bulk API us-east-1" in name and each.date == "2026-09-25"
    )
    assert (listed.date, listed.age, listed.old) == ("2026-09-25", "57 d old", False)
    assert all(each.old for each in sources.values() if each.age == "unknown age")
    total = sum(each.lines for each in sources.values())
    assert total == sum(1 for line in sandbox.after.cost.lines if line.known)
    text = str(PageText(fleet_page(sandbox)))
    assert listed.source in text
    assert "2026-09-25 57 d old" in text


def test_changes_are_listed_only_with_a_base(sandbox: Verdict) -> None:
    assert "Changes" not in str(PageText(fleet_page(sandbox)))
    example = verdict()
    made = replace(
        sandbox, base=example.base, changes=example.changes, costs=example.costs, racks=example.racks
    )
    text = str(PageText(fleet_page(made)))
    assert "use1/burst: 2 x g6e.2xlarge 100 300 600 (was 200)" in text
    assert "replace aws:s3:Bucket atlas-prod-use1-data (forced by bucket) [protected]" in text
    assert "create aws:sns:Topic atlas-prod" in text
    assert "nodes 2 4" in text


def test_groups_and_storage_are_drawn_in_their_zones(sandbox: Verdict) -> None:
    use1 = next(site for site in fleet_pictures(sandbox) if site.name == "use1")
    places = {
        place.name: [*(each.name for each in place.groups), *(each.name for each in place.stores)]
        for place in use1.places
    }
    assert places == {
        "us-east-1a": ["finetune", "pretrain", "shared", "checkpoints"],
        "us-east-1b": ["notebook", "scratch"],
        "us-east-1a + us-east-1b": ["serve", "sweep"],
        "Whole region": ["datasets", "artifacts"],
    }


def test_small_group_shows_each_gpu_and_a_large_one_several_nodes_per_square(sandbox: Verdict) -> None:
    def group(verdict: Verdict, name: str) -> object:
        return next(
            each
            for site in fleet_pictures(verdict)
            for place in site.places
            for each in place.groups
            if each.name == name
        )

    pretrain = group(sandbox, "pretrain")
    kinds = [box.kind for box in pretrain.drawing.boxes]  # type: ignore[attr-defined]
    assert kinds.count("gpu on") == 16
    plan = sandbox.after.plan
    assert plan is not None
    large = replace(
        plan,
        cloud=tuple(
            replace(
                site,
                node_groups=tuple(
                    replace(each, capacity=OnDemandPlan(0, 1000, 500)) for each in site.node_groups
                ),
            )
            for site in plan.cloud
        ),
    )
    made = group(replace(sandbox, after=replace(sandbox.after, plan=large)), "pretrain")
    kinds = [box.kind for box in made.drawing.boxes]  # type: ignore[attr-defined]
    assert made.scale == 10  # type: ignore[attr-defined]
    assert (kinds.count("square on"), kinds.count("square off")) == (50, 50)


@pytest.mark.parametrize(
    ("nodes", "drawn", "words"),
    [
        ("dgx[001-002]", [2], "1 rack of up to 3 systems at 40 kW a rack"),
        ("dgx[001-031]", [3] * 10 + [1], "11 racks of up to 3 systems at 40 kW a rack"),
        ("dgx[0001-1000]", [3] * 67, "334 racks of up to 3 systems at 40 kW a rack"),
    ],
)
def test_racks_hold_as_many_systems_as_their_power_allows(
    tmp_path: Path, nodes: str, drawn: list[int], words: str
) -> None:
    (hall,) = fleet_pictures(verdict_on(str(racks_only(tmp_path, nodes))))
    systems = [sum(box.kind == "system" for box in rack.drawing.boxes) for rack in hall.racks]
    assert systems == drawn
    assert hall.rack_words.startswith(words)
    assert ("each rack drawn represents 5" in hall.rack_words) == (len(drawn) == 67)
    assert hall.lanes == 8


def test_racks_are_drawn_with_the_names_of_the_fleet_file(tmp_path: Path) -> None:
    racks = "racks: [{ name: a1, nodes: 'dgx[001-002]' }, { name: a2, nodes: 'dgx[003-004]' }]"
    (hall,) = fleet_pictures(verdict_on(str(racks_only(tmp_path, "dgx[001-004]", racks))))
    assert [rack.label for rack in hall.racks] == ["a1", "a2"]
    assert hall.rack_words == "2 racks, as in the fleet file"


def test_fleet_of_racks_only_has_a_page(tmp_path: Path) -> None:
    text = str(PageText(fleet_page(verdict_on(str(racks_only(tmp_path))))))
    assert "dc1 Racks of dgx-h100" in text
    assert "InfiniBand NDR, 400 Gb/s a port, rail-optimized: 8 rails" in text
    assert "controllers ctl[01-02]; login hosts login01" in text
    assert "On demand" not in text


def test_exceeded_budget_is_reported(sandbox: Verdict) -> None:
    made = replace(sandbox, costs=replace(sandbox.costs, budget=Decimal(1000)))
    page = fleet_page(made)
    assert "over budget 1,000 USD" in page
    assert "expected, over its budget" in page
    assert "expected, over its budget" not in fleet_page(sandbox)
