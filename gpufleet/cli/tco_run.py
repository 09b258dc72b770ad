"""`gpufleet tco`: options to results."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from gpufleet.catalog import Catalog, System
from gpufleet.catalog.reserved import PAYMENTS, TERMS, Payment, Term
from gpufleet.checks import validate
from gpufleet.cli.checkout_catalog import checkout_catalog
from gpufleet.cli.console import emit_json, err, out
from gpufleet.cli.html_file import require_own_page
from gpufleet.cli.options_read import OptionReader
from gpufleet.economics.json import Assumption, assumptions_to_json, risk_to_json, tco_to_json
from gpufleet.economics.places import place_of
from gpufleet.economics.rented import SAVINGS_PLANS, PurchaseMix, RentedRange, rented_costs
from gpufleet.economics.tco import OwnedCosts, RentedCosts
from gpufleet.economics.tco_risk import InputRange, TcoCase, ranges_of, simulate_risk, tornado
from gpufleet.errors import InputError
from gpufleet.files import write_atomically
from gpufleet.report.economics_pages import tco_page
from gpufleet.report.economics_tco import show_tco, write_plots
from gpufleet.spec.quantity import EnergyPrice, HourlyPrice, Money, Power
from gpufleet.workspace import Workspace

DEFAULT_REGION = "us-east-1"
DEFAULT_PUE = 1.25
DEFAULT_ENERGY_PRICE = "0.1 USD/kWh"
ENERGY_SOURCE = "average industrial price of 17 US data-centre markets, 2026 (EIA)"


class TcoOptions(Struct, frozen=True):
    """The options of the command; None for those that were not given."""

    environment: str | None
    site: str | None
    gpus: int | None
    system: str | None
    years: float | None
    utilization: str
    instance_type: str | None
    region: str
    cloud_price: str | None
    reserved: str
    reserved_term: str
    reserved_payment: str
    reserved_price: str | None
    spot: str
    spot_overhead: str
    savings_plan: str | None
    acquisition: str | None
    power_per_gpu: str | None
    idle_power: str
    pue: float | None
    energy_price: str | None
    network_share: str
    residual: str
    financing: str
    support: str | None
    colocation: str | None
    staff: str | None
    spread: str
    draws: int
    seed: int
    plots: Path | None
    plot_format: str
    html: Path | None


def run(options: TcoOptions, *, json: bool) -> None:
    """Compute, write plots and print. Raises InputError for what cannot be read or has no price."""
    _refuse(options)
    if options.html is not None:
        require_own_page(options.html)
    options, bought_for = _of_fleet(options)
    if options.gpus is None or options.system is None or options.years is None:
        raise InputError(
            "what is compared is missing: --gpus, --system and --years",
            remedy="give --gpus 1024 --system dgx-h100 --years 5, or --env prod",
        )
    read = OptionReader()
    shares = {
        name: read.share(f"--{name.replace('_', '-')}", text)
        for name, text in (
            ("utilization", options.utilization),
            ("reserved", options.reserved),
            ("spot", options.spot),
            ("spot_overhead", options.spot_overhead),
            ("idle_power", options.idle_power),
            ("network_share", options.network_share),
            ("residual", options.residual),
            ("financing", options.financing),
            ("spread", options.spread),
        )
    }
    yearly = {
        name: read.quantity(Money, f"--{name}", text)
        for name, text in (
            ("support", options.support or "0 USD"),
            ("colocation", options.colocation or "0 USD"),
            ("staff", options.staff or "0 USD"),
        )
    }
    energy = read.quantity(EnergyPrice, "--energy-price", options.energy_price or DEFAULT_ENERGY_PRICE)
    rent = read.optional(HourlyPrice, "--cloud-price", options.cloud_price)
    committed = read.optional(HourlyPrice, "--reserved-price", options.reserved_price)
    price = read.optional(Money, "--acquisition", options.acquisition)
    power = read.optional(Power, "--power-per-gpu", options.power_per_gpu)
    read.finish()
    if energy is None or any(amount is None for amount in yearly.values()):
        raise AssertionError("finish raises for what cannot be read")
    catalog = checkout_catalog()
    bought = catalog.system(options.system)
    rented = _rented(options, catalog, bought, shares, rent, committed)
    assumed = [*bought_for, *rented.assumed]
    nodes = -(-options.gpus // bought.gpus)
    node_price = float(price.amount) if price is not None else _node_price(bought, assumed)
    kilowatts = float(power.kw) * options.gpus if power is not None else _node_power(bought, assumed) * nodes
    if options.pue is None:
        assumed.append(Assumption("PUE", f"{DEFAULT_PUE:g}", "no source: enter that of your hall"))
    if options.energy_price is None:
        assumed.append(Assumption("energy price", DEFAULT_ENERGY_PRICE, ENERGY_SOURCE))
    assumed += [
        Assumption(name, "0", "not given")
        for name, value in {
            "network": shares["network_share"],
            **{key: float(each.amount) for key, each in yearly.items() if each is not None},
        }.items()
        if not value
    ]
    case = TcoCase(
        gpus=options.gpus,
        years=options.years,
        utilization=shares["utilization"],
        rented=rented.costs,
        owned=OwnedCosts(
            acquisition=node_price * nodes,
            power_kw=kilowatts,
            pue=DEFAULT_PUE if options.pue is None else options.pue,
            energy_price=float(energy.amount),
            idle_share=shares["idle_power"],
            network_share=shares["network_share"],
            residual=shares["residual"],
            financing=shares["financing"],
            **{f"{name}_yearly": float(each.amount) for name, each in yearly.items() if each is not None},
        ),
    )
    result = case.result()
    known = _known_ranges(rented, None if price is not None else bought, nodes)
    ranges, spread_only = ranges_of(case, shares["spread"], known)
    assumed.append(
        Assumption(
            "ranges",
            f"{shares['spread']:.0%} around {', '.join(name.replace('_', ' ') for name in spread_only)}",
            "no source: --spread sets it",
        )
    )
    bars, risk = tornado(case, ranges), simulate_risk(case, ranges, draws=options.draws, seed=options.seed)
    written = []
    if options.plots is not None:
        written = write_plots(
            case, bars, risk, options.plots, "png" if options.plot_format == "png" else "svg"
        )
    what = f"{options.gpus} x {bought.gpu}"
    if options.html is not None:
        write_atomically(options.html, tco_page(case, what, bars, risk, assumed))
        written.append(options.html)
    if json:
        document = {"system": options.system, "nodes": nodes, "gpu": place_of(catalog, options.system).gpu}
        document |= tco_to_json(result) | risk_to_json(bars, risk)
        emit_json(document | {"assumptions": assumptions_to_json(assumed), "files": list(map(str, written))})
    else:
        show_tco(result, what, bars, risk, assumed, out)
        for path in written:
            err.print(f"written: {path}", soft_wrap=True)


def _of_fleet(options: TcoOptions) -> tuple[TcoOptions, list[Assumption]]:
    """Return the options with what the racks of `--env` have, and these values with their place."""
    if options.environment is None:
        if options.site is not None:
            raise InputError("--site is a site of --env", remedy="give --env prod as well")
        return options, []
    if options.gpus is not None or options.system is not None:
        raise InputError("--env has the GPUs and the system", remedy="leave out --gpus and --system")
    workspace = Workspace.open(options.environment)
    plan = validate(workspace.target, root=workspace.root, bought=workspace.bought_blocks).plan
    racks = {each.site: each for each in plan.onprem if each.nodes}
    name = options.site
    if name is None and len(racks) == 1:
        name = next(iter(racks))
    if name is None or name not in racks:
        raise InputError(
            f"{options.site or options.environment} is not one site with racks",
            remedy=f"choose one with --site: {', '.join(racks) or '(the fleet has none)'}",
        )
    found = racks[name]
    power, owned = found.power, found.ownership
    yearly = {name: f"{12 * amount} USD" for name, amount in found.running_costs.items()}
    running = {name: text for name, text in yearly.items() if getattr(options, name) is None}
    filled = replace(
        options,
        gpus=found.nodes * found.gpus_per_node,
        system=found.system,
        years=_given(options.years, None if owned is None else owned.lifetime / timedelta(days=365)),
        pue=_given(options.pue, None if power is None else float(power.pue)),
        energy_price=options.energy_price or (None if power is None else f"{power.usd_per_kwh} USD/kWh"),
        acquisition=options.acquisition or (None if owned is None else f"{owned.acquisition} USD"),
        support=running.get("support", options.support),
        colocation=running.get("colocation", options.colocation),
        staff=running.get("staff", options.staff),
    )
    taken = {
        "GPUs": f"{filled.gpus:,}" if filled.gpus else "",
        "years": f"{filled.years:g}" if filled.years and options.years is None else "",
        "PUE": f"{filled.pue:g}" if filled.pue and options.pue is None else "",
        "energy price": filled.energy_price if filled.energy_price and options.energy_price is None else "",
        "acquisition": f"{filled.acquisition} per node"
        if filled.acquisition and not options.acquisition
        else "",
        **{name: f"{text} per year" for name, text in running.items()},
    }
    source = f"fleet file, site {found.site}"
    return filled, [Assumption(name, value, source) for name, value in taken.items() if value]


def _given(option: float | None, other: float | None) -> float | None:
    """Return the option, also if it is 0: then the calculator refuses it."""
    return other if option is None else option


def _refuse(options: TcoOptions) -> None:
    if options.savings_plan is not None:
        raise InputError(
            f"--savings-plan {options.savings_plan}: {SAVINGS_PLANS}",
            remedy="give the rate of the plan, divided by the GPUs of the instance: --reserved SHARE "
            "--reserved-price '4.10 USD/h'",
        )
    for option, value, possible in (
        ("--reserved-term", options.reserved_term, TERMS),
        ("--reserved-payment", options.reserved_payment, PAYMENTS),
        ("--plot-format", options.plot_format, ("svg", "png")),
    ):
        if value not in possible:
            raise InputError(
                f"{option}: unknown value {value!r}", remedy=f"write one of {', '.join(possible)}"
            )


def _rented(
    options: TcoOptions,
    catalog: Catalog,
    bought: System,
    shares: dict[str, float],
    rent: HourlyPrice | None,
    committed: HourlyPrice | None,
) -> RentedRange:
    if committed is not None and not shares["reserved"]:
        raise InputError("--reserved-price needs the share that is reserved", remedy="give --reserved 50%")
    mix = PurchaseMix(
        reserved=0.0 if committed is not None else shares["reserved"],
        term=cast("Term", options.reserved_term),
        payment=cast("Payment", options.reserved_payment),
        spot=shares["spot"],
        spot_overhead=shares["spot_overhead"],
    )
    place = place_of(catalog, options.instance_type or bought.gpu)
    found = rented_costs(catalog, place, options.region, mix, None if rent is None else rent.amount)
    if committed is None:
        return found
    costs = RentedCosts(found.costs.flexible, shares["reserved"], float(committed.amount))
    return RentedRange(costs, found.flexible_low, found.flexible_high, found.assumed)


def _known_ranges(rented: RentedRange, bought: System | None, nodes: int) -> list[InputRange]:
    """Return ranges that prices have: of spot by zone, of a system by source."""
    found = []
    if rented.flexible_low < rented.flexible_high:
        found.append(InputRange("cloud_price", rented.flexible_low, rented.flexible_high))
    if bought is not None and bought.price.amount is not None and bought.price.high is not None:
        low, high = (float(each) * nodes for each in (bought.price.amount, bought.price.high))
        found.append(InputRange("acquisition", low, high))
    return found


def _node_price(bought: System, assumed: list[Assumption]) -> float:
    if bought.price.amount is None:
        raise InputError(
            f"no price of {bought.name} is known ({bought.price.note})",
            remedy="give --acquisition '270000 USD' for each node",
        )
    most = f" to {bought.price.high:,}" if bought.price.high is not None else ""
    assumed.append(
        Assumption(
            "acquisition",
            f"{bought.price.amount:,}{most} USD per node: the lower one is used",
            f"{bought.price.source} ({bought.price.date}): {bought.price.note}",
        )
    )
    return float(bought.price.amount)


def _node_power(bought: System, assumed: list[Assumption]) -> float:
    if bought.power_kw_max is None:
        raise InputError(
            f"the power of {bought.name} is not known", remedy="give --power-per-gpu '1.3 kW' or the like"
        )
    assumed.append(
        Assumption("power", f"{bought.power_kw_max} kW per node at full load", "; ".join(bought.sources[:1]))
    )
    return float(bought.power_kw_max)
