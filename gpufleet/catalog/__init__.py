"""Facts about what can be bought and run: cloud instance types, DGX/HGX systems, storage, software.

`load_catalog` reads the data files that ship with gpufleet (`data/README.md`), and merges what
`gpufleet catalog refresh` has written to a checkout's `.gpufleet/catalog/`: a type from the account replaces
the shipped hardware facts, a price from the account replaces the shipped price of the same type, region and
kind, and everything else stays as shipped (`overlay` has the rule).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from gpufleet.catalog.catalog import Catalog
from gpufleet.catalog.interfaces import InterfaceType, NetworkInterface, efa_layout, ena_layout
from gpufleet.catalog.models import (
    AddonSet,
    CapacityBlockRules,
    Fact,
    HelmChart,
    ImageSet,
    InstanceType,
    KeyPrices,
    NetworkCard,
    NodeImage,
    Price,
    Region,
    RegionRead,
    ServicePrice,
    SlurmRelease,
    SoftwareLock,
    SpotPrices,
    System,
)
from gpufleet.catalog.overlay import overlay
from gpufleet.catalog.price_tables import PricedInstances, service_prices
from gpufleet.catalog.prices import STALE_AFTER_DAYS, age_text, is_stale, price_age
from gpufleet.catalog.storage_models import LustreEfaClients, LustreTier
from gpufleet.catalog.store import (
    DEEP_LEARNING_IMAGES,
    EKS_IMAGES,
    INSTANCES,
    REGIONS,
    SERVICES,
    read_entries,
)

__all__ = [
    "DATA",
    "STALE_AFTER_DAYS",
    "AddonSet",
    "CapacityBlockRules",
    "Catalog",
    "HelmChart",
    "ImageSet",
    "InstanceType",
    "InterfaceType",
    "KeyPrices",
    "LustreTier",
    "NetworkCard",
    "NetworkInterface",
    "NodeImage",
    "Price",
    "Region",
    "RegionRead",
    "ServicePrice",
    "SlurmRelease",
    "SoftwareLock",
    "SpotPrices",
    "System",
    "age_text",
    "efa_layout",
    "ena_layout",
    "is_stale",
    "load_catalog",
    "price_age",
]

DATA = Path(__file__).parent / "data"

Entry = TypeVar("Entry", bound=Fact)


def load_catalog(override: Path | None = None) -> Catalog:
    """Return the catalog, read once per process and state of the files.

    `override` is a folder of `gpufleet catalog refresh` (`.gpufleet/catalog`), which need not exist. Raises
    InputError if a file in it cannot be read.
    """
    stamps = (
        tuple(
            (path, path.stat().st_mtime_ns)
            for path in (override / INSTANCES, override / REGIONS, override / SERVICES)
            if path.is_file()
        )
        if override is not None
        else ()
    )
    return _load(stamps)


@lru_cache(maxsize=4)
def _load(stamps: tuple[tuple[Path, int], ...]) -> Catalog:
    over = {path.name: path for path, _ in stamps}
    services = _entries(ServicePrice, "services.json", "services", "key")
    prices = service_prices(DATA, {item.key: item.unit for item in services.values()})
    if SERVICES in over:
        for item in read_entries(over[SERVICES], KeyPrices, "services"):
            prices[item.key] = {**prices.get(item.key, {}), **item.prices}
    hardware = _entries(InstanceType, INSTANCES, "instances", "name")
    instances: Mapping[str, InstanceType] = PricedInstances(hardware, DATA)
    if INSTANCES in over:
        read = read_entries(over[INSTANCES], InstanceType, "instances")
        instances = overlay(instances, read, read_entries(over[INSTANCES], RegionRead, "read"))
    regions = _entries(Region, REGIONS, "regions", "name")
    if REGIONS in over:
        regions |= {item.name: item for item in read_entries(over[REGIONS], Region, "regions")}
    (rules,) = read_entries(DATA / "capacity_blocks.json", CapacityBlockRules, "rules")
    (lustre_efa_clients,) = read_entries(DATA / "storage.json", LustreEfaClients, "lustre_efa_clients")
    return Catalog(
        instances=instances,
        regions=regions,
        systems=_entries(System, "systems.json", "systems", "name"),
        lustre_tiers=tuple(
            tier.model_copy(update={"prices": prices.get(tier.price_key, {})})
            for tier in read_entries(DATA / "storage.json", LustreTier, "lustre")
        ),
        lustre_efa_clients=lustre_efa_clients,
        locks=_entries(SoftwareLock, "software.json", "channels", "channel"),
        images={
            (item.component, item.version): item
            for item in read_entries(DATA / "images.json", ImageSet, "components")
        },
        node_images={
            (item.family, item.release, item.kubernetes): item
            for file in (EKS_IMAGES, DEEP_LEARNING_IMAGES)
            for item in read_entries(DATA / file, NodeImage, "images")
        },
        addon_sets={
            (item.name, item.kubernetes): item
            for item in read_entries(DATA / "eks_addons.json", AddonSet, "sets")
        },
        slurm_releases=_entries(SlurmRelease, "slurm.json", "releases", "release"),
        services={
            key: item.model_copy(update={"prices": prices.get(key, {})}) for key, item in services.items()
        },
        capacity_block_rules=rules,
    )


def _entries(model: type[Entry], file: str, key: str, name: str) -> dict[str, Entry]:
    return {getattr(entry, name): entry for entry in read_entries(DATA / file, model, key)}
