"""Merges an account's answers into the known catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpufleet.catalog.accelerator import Accelerator
from gpufleet.catalog.models import InstanceType, RegionRead


def overlay(
    known: Mapping[str, InstanceType], read: Iterable[InstanceType], asked: Iterable[RegionRead]
) -> dict[str, InstanceType]:
    """Return `known` merged with the types of `read`, keyed by name.

    In a region that was read, a type is offered if and only if the account offers it, and its spot prices are
    the account's, even if there are none. On-demand and Capacity Block prices that the account did not return
    stay, since they may still be right.
    """
    regions = {item.name: item for item in asked}
    merged = {name: _no_longer_offered(item, frozenset(regions)) for name, item in known.items()}
    for item in read:
        merged[item.name] = _lay_over(known.get(item.name), item, regions)
    return merged


def _no_longer_offered(item: InstanceType, asked: frozenset[str]) -> InstanceType:
    return item.model_copy(update={"regions": item.regions - asked}) if item.regions & asked else item


def _lay_over(
    known: InstanceType | None, read: InstanceType, asked: Mapping[str, RegionRead]
) -> InstanceType:
    if known is None:
        return read
    kept_spot = {
        region: spot for region, spot in known.spot.items() if region not in asked or not asked[region].spot
    }
    # A figure that AWS's pages contradict (memory of a Trainium2 device) comes from the same API.
    contradicted = known.unverified if known.accelerator is not None else ()
    same_cards = "card_peak_gbps" in contradicted and len(known.cards) == len(read.cards)
    return read.model_copy(
        update={
            "regions": (known.regions - frozenset(asked)) | read.regions,
            "on_demand": known.on_demand | read.on_demand,
            "spot": kept_spot | read.spot,
            "capacity_block": known.capacity_block | read.capacity_block,
            "gpudirect_rdma": known.gpudirect_rdma,
            "accelerator": _accelerator(known, read),
            "cards": known.cards if same_cards else read.cards,
            "unverified": tuple(name for name in known.unverified if _still_unknown(name, known, read)),
            "notes": known.notes,
        }
    )


def _accelerator(known: InstanceType, read: InstanceType) -> Accelerator | None:
    """Return the accelerator that was read, with the known memory where AWS's pages contradict the API."""
    if known.accelerator is None or read.accelerator is None:
        return read.accelerator or known.accelerator
    if "accelerator_memory" not in known.unverified:
        return read.accelerator
    return read.accelerator.model_copy(update={"memory_gib": known.accelerator.memory_gib})


def _still_unknown(name: str, known: InstanceType, read: InstanceType) -> bool:
    return name == "gpudirect_rdma" or known.accelerator is not None or read.accelerator is None
