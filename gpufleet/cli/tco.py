"""`gpufleet tco`: GPUs rented in the cloud against GPUs bought and run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpufleet.cli.arguments import Json
from gpufleet.cli.checkout_catalog import checkout_catalog
from gpufleet.cli.console import emit_json, out
from gpufleet.cli.options_read import OptionReader
from gpufleet.errors import InputError
from gpufleet.spec.quantity import EnergyPrice, HourlyPrice, Money, Power

if TYPE_CHECKING:
    from gpufleet.catalog import Catalog, System
    from gpufleet.economics.json import Assumption
    from gpufleet.economics.places import HourlyRate

DEFAULT_REGION = "us-east-1"
DEFAULT_PUE = 1.25
DEFAULT_ENERGY_PRICE = "0.1 USD/kWh"
ENERGY_SOURCE = "average industrial price of 17 US data-centre markets, 2026 (EIA)"


def register(app: typer.Typer) -> None:
    """Add the command of this module to `app`."""
    app.command()(tco)


def tco(
    gpus: Annotated[int, typer.Option("--gpus", help="Number of GPUs.")],
    system: Annotated[str, typer.Option("--system", help="What is bought, such as dgx-h100.")],
    years: Annotated[float, typer.Option("--years", help="Years of use, up to 20.")],
    utilization: Annotated[str, typer.Option("--utilization", help="Used share of all hours, such as 70%.")],
    instance_type: Annotated[
        str | None, typer.Option("--instance-type", help="What is rented; default: the type with this GPU.")
    ] = None,
    region: Annotated[str, typer.Option("--region", help="Where it is rented.")] = DEFAULT_REGION,
    cloud_price: Annotated[
        str | None,
        typer.Option("--cloud-price", help="USD per GPU-hour, such as '6.88 USD/h'; default: on-demand."),
    ] = None,
    acquisition: Annotated[
        str | None, typer.Option("--acquisition", help="Price of a node; default: the catalog's.")
    ] = None,
    power_per_gpu: Annotated[
        str | None,
        typer.Option("--power-per-gpu", help="Such as '0.7 kW'; default: the system's maximum power."),
    ] = None,
    idle_power: Annotated[
        str, typer.Option("--idle-power", help="Share of the power that is drawn without load.")
    ] = "0%",
    pue: Annotated[
        float, typer.Option("--pue", help="Power usage effectiveness, from 1 to 3.")
    ] = DEFAULT_PUE,
    energy_price: Annotated[
        str, typer.Option("--energy-price", help="Such as '0.11 USD/kWh'.")
    ] = DEFAULT_ENERGY_PRICE,
    network_share: Annotated[
        str, typer.Option("--network-share", help="Share of switches and cables in the price of the whole.")
    ] = "0%",
    residual: Annotated[
        str, typer.Option("--residual", help="Share of the price that a buyer pays at the end.")
    ] = "0%",
    financing: Annotated[str, typer.Option("--financing", help="Yearly interest, such as 6%.")] = "0%",
    support: Annotated[str, typer.Option("--support", help="Support contracts per year.")] = "0 USD",
    colocation: Annotated[str, typer.Option("--colocation", help="Colocation per year.")] = "0 USD",
    staff: Annotated[str, typer.Option("--staff", help="Staff per year.")] = "0 USD",
    json: Json = False,
) -> None:
    """Compare renting and buying GPUs over years, with the utilization and the month where they are equal.

    Rent is paid for used hours, what is bought is paid used or not. Values that were not given are listed as
    assumptions; parts that are 0 by default (network, support, staff) make buying look less expensive.
    """
    from gpufleet.economics.json import Assumption, assumptions_to_json, tco_to_json
    from gpufleet.economics.places import place_of
    from gpufleet.economics.tco import OwnedCosts, compare
    from gpufleet.report.economics_text import show_tco

    read = OptionReader()
    shares = {
        name: read.share(f"--{name.replace('_', '-')}", text)
        for name, text in (
            ("utilization", utilization),
            ("idle_power", idle_power),
            ("network_share", network_share),
            ("residual", residual),
            ("financing", financing),
        )
    }
    yearly = {
        name: read.quantity(Money, f"--{name}", text)
        for name, text in (("support", support), ("colocation", colocation), ("staff", staff))
    }
    energy = read.quantity(EnergyPrice, "--energy-price", energy_price)
    rent = read.optional(HourlyPrice, "--cloud-price", cloud_price)
    price = read.optional(Money, "--acquisition", acquisition)
    power = read.optional(Power, "--power-per-gpu", power_per_gpu)
    read.finish()
    if energy is None or any(amount is None for amount in yearly.values()):
        raise AssertionError("finish raises for what cannot be read")
    catalog = checkout_catalog()
    bought = catalog.system(system)
    assumed: list[Assumption] = []
    if rent is None:
        rate = _rent(catalog, bought, instance_type, region)
        hourly = float(rate.amount or 0)
        assumed.append(Assumption("cloud price", f"{hourly:g} USD per GPU-hour ({rate.note})", rate.source))
    else:
        hourly = float(rent.amount)
    nodes = -(-gpus // bought.gpus)
    node_price = float(price.amount) if price is not None else _node_price(bought, assumed)
    kilowatts = float(power.kw) * gpus if power is not None else _node_power(bought, assumed) * nodes
    if pue == DEFAULT_PUE:
        assumed.append(Assumption("PUE", f"{pue:g}", "no source: enter that of your hall"))
    if energy_price == DEFAULT_ENERGY_PRICE:
        assumed.append(Assumption("energy price", energy_price, ENERGY_SOURCE))
    assumed += [
        Assumption(name, "0", "not given")
        for name, value in {
            "network": shares["network_share"],
            **{key: float(each.amount) for key, each in yearly.items() if each is not None},
        }.items()
        if not value
    ]
    result = compare(
        gpus=gpus,
        years=years,
        utilization=shares["utilization"],
        cloud_gpu_hour=hourly,
        owned=OwnedCosts(
            acquisition=node_price * nodes,
            power_kw=kilowatts,
            pue=pue,
            energy_price=float(energy.amount),
            idle_share=shares["idle_power"],
            network_share=shares["network_share"],
            residual=shares["residual"],
            financing=shares["financing"],
            **{f"{name}_yearly": float(each.amount) for name, each in yearly.items() if each is not None},
        ),
    )
    if json:
        document = {"system": system, "nodes": nodes, "gpu": place_of(catalog, system).gpu}
        emit_json(document | tco_to_json(result) | {"assumptions": assumptions_to_json(assumed)})
    else:
        show_tco(result, f"{gpus} x {bought.gpu}", assumed, out)


def _rent(catalog: Catalog, bought: System, instance_type: str | None, region: str) -> HourlyRate:
    """Return USD per GPU-hour on demand. Raises InputError if no price is known."""
    from gpufleet.economics.places import gpu_hour, place_of

    rate = gpu_hour(catalog, place_of(catalog, instance_type or bought.gpu), region)
    if rate.amount is None:
        raise InputError(f"cloud price: {rate.reason}", remedy="give --cloud-price '6.88 USD/h'")
    return rate


def _node_price(bought: System, assumed: list[Assumption]) -> float:
    from gpufleet.economics.json import Assumption

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
    from gpufleet.economics.json import Assumption

    if bought.power_kw_max is None:
        raise InputError(
            f"the power of {bought.name} is not known", remedy="give --power-per-gpu '1.3 kW' or the like"
        )
    assumed.append(
        Assumption("power", f"{bought.power_kw_max} kW per node at full load", "; ".join(bought.sources[:1]))
    )
    return float(bought.power_kw_max)
