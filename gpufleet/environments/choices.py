"""Choices for a template (regions, systems, numbers of nodes), and their values in a fleet file."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gpufleet.catalog import Catalog
from gpufleet.errors import InputError
from gpufleet.spec.rack_fabric import GBPS

DEFAULT_REGION = "us-east-1"
DEFAULT_SYSTEM = "dgx-h100"
DEFAULT_NODES = 31
"""One scalable unit of DGX H100: 32 positions, one of which is the fabric manager's."""

DEFAULT_CLOUD_NODES = 4
MOST_REGIONS = 10
MOST_NODES = 9_999

CLOUD_TEMPLATES = ("sandbox", "cloud", "hybrid")
RACK_TEMPLATES = ("onprem", "hybrid")
TRAINING_TEMPLATES = ("cloud", "hybrid")

# Preferred types first: those with known prices in most regions.
TRAINING = ("p5.48xlarge", "p5en.48xlarge", "p5e.48xlarge", "p4d.24xlarge")
SPOT = (
    ("g6e.xlarge", "g6e.2xlarge"),
    ("g6.xlarge", "g6.2xlarge"),
    ("g5.xlarge", "g5.2xlarge"),
    ("g4dn.xlarge", "g4dn.2xlarge"),
)
SERVICE = ("g6.xlarge", "g5.xlarge", "g4dn.xlarge")

_BESIDE_NODES = 8
"""Addresses of a rack's network for other hosts than GPU nodes: controllers, login, gateway."""


class Choices(Struct, frozen=True):
    """The user's choices for a template; choices that the template does not use are ignored.

    `zones` belong to any of the regions; a region without one gets its first two. `cloud_nodes` are the nodes
    of the training group, in the first zone of the first region. Raises `InputError` for figures out of
    range.
    """

    template: str
    regions: tuple[str, ...] = (DEFAULT_REGION,)
    zones: tuple[str, ...] = ()
    system: str = DEFAULT_SYSTEM
    nodes: int = DEFAULT_NODES
    cloud_nodes: int = DEFAULT_CLOUD_NODES

    def __post_init__(self) -> None:
        for index, region in enumerate(self.regions):
            if region in self.regions[:index]:
                raise InputError(f"region {region} occurs twice", remedy="write it once")
        if len(self.regions) > MOST_REGIONS:
            raise InputError(f"{len(self.regions)} regions", remedy=f"use {MOST_REGIONS} or fewer")
        if not 1 <= self.nodes <= MOST_NODES:
            raise InputError(f"{self.nodes} GPU nodes", remedy=f"use 1 to {MOST_NODES:,}")

    @property
    def has_cloud(self) -> bool:
        """Return whether the template has cloud sites."""
        return self.template in CLOUD_TEMPLATES

    @property
    def has_racks(self) -> bool:
        """Return whether the template has a rack site."""
        return self.template in RACK_TEMPLATES

    @property
    def has_training(self) -> bool:
        """Return whether the template has a group of nodes for training in the cloud."""
        return self.template in TRAINING_TEMPLATES


def fill(choices: Choices, catalog: Catalog, item: str, value: Any) -> Choices:
    """Return the choices with one field set from the user's text or number; regions also as a list.

    Raises `InputError` for a value that the catalog or the template does not allow.
    """
    taken: Any = value
    if item in ("regions", "zones"):
        listed = value.replace(",", " ").split() if isinstance(value, str) else value
        taken = tuple(dict.fromkeys(listed)) if item == "zones" else tuple(listed) or choices.regions
    elif item in ("nodes", "cloud_nodes"):
        if not str(value).isascii() or not str(value).isdigit():
            raise InputError(
                f"'{str(value)[:60]}' is not a number of nodes", remedy="write a whole number, such as 4"
            )
        taken = int(value)
    filled = replace(choices, **{item: taken})
    if item in ("regions", "zones", "cloud_nodes"):
        cloud_sites(filled, catalog, "")
    elif filled.has_racks:
        rack_site(filled, catalog)
    return filled


def cloud_sites(choices: Choices, catalog: Catalog, bucket: str) -> list[dict[str, Any]]:
    """Return the values of each cloud site, one per region: zones, networks, and offered types.

    Raises `InputError` for a region that the catalog does not list, with the nearest name, or that does not
    offer what the template needs.
    """
    sites = []
    _refuse_foreign_zones(choices, catalog)
    for index, region in enumerate(choices.regions if choices.has_cloud else ()):
        known = _region(region, catalog)
        name = catalog.regions[known].zone_ids[0].partition("-")[0]
        training, block = (
            _training(choices, catalog, known) if choices.has_training and not index else ("", False)
        )
        gpus = catalog.instance(training).gpu_count * choices.cloud_nodes if training else 0
        sites.append(
            {
                "name": name,
                "region": known,
                "zones": [zone for zone in choices.zones if zone in catalog.zones(known)]
                or catalog.zones(known)[:2],
                "cidr": f"10.{50 + index}.0.0/16",
                "training": training,
                "block": block,
                "nodes": choices.cloud_nodes,
                "gpus": gpus,
                "spot": _offered(choices, catalog, known, SPOT),
                "service": _offered(choices, catalog, known, [(each,) for each in SERVICE])[0],
                "bucket": f"{bucket}-datasets" if not index else f"{bucket}-{name}-data",
            }
        )
    return sites


def _refuse_foreign_zones(choices: Choices, catalog: Catalog) -> None:
    """Raise `InputError` for a zone outside the regions, with the nearest name."""
    known = [zone for region in choices.regions for zone in catalog.zones(region)]
    for zone in choices.zones:
        if zone not in known:
            near = get_close_matches(zone, known, n=1)
            raise InputError(
                f"no zone {zone[:60]!r} in {', '.join(choices.regions)}",
                remedy=(f"did you mean {near[0]}? " if near else "") + f"There are {', '.join(known)}",
            )


def _region(region: str, catalog: Catalog) -> str:
    if region in catalog.regions:
        return region
    near = catalog.suggest_region(region)
    raise InputError(
        f"no region {region[:60]!r}",
        remedy=(f"did you mean {near}? " if near else "") + f"There are {', '.join(sorted(catalog.regions))}",
    )


def _offered(
    choices: Choices, catalog: Catalog, region: str, candidates: Sequence[tuple[str, ...]]
) -> tuple[str, ...]:
    """Return the first candidates of which the region offers all types."""
    for types in candidates:
        if all(region in catalog.instance(each).regions for each in types):
            return types
    raise _lacks(
        choices, catalog, region, sorted({each.partition(".")[0] for types in candidates for each in types})
    )


def _training(choices: Choices, catalog: Catalog, region: str) -> tuple[str, bool]:
    """Return the type for training, and whether as a Capacity Block: one with a price, else on demand."""
    offered = [each for each in TRAINING if region in catalog.instance(each).regions]
    for name in offered:
        if catalog.capacity_block(name, region).known:
            rules = catalog.capacity_block_rules
            if not 1 <= choices.cloud_nodes <= rules.max_instances_per_block:
                raise InputError(
                    f"{choices.cloud_nodes} nodes in one Capacity Block",
                    remedy=f"use 1 to {rules.max_instances_per_block}",
                )
            return name, True
    if not offered:
        raise _lacks(choices, catalog, region, [each.partition(".")[0] for each in TRAINING])
    return offered[0], False


def _lacks(choices: Choices, catalog: Catalog, region: str, families: Sequence[str]) -> InputError:
    fitting = [name for name in sorted(catalog.regions) if _fits(choices, catalog, name)]
    return InputError(
        f"{region} offers none of the types of the template {choices.template}: {', '.join(families)}",
        remedy=f"use one of {', '.join(fitting)}; `gpufleet catalog refresh` reads current offerings",
    )


def _fits(choices: Choices, catalog: Catalog, region: str) -> bool:
    def has(names: Sequence[str]) -> bool:
        return all(region in catalog.instance(each).regions for each in names)

    training = not choices.has_training or any(has([each]) for each in TRAINING)
    return training and any(has(each) for each in SPOT) and any(has([each]) for each in SERVICE)


def rack_site(choices: Choices, catalog: Catalog) -> dict[str, Any]:
    """Return the values of the rack site: host ranges, a network for them, the speed of the fabric.

    Raises `InputError` for a system that the catalog does not list, with the nearest name.
    """
    if choices.system not in catalog.systems:
        near = catalog.suggest_system(choices.system)
        raise InputError(
            f"no system {choices.system[:60]!r}",
            remedy=(f"did you mean {near}? " if near else "") + f"There are {', '.join(catalog.systems)}",
        )
    system = catalog.system(choices.system)
    width = max(3, len(str(choices.nodes)))
    numbers = f"{1:0{width}}" if choices.nodes == 1 else f"[{1:0{width}}-{choices.nodes:0{width}}]"
    length = 32 - max(8, (choices.nodes + _BESIDE_NODES).bit_length())
    speeds = {gbps: name for name, gbps in GBPS.items() if not name.endswith("gbe")}
    return {
        "system": system.name,
        "nodes": f"{system.name.partition('-')[0]}{numbers}",
        "bmc": f"bmc{numbers}",
        "network": f"10.80.0.0/{length}",
        "speed": speeds.get(system.fabric_gbps or 0, "ndr"),
        "gpus": choices.nodes * system.gpus,
    }
