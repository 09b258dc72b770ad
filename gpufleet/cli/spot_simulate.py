"""`gpufleet spot simulate`: options to results."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from gpufleet.cli.checkout_catalog import checkout_catalog
from gpufleet.cli.console import emit_json, err, out
from gpufleet.cli.html_file import require_own_page
from gpufleet.cli.options_read import OptionReader
from gpufleet.economics.checkpoints import checkpoint_plan
from gpufleet.economics.json import Assumption, assumptions_to_json
from gpufleet.economics.simulation import Job, SpotMarket
from gpufleet.economics.supplies import Question, compare_supplies, known_rate
from gpufleet.economics.supplies_json import supplies_to_json
from gpufleet.economics.traces import StepTrace, common_part, make_trace, read_trace
from gpufleet.economics.training import GPU_HOURS_PER_FAILURE
from gpufleet.errors import InputError
from gpufleet.files import write_atomically
from gpufleet.report.economics_pages import supplies_page
from gpufleet.report.economics_supplies import show_supplies
from gpufleet.spec.quantity import Duration, HourlyPrice

if TYPE_CHECKING:
    from gpufleet.catalog import Catalog

DEFAULT_RESTART = "10 min"


class SimulationOptions(Struct, frozen=True):
    """The options of the command; None for those that were not given."""

    instance_type: str
    region: str
    work: str
    nodes: int
    checkpoint: str
    interval: str | None
    restart: str
    mtbf: str | None
    wait: str | None
    price: str | None
    prices: Path | None
    history: int | None
    zone: str | None
    profile: str | None
    capacity: Path | None
    max_price: str | None
    deadline: str | None
    onprem_price: str | None
    gpu_hours_per_failure: float | None
    runs: int
    seed: int
    html: Path | None


class _SpotPrice(Struct, frozen=True):
    price: float | StepTrace | None
    source: str = ""
    date: str | None = None
    reason: str = ""


def run(options: SimulationOptions, *, json: bool) -> None:
    """Simulate and print. Raises InputError for options that contradict each other or cannot be read."""
    read = OptionReader()
    times = {
        name: read.optional(Duration, f"--{name}", text)
        for name, text in (
            ("work", options.work),
            ("checkpoint", options.checkpoint),
            ("interval", options.interval),
            ("restart", options.restart),
            ("mtbf", options.mtbf),
            ("wait", options.wait),
            ("deadline", options.deadline),
        )
    }
    rates = {
        name: read.optional(HourlyPrice, f"--{name}", text)
        for name, text in (
            ("price", options.price),
            ("max-price", options.max_price),
            ("onprem-price", options.onprem_price),
        )
    }
    read.finish()
    seconds = {name: None if each is None else each.delta.total_seconds() for name, each in times.items()}
    usd = {name: None if each is None else float(each.amount) for name, each in rates.items()}
    _refuse_contradictions(options)
    if options.html is not None:
        require_own_page(options.html)
    catalog = checkout_catalog()
    item = catalog.instance(options.instance_type)
    if options.region not in catalog.regions:
        raise InputError(f"unknown region {options.region!r}", remedy="`gpufleet catalog regions` lists them")
    assumed: list[Assumption] = []
    failure_s = _failures(options, (item.accelerator.count if item.accelerator else 0) or 1, assumed)
    reclaim_s = seconds["mtbf"]
    interval_s = seconds["interval"]
    if interval_s is None:
        lost = sum(options.nodes / each for each in (failure_s, reclaim_s) if each)
        plan = checkpoint_plan(seconds["checkpoint"] or 0.0, 1 / lost, restart_s=seconds["restart"] or 0.0)
        interval_s = min(plan.interval_s, seconds["work"] or plan.interval_s)
        assumed.append(
            Assumption("interval", f"{interval_s:,.0f} s", "Young's formula with all interruptions of a node")
        )
    if options.restart == DEFAULT_RESTART:
        assumed.append(Assumption("restart", DEFAULT_RESTART, "no source: enter what you measured"))
    spot = _spot_price(options, catalog, usd["price"])
    price, capacity = spot.price, None if options.capacity is None else read_trace(options.capacity, "nodes")
    if capacity is not None and isinstance(price, StepTrace):
        price, capacity = common_part([price, capacity])
    on_demand, why = known_rate(catalog, item.name, options.region)
    question = Question(
        job=Job(
            seconds["work"] or 0.0,
            options.nodes,
            seconds["checkpoint"] or 0.0,
            interval_s,
            seconds["restart"] or 0.0,
        ),
        spot=SpotMarket(
            price,
            reclaim_s=reclaim_s,
            wait_s=seconds["wait"] or 0.0,
            capacity=capacity,
            max_price=usd["max-price"],
        ),
        spot_source=spot.source,
        spot_date=spot.date,
        spot_reason=spot.reason,
        failure_s=failure_s,
        deadline_s=seconds["deadline"],
        on_demand=on_demand,
        on_demand_reason=why,
        onprem_price=usd["onprem-price"],
        runs=options.runs,
        seed=options.seed,
    )
    outcomes = compare_supplies(question, catalog, item, options.region)
    if options.html is not None:
        what = f"{options.nodes} x {item.name} in {options.region}"
        write_atomically(options.html, supplies_page(question, what, outcomes, assumed))
    if json:
        place = {"instance_type": item.name, "region": options.region}
        emit_json(
            place | supplies_to_json(question, outcomes) | {"assumptions": assumptions_to_json(assumed)}
        )
    else:
        show_supplies(question, outcomes, assumed, out)
        if options.html is not None:
            err.print(f"written: {options.html}", soft_wrap=True)


def _refuse_contradictions(options: SimulationOptions) -> None:
    prices = {"--price": options.price, "--prices": options.prices, "--history": options.history}
    given = [name for name, value in prices.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)}: one price of spot is needed", remedy="give one of them")
    if options.mtbf is None and options.capacity is None and options.max_price is None:
        raise InputError(
            "nothing says how often spot nodes are reclaimed",
            remedy="give --mtbf '8 h' (of one node), --capacity FILE, or --max-price with prices over time",
        )
    if options.max_price is not None and options.prices is None and options.history is None:
        raise InputError("--max-price needs prices over time", remedy="give --prices FILE or --history 30")
    if options.zone is not None and options.prices is None and options.history is None:
        raise InputError("--zone chooses among prices over time", remedy="give --prices FILE or --history 30")


def _failures(options: SimulationOptions, gpus: int, assumed: list[Assumption]) -> float:
    """Return the mean seconds between hardware failures of a node."""
    hours = options.gpu_hours_per_failure
    if hours is None:
        hours = GPU_HOURS_PER_FAILURE
        text = "Llama 3 405B: 419 unexpected interruptions in 54 days on 16,384 H100"
        assumed.append(Assumption("GPU-hours per failure", f"{hours:g}", text))
    if hours <= 0:
        raise InputError(f"{hours:g} GPU-hours per failure is not above 0", remedy="write 50677")
    return hours / gpus * 3600


def _spot_price(options: SimulationOptions, catalog: Catalog, given: float | None) -> _SpotPrice:
    if given is not None:
        return _SpotPrice(given, "--price")
    if options.prices is not None:
        trace = read_trace(options.prices, "price", zone=options.zone)
        return _SpotPrice(trace, trace.source, trace.start.date().isoformat())
    if options.history is not None:
        return _history(options, options.history)
    known = catalog.spot(options.instance_type, options.region)
    if known is None:
        reason = f"no spot price of {options.instance_type} in {options.region} is known"
        return _SpotPrice(None, reason=f"{reason}: it may not be offered as spot")
    date = known.date.isoformat() if known.date else None
    return _SpotPrice(float(known.median), known.source, date)


def _history(options: SimulationOptions, days: int) -> _SpotPrice:
    """Return the prices of a zone, of the least expensive one without --zone, from the user's account."""
    from gpufleet.account.spot_history import read_spot_history

    now = dt.datetime.now(tz=dt.UTC)
    zones = read_spot_history(_client(options), options.instance_type, now, days)
    traces = {
        zone: make_trace(points, f"DescribeSpotPriceHistory of {zone}, {days} days")
        for zone, points in zones.items()
    }
    if options.zone is not None and options.zone not in traces:
        raise InputError(
            f"EC2 has no prices of zone {options.zone!r}", remedy=f"write one of {', '.join(traces)}"
        )
    chosen = options.zone or min(traces, key=lambda zone: traces[zone].mean)
    return _SpotPrice(traces[chosen], traces[chosen].source, now.date().isoformat())


def _client(options: SimulationOptions) -> object:
    from botocore.exceptions import BotoCoreError

    from gpufleet.aws_session import open_session

    try:
        session = open_session(options.profile, options.region)
        if session.get_credentials() is None:
            raise InputError(
                "no AWS credentials: --history reads the prices from an account",
                remedy="set AWS_PROFILE or pass --profile; or give a file with --prices",
            )
        return session.client("ec2", region_name=options.region)
    except BotoCoreError as error:
        raise InputError(f"no usable AWS profile: {error}", remedy="use a profile of ~/.aws/config") from None
