"""The pages of `tco`, `spot simulate`, `usage` and `advise`."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.economics.advice import PlaceAdvice
from gpufleet.economics.job_file import JobFile
from gpufleet.economics.json import Assumption
from gpufleet.economics.supplies import Question, SupplyOutcome
from gpufleet.economics.tco_risk import Risk, TcoCase, TornadoBar
from gpufleet.economics.usage import UsageReport, by_team
from gpufleet.report import economics_advice, economics_supplies, economics_usage
from gpufleet.report.economics_page import (
    MOST_ROWS,
    PageSection,
    economics_page,
    plot_section,
    ranges_section,
    table_section,
)
from gpufleet.report.economics_plots import bands_plot, break_even_plot, tornado_plot
from gpufleet.report.economics_tco import owned_label, sensitivity_table

_SHOWN_PLACES = 12


def tco_page(
    case: TcoCase, what: str, bars: Sequence[TornadoBar], risk: Risk, assumed: Sequence[Assumption]
) -> str:
    """Return the page of `gpufleet tco`."""
    found = case.result()
    at, month = found.break_even_utilization, found.break_even_month
    facts = [
        ("Rented", f"{found.cloud_total:,.0f} USD"),
        ("Rented, 5 % to 95 %", f"{risk.rented[0]:,.0f} to {risk.rented[2]:,.0f} USD"),
        (owned_label(found, risk).capitalize(), f"{found.owned.total:,.0f} USD"),
        ("Owned, 5 % to 95 %", f"{risk.owned[0]:,.0f} to {risk.owned[2]:,.0f} USD"),
        ("Equal at a utilization of", "never" if at is None else f"{at:.1%}"),
        ("Equal after", "not in this time" if month is None else f"{month:.1f} months"),
        ("Owning costs less in", f"{risk.owning_wins:.1%} of {risk.draws:,} draws"),
    ]
    saving = found.cloud_total - found.owned.total
    end = risk.bands[-1]
    sections = [
        plot_section(
            "Break-even",
            break_even_plot(case),
            f"Total over utilization: {facts[4][0].lower()} {facts[4][1]}",
        ),
        plot_section(
            "Payments over time",
            bands_plot(risk),
            f"At the end rented {end.rented[1]:,.0f} USD and owned {end.owned[1]:,.0f} USD (medians)",
        ),
        plot_section(
            "Sensitivity", tornado_plot(bars, saving), "The saving of owning by input: see the table below"
        ),
        table_section("Sensitivity in numbers", sensitivity_table(bars)),
    ]
    title = f"{what}: rented or owned"
    eyebrow = f"{case.years:g} years at a utilization of {case.utilization:.0%}"
    return economics_page(title, eyebrow, facts, sections, assumed)


def supplies_page(
    question: Question, what: str, outcomes: Sequence[SupplyOutcome], assumed: Sequence[Assumption]
) -> str:
    """Return the page of `gpufleet spot simulate`."""
    job = question.job
    facts = [
        ("Work", f"{job.work_s / 3600:,.1f} h on {job.nodes} nodes"),
        ("Checkpoint", f"{job.checkpoint_s:g} s every {job.interval_s / 60:,.1f} min"),
        ("Deadline", "none" if question.deadline_s is None else f"{question.deadline_s / 3600:,.1f} h"),
        ("Simulated", f"{question.runs:,} runs, seed {question.seed}"),
    ]
    costs = ((e.supply, e.cost.low, e.cost.median, e.cost.high) for e in outcomes if e.cost is not None)
    hours = (
        (e.supply, e.finish_h.low, e.finish_h.median, e.finish_h.high)
        for e in outcomes
        if e.finish_h is not None
    )
    sections = [
        table_section("Supplies", economics_supplies.supplies_table(question, outcomes)),
        ranges_section("Cost", "USD, median and 5 % to 95 %", costs),
        ranges_section("Time", "hours, median and 5 % to 95 %", hours),
    ]
    prices = economics_supplies.price_lines(outcomes)
    return economics_page(
        f"{what}: spot and its alternatives",
        "gpufleet spot simulate",
        facts,
        _kept(sections),
        assumed,
        prices,
    )


def usage_page(report: UsageReport, environment: str) -> str:
    """Return the page of `gpufleet usage`."""
    teams = by_team(report.allocations)
    known = [each.cost for each in teams if each.cost is not None]
    facts = [
        ("GPU-hours", f"{sum(each.gpu_hours for each in teams):,.0f}"),
        ("Cost", f"{sum(known):,.0f} USD" if known else "unknown"),
        ("Lost GPU-hours", f"{sum(each.lost for each in teams):,.0f}"),
        ("Idle GPU-hours", f"{sum(each.idle or 0 for each in report.capacities):,.0f}"),
        ("Without a known price", f"{len(teams) - len(known)} of {len(teams)} teams"),
    ]
    sections: list[PageSection | None] = [
        table_section("Showback", economics_usage.showback_table(report)),
        ranges_section(
            "Cost by team",
            "USD",
            ((e.team or "(no team)", 0.0, e.cost, e.cost) for e in teams[:20] if e.cost is not None),
        ),
    ]
    if report.commitments:
        lines = tuple(
            f"{e.kind}: {e.used:,.0f} USD used, {e.unused:,.0f} USD unused" for e in report.commitments
        )
        sections.append(PageSection("Commitments", lines=lines))
    if report.anomalies:
        table = economics_usage.unusual_table(report, MOST_ROWS)
        sections.append(table_section("Unusual days", table))
    if report.advice:
        table = economics_usage.advice_table(report, MOST_ROWS)
        sections.append(table_section("Right-sizing", table))
    if report.notes:
        sections.append(PageSection("Notes", lines=report.notes))
    sources = [*report.sources, *economics_usage.price_lines(report)]
    return economics_page(
        f"{environment}: usage of GPUs", "gpufleet usage", facts, _kept(sections), sources=sources
    )


def advice_page(job: JobFile, found: Sequence[PlaceAdvice], assumed: Sequence[Assumption]) -> str:
    """Return the page of `gpufleet advise`."""
    feasible = [each for each in found if not each.reasons]
    refused = [each for each in found if each.reasons]
    best = feasible[0] if feasible else None
    facts = [
        ("Feasible places", f"{len(feasible)} of {len(found)}"),
        ("First", "none" if best is None else economics_advice.place_name(best)),
        ("Deadline", str(job.deadline or "none")),
        ("Budget", "none" if job.budget is None else f"{job.budget.amount:,} USD"),
    ]
    costs = (
        (f"{e.candidate.place}, {e.candidate.kind}", e.cost.low, e.cost.median, e.cost.high)
        for e in feasible[:_SHOWN_PLACES]
        if e.cost is not None
    )
    reasons = tuple(f"{economics_advice.place_name(e)}: {'; '.join(e.reasons)}" for e in refused)
    sections = [
        table_section("Places", economics_advice.advice_table(job, feasible)),
        ranges_section("Cost", "USD, median and 5 % to 95 %", costs),
        PageSection("Not possible", lines=reasons) if reasons else None,
    ]
    prices = economics_advice.price_lines(feasible)
    return economics_page(
        f"{job.job}: where it should run", "gpufleet advise", facts, _kept(sections), assumed, prices
    )


def _kept(sections: Sequence[PageSection | None]) -> list[PageSection]:
    return [each for each in sections if each is not None]
