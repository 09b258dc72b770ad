"""What a GPU-hour costs when it is bought in several ways: reserved, spot, on-demand."""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct

from gpufleet.catalog import Catalog
from gpufleet.catalog.reserved import Payment, Term, reserved_price
from gpufleet.economics.json import Assumption
from gpufleet.economics.places import GpuPlace, HourlyRate, gpu_hour
from gpufleet.economics.tco import RentedCosts
from gpufleet.errors import InputError

SAVINGS_PLANS = (
    "no price of Savings Plans is known: the catalog does not have their rates, which AWS publishes "
    "(DescribeSavingsPlansOfferingRates)"
)


class PurchaseMix(Struct, frozen=True):
    """Shares of the GPUs. `reserved` are paid always; `spot` is the share of the work beyond them.

    `spot_overhead` is the time that interruptions add (0.1: 10 %). The rest is on-demand.
    """

    reserved: float = 0.0
    term: Term = "1y"
    payment: Payment = "none"
    spot: float = 0.0
    spot_overhead: float = 0.0


class RentedRange(Struct, frozen=True):
    """The costs with the lowest and highest `flexible` price, equal without a range."""

    costs: RentedCosts
    flexible_low: float
    flexible_high: float
    assumed: tuple[Assumption, ...]


def rented_costs(
    catalog: Catalog, place: GpuPlace, region: str, mix: PurchaseMix, on_demand: Decimal | None = None
) -> RentedRange:
    """Return USD per GPU-hour for a mix; `on_demand` replaces the catalog's price.

    Raises InputError if a price that the mix needs is not known: an unknown price is never 0.
    """
    assumed: list[Assumption] = []
    low = high = usual = 0.0
    if mix.spot < 1:
        usual = low = high = float(_on_demand(catalog, place, region, on_demand, assumed)) * (1 - mix.spot)
    if mix.spot:
        rate = _spot(catalog, place, region)
        factor = mix.spot * (1 + mix.spot_overhead)
        usual += float(rate.amount or 0) * factor
        low += float(rate.minimum or 0) * factor
        high += float(rate.maximum or 0) * factor
        text = f"{rate.amount:g} USD per GPU-hour, {rate.minimum:g} to {rate.maximum:g} by zone ({rate.note})"
        assumed.append(Assumption("spot price", text, _sourced(rate.source, rate.date)))
        if not mix.spot_overhead:
            assumed.append(
                Assumption("spot overhead", "0%", "not given: `gpufleet spot simulate` computes it")
            )
    committed = _committed(catalog, place, region, mix, assumed) if mix.reserved else 0.0
    return RentedRange(RentedCosts(usual, mix.reserved, committed), low, high, tuple(assumed))


def _on_demand(
    catalog: Catalog, place: GpuPlace, region: str, given: Decimal | None, assumed: list[Assumption]
) -> Decimal:
    if given is not None:
        return given
    rate = gpu_hour(catalog, place, region)
    if rate.amount is None:
        raise InputError(f"cloud price: {rate.reason}", remedy="give --cloud-price '6.88 USD/h'")
    text = f"{rate.amount:g} USD per GPU-hour ({rate.note})"
    assumed.append(Assumption("cloud price", text, _sourced(rate.source, rate.date)))
    return rate.amount


def _spot(catalog: Catalog, place: GpuPlace, region: str) -> HourlyRate:
    name = place.instance_type
    if name is None or catalog.spot(name, region) is None:
        raise InputError(
            f"no spot price of {name or place.name} in {region} is known: it may not be offered as spot",
            remedy="leave --spot out, or name another --instance-type or --region",
        )
    return gpu_hour(catalog, place, region, "spot")


def _committed(
    catalog: Catalog, place: GpuPlace, region: str, mix: PurchaseMix, assumed: list[Assumption]
) -> float:
    """Return USD per reserved GPU-hour. A price of before a change of on-demand is not used."""
    what = f"{place.instance_type} in {region}, {mix.term}, upfront {mix.payment}"
    remedy = "give --reserved-price '4.10 USD/h' (per GPU-hour) from your offer, or another term"
    found = None
    if place.instance_type is not None:
        found = reserved_price(place.instance_type, region, mix.term, mix.payment)
    if found is None:
        raise InputError(f"no reserved price of {what} is known", remedy=remedy)
    today = catalog.on_demand(place.instance_type or "", region).amount
    if today != found.on_demand_then:
        raise InputError(
            f"the reserved price of {what} is of {found.date}, when on-demand was"
            f" {found.on_demand_then:,} USD/h; it is {today or 'unknown'} now",
            remedy=remedy,
        )
    hourly = float(found.amount) / place.gpus_per_node
    assumed.append(
        Assumption(
            "reserved price", f"{hourly:g} USD per GPU-hour ({what})", _sourced(found.source, str(found.date))
        )
    )
    return hourly


def _sourced(source: str, date: str | None) -> str:
    return f"{source}, {date}" if date else source
