"""Catalog: the facts of all data files, with look-ups for checks, plan and reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from msgspec import Struct

from gpufleet.catalog.models import (
    AddonSet,
    CapacityBlockRules,
    ImageFamily,
    ImageSet,
    InstanceType,
    NodeImage,
    Price,
    Region,
    ServicePrice,
    SlurmRelease,
    SoftwareLock,
    SpotPrices,
    System,
    UsageClass,
)
from gpufleet.catalog.prices import unknown_price
from gpufleet.catalog.storage_models import LustreEfaClients, LustreTier
from gpufleet.errors import InputError

ANY_REGION = "*"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` is probably meant to be; None if none is near.

    Among equally near names, one with the same letters wins: swapped letters are the most common error.
    """
    wanted = name.lower()
    names = {item.lower(): item for item in known}
    found = get_close_matches(wanted, names, n=5, cutoff=0.6)
    swapped = [item for item in found if sorted(item) == sorted(wanted)]
    return names[(swapped or found)[0]] if found else None


def _unknown(kind: str, name: str, known: Iterable[str], listing: str) -> InputError:
    names = list(known)
    guess = nearest(name, names)
    return InputError(
        f"unknown {kind} {name!r}" + (f"; did you mean {guess!r}?" if guess else ""),
        remedy=f"`gpufleet catalog {listing}` lists them",
    )


class Catalog(Struct, frozen=True):
    """All facts. Mappings are keyed by name (`instances`, `systems`, `locks`, `slurm_releases`, ...),
    `images` by component and version, `node_images` by family, release and version of Kubernetes, and
    `addon_sets` by name and version of Kubernetes."""

    instances: Mapping[str, InstanceType]
    regions: Mapping[str, Region]
    systems: Mapping[str, System]
    lustre_tiers: tuple[LustreTier, ...]
    lustre_efa_clients: LustreEfaClients
    locks: Mapping[str, SoftwareLock]
    slurm_releases: Mapping[str, SlurmRelease]
    images: Mapping[tuple[str, str], ImageSet]
    node_images: Mapping[tuple[ImageFamily, str, str], NodeImage]
    addon_sets: Mapping[tuple[str, str], AddonSet]
    services: Mapping[str, ServicePrice]
    capacity_block_rules: CapacityBlockRules

    def instance(self, name: str) -> InstanceType:
        """Return the instance type. Raises InputError with the nearest name for an unknown one."""
        if name not in self.instances:
            raise _unknown("instance type", name, self.instances, "instances")
        return self.instances[name]

    def find_instances(
        self,
        *,
        gpu: str | None = None,
        min_gpus: int = 0,
        efa: bool | None = None,
        region: str | None = None,
        usage: UsageClass | None = None,
    ) -> tuple[InstanceType, ...]:
        """Return the types that meet all conditions, most accelerators last. `gpu` is the name of a GPU or of
        a Neuron device, in any case (`h100`), and `min_gpus` counts either."""
        found = [
            item
            for item in self.instances.values()
            if (gpu is None or _accelerator(item).lower() == gpu.lower())
            and (item.accelerator.count if item.accelerator else 0) >= min_gpus
            and (efa is None or item.efa == efa)
            and (region is None or region in item.regions)
            and (usage is None or usage in item.usage_classes)
        ]
        return tuple(sorted(found, key=_by_accelerator))

    @property
    def gpus(self) -> tuple[str, ...]:
        """Return the GPUs of all instance types, sorted."""
        return tuple(sorted({item.gpu for item in self.instances.values() if item.gpu}))

    @property
    def accelerators(self) -> tuple[str, ...]:
        """Return the GPUs and Neuron devices of all instance types, sorted."""
        found = {item.accelerator.name for item in self.instances.values() if item.accelerator}
        return tuple(sorted(found))

    def suggest_instance(self, name: str) -> str | None:
        """Return the known type that `name` is probably meant to be."""
        return nearest(name, self.instances)

    def system(self, name: str) -> System:
        """Return the on-premises system. Raises InputError with the nearest name for an unknown one."""
        if name not in self.systems:
            raise _unknown("system", name, self.systems, "systems")
        return self.systems[name]

    def suggest_system(self, name: str) -> str | None:
        """Return the known system that `name` is probably meant to be."""
        return nearest(name, self.systems)

    def lock(self, channel: str) -> SoftwareLock:
        """Return the software lock of a channel. Raises InputError with the nearest for an unknown one."""
        if channel not in self.locks:
            raise _unknown("software channel", channel, self.locks, "software")
        return self.locks[channel]

    def suggest_channel(self, channel: str) -> str | None:
        """Return the known channel that `channel` is probably meant to be."""
        return nearest(channel, self.locks)

    def node_image(self, family: ImageFamily, release: str, kubernetes: str = "") -> NodeImage:
        """Return a release of an image of nodes. Raises InputError with the known ones for another."""
        found = self.node_images.get((family, release, kubernetes))
        if found is None:
            known = ", ".join(self.image_releases(family, kubernetes)) or "none"
            of = f" for Kubernetes {kubernetes}" if kubernetes else ""
            raise InputError(
                f"no facts of release {release} of the image {family}{of} are known",
                remedy=f"use one of {known}, or set `image` of the node group",
            )
        return found

    def image_releases(self, family: ImageFamily, kubernetes: str = "") -> tuple[str, ...]:
        """Return the known releases of an image, the newest first."""
        found = (item for item in self.node_images.values() if item.family == family)
        return tuple(sorted({item.release for item in found if item.kubernetes == kubernetes}, reverse=True))

    def addon_versions(self, channel: str, kubernetes: str) -> AddonSet:
        """Return the versions of EKS's add-ons that a software channel locks for a version of Kubernetes.

        Raises InputError if it has none.
        """
        lock = self.lock(channel)
        found = self.addon_sets.get((lock.eks_addons, kubernetes))
        if found is None:
            raise InputError(
                f"channel {channel} has no versions of add-ons for Kubernetes {kubernetes}",
                remedy=f"write one of {', '.join(lock.kubernetes)}",
            )
        return found

    def lustre_tier(self, deployment: str, throughput: int | None) -> LustreTier:
        """Return the tier of a deployment type and a throughput in MB/s per TiB (None if fixed).

        Raises InputError with the throughputs of the deployment type.
        """
        same = [tier for tier in self.lustre_tiers if tier.deployment == deployment]
        for tier in same:
            if tier.throughput == throughput:
                return tier
        if not same:
            known = sorted({tier.deployment for tier in self.lustre_tiers})
            raise _unknown("Lustre deployment type", deployment, known, "storage")
        allowed = self.lustre_throughputs(deployment)
        raise InputError(
            f"{deployment} has no tier with throughput {throughput} MB/s/TiB",
            remedy=f"use one of {', '.join(map(str, allowed))} MB/s/TiB" if allowed else "remove it",
        )

    def lustre_throughputs(self, deployment: str) -> tuple[int, ...]:
        """Return the possible throughputs (MB/s per TiB); empty if the deployment type fixes it."""
        return tuple(
            sorted(
                tier.throughput
                for tier in self.lustre_tiers
                if tier.deployment == deployment and tier.throughput is not None
            )
        )

    def zones(self, region: str) -> tuple[str, ...]:
        """Return the region's zones; empty for a region without data."""
        return tuple(zone.name for zone in self.regions[region].zones) if region in self.regions else ()

    def zone_id(self, zone: str) -> str | None:
        """Return a zone's id in the account that was read; other accounts may pair them differently."""
        for region in self.regions.values():
            for item in region.zones:
                if item.name == zone:
                    return item.zone_id
        return None

    def suggest_region(self, name: str) -> str | None:
        """Return the known region that `name` is probably meant to be."""
        return nearest(name, self.regions)

    def on_demand(self, instance: str, region: str) -> Price:
        """Return the on-demand price per instance-hour; unknown without data.

        Raises InputError for an unknown type.
        """
        found = self.instance(instance).on_demand.get(region)
        return found or unknown_price(
            "instance-hour", f"no on-demand price of {instance} in {region} is known"
        )

    def spot(self, instance: str, region: str) -> SpotPrices | None:
        """Return spot prices per instance-hour; None without data or offers."""
        return self.instance(instance).spot.get(region)

    def capacity_block(self, instance: str, region: str) -> Price:
        """Return the Capacity Block price per instance-hour; unknown without data for the region."""
        found = self.instance(instance).capacity_block.get(region)
        return found or unknown_price(
            "instance-hour", f"no Capacity Block price of {instance} in {region} is known"
        )

    def lustre_price(self, tier: LustreTier, region: str) -> Price:
        """Return the price per GB-month of a tier; unknown without data."""
        return tier.prices.get(region) or unknown_price(
            "GB-month", f"no price of {tier.title} in {region} is known"
        )

    def service_price(self, key: str, region: str) -> Price:
        """Return the price of a cloud service; unknown without data for the region.

        Raises InputError for an unknown key.
        """
        if key not in self.services:
            raise _unknown("service price", key, self.services, "prices")
        service = self.services[key]
        found = service.prices.get(region) or service.prices.get(ANY_REGION)
        return found or unknown_price(service.unit, f"no price of {service.title} in {region} is known")


def _accelerator(item: InstanceType) -> str:
    return item.accelerator.name if item.accelerator else ""


def _by_accelerator(item: InstanceType) -> tuple[str, int, int, str]:
    count = item.accelerator.count if item.accelerator else 0
    return _accelerator(item), count, item.vcpus, item.name
