"""Spot and on-demand: types that are sold this way, and fallbacks that can work."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, check
from gpufleet.spec.models import OnDemand, Spot


@check("spot-unsupported")
def spot_unsupported(fleet: Fleet) -> Iterator[FieldFinding]:
    """A type without the usage class `spot` (DescribeInstanceTypes) cannot start as a spot instance."""
    for each in fleet.groups():
        if not isinstance(each.option, Spot):
            continue
        for item in fleet.types(each.group):
            if "spot" not in item.usage_classes:
                yield FieldFinding(
                    (*each.path, "instance_types", each.group.instance_types.index(item.name)),
                    f"{item.name} is not sold on spot",
                    "use `on_demand` or `reserved` capacity, or another type",
                )


@check("on-demand-unsupported")
def on_demand_unsupported(fleet: Fleet) -> Iterator[FieldFinding]:
    """A type without the usage class `on-demand` cannot start on demand."""
    for each in fleet.groups():
        if not isinstance(each.option, OnDemand):
            continue
        for item in fleet.types(each.group):
            if "on-demand" not in item.usage_classes:
                yield FieldFinding(
                    (*each.path, "instance_types", each.group.instance_types.index(item.name)),
                    f"{item.name} is not sold on demand",
                    "use `reserved` capacity, or another type",
                )


@check("spot-price-unseen")
def spot_price_unseen(fleet: Fleet) -> Iterator[FieldFinding]:
    """A type without a spot price in a region is probably not offered there as spot."""
    for each in fleet.groups():
        region = each.site.region
        if not isinstance(each.option, Spot):
            continue
        for item in fleet.types(each.group):
            if "spot" in item.usage_classes and region in item.regions and region not in item.spot:
                yield FieldFinding(
                    (*each.path, "instance_types", each.group.instance_types.index(item.name)),
                    f"no spot price of {item.name} in {region} is known: it may not be offered, and it"
                    " counts with the on-demand price",
                    "run `gpufleet catalog refresh` with AWS credentials, or choose another type",
                    "warning",
                )


@check("spot-fallback")
def spot_fallback(fleet: Fleet) -> Iterator[FieldFinding]:
    """A fallback without an alternative, or after 'wait', has no effect."""
    for each in fleet.groups():
        spot = each.option
        if not isinstance(spot, Spot):
            continue
        path = (*each.option_path, "on_shortage")
        for index, step in enumerate(spot.on_shortage):
            if step in spot.on_shortage[:index]:
                yield FieldFinding((*path, index), f"'{step}' is listed twice", "list it once")
            elif "wait" in spot.on_shortage[:index]:
                yield FieldFinding(
                    (*path, index), f"'{step}' comes after 'wait' and is never used", "move 'wait' to the end"
                )
            elif step == "other-type" and len(each.group.instance_types) == 1:
                yield FieldFinding(
                    (*path, index),
                    f"'other-type' has no effect: {each.name} has one instance type",
                    "add a type to `instance_types`, or remove 'other-type'",
                    "warning",
                )


@check("spot-max-price")
def spot_max_price(fleet: Fleet) -> Iterator[FieldFinding]:
    """EKS managed node groups have no maximum price, and EKS rejects market options in their launch templates
    (EKS User Guide, "Customize managed nodes with launch templates"). An Auto Scaling group supports one, but
    below all known spot prices it gets no node."""
    for each in fleet.groups():
        spot = each.option
        if not isinstance(spot, Spot) or spot.max_price is None:
            continue
        where = (*each.option_path, "max_price")
        if each.site.scheduler == "kubernetes":
            yield FieldFinding(
                where,
                f"{each.name} is an EKS managed node group, which does not support a maximum price",
                "remove `max_price`: a spot node never costs more than an on-demand node",
            )
            continue
        seen = [price.low for item in fleet.types(each.group) if (price := item.spot.get(each.site.region))]
        if seen and spot.max_price.amount < min(seen):
            yield FieldFinding(
                where,
                f"{spot.max_price} is below all known spot prices in {each.site.region}: the lowest"
                f" is {min(seen)} USD/h",
                f"write '{min(seen)} USD/h' or more, or remove it",
                "warning",
            )


CHECKS = (spot_unsupported, on_demand_unsupported, spot_price_unseen, spot_fallback, spot_max_price)
