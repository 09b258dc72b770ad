"""Spot against on-demand: prices, and what remains of the saving after interruptions."""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct

from gpufleet.catalog import Catalog, SpotPrices
from gpufleet.economics.checkpoints import CheckpointPlan
from gpufleet.errors import InputError
from gpufleet.pricing.rates import Prices, Rate, UnpricedError


class SpotComparison(Struct, frozen=True):
    """USD per instance-hour. `saving_fraction` is 1 - spot x slowdown / on-demand; it may be negative.

    `spot` is None if no spot price is known, with `reason`; then there is no saving either.
    """

    instance_type: str
    region: str
    on_demand: Decimal | None
    on_demand_source: str
    on_demand_date: str | None
    spot: Decimal | None
    spot_low: Decimal | None
    spot_high: Decimal | None
    spot_source: str
    spot_date: str | None
    slowdown: float
    saving_fraction: float | None
    reason: str


def compare_spot(
    catalog: Catalog, instance_type: str, region: str, *, checkpoints: CheckpointPlan | None = None
) -> SpotComparison:
    """Return the comparison by the median of the zones. `checkpoints` has the reclaim rate as its MTBF.

    A type without a spot price is not offered or was not read: never a price of 0. If spot costs as much as
    on-demand, the saving is 0.
    """
    item = catalog.instance(instance_type)
    if region not in catalog.regions:
        raise InputError(f"unknown region {region!r}", remedy="`gpufleet catalog regions` lists them")
    if item.regions and region not in item.regions:
        raise InputError(
            f"{instance_type} is not offered in {region}",
            remedy=f"it is in {', '.join(sorted(item.regions))}",
        )
    on_demand = _known(catalog, instance_type, region)
    spot: SpotPrices | None = catalog.spot(instance_type, region)
    slowdown = checkpoints.expected_slowdown if checkpoints else 1.0
    reasons = []
    if on_demand is None:
        reasons.append(f"no on-demand price of {instance_type} in {region} is known")
    if spot is None:
        reasons.append(
            f"no spot price of {instance_type} in {region} is known: it may not be offered as spot"
        )
    saving = None
    if on_demand is not None and spot is not None:
        saving = 1 - float(spot.median) * slowdown / float(on_demand.expected)
    return SpotComparison(
        instance_type=instance_type,
        region=region,
        on_demand=on_demand.expected if on_demand else None,
        on_demand_source=on_demand.source if on_demand else "",
        on_demand_date=on_demand.date if on_demand else None,
        spot=spot.median if spot else None,
        spot_low=spot.low if spot else None,
        spot_high=spot.high if spot else None,
        spot_source=spot.source if spot else "",
        spot_date=spot.date.isoformat() if spot and spot.date else None,
        slowdown=slowdown,
        saving_fraction=saving,
        reason="; ".join(reasons),
    )


def _known(catalog: Catalog, instance_type: str, region: str) -> Rate | None:
    """Return the on-demand price of the region; an estimate from other regions is none."""
    try:
        rate = Prices(catalog, region).node(instance_type, "on-demand")
    except UnpricedError:
        return None
    return None if rate.estimated else rate
