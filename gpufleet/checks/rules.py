"""What a check is: a rule with an identifier, and a function from a fleet to its findings."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from msgspec import Struct

from gpufleet.catalog import Catalog, InstanceType
from gpufleet.findings import Severity
from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.pricing import FleetCost, price_plan
from gpufleet.spec.models import (
    Bucket,
    CapacityBlock,
    CloudSite,
    FleetSpec,
    Lustre,
    NodeGroup,
    OnDemandReservation,
    OnPremSite,
    PurchasingOption,
    SlurmServers,
    Storage,
    Team,
)
from gpufleet.spec.source import SourceMap

SpecPath = tuple[str | int, ...]
"""The path of a field: keys and list indices, as in `("cloud", 0, "region")`."""


class FieldFinding(Struct, frozen=True):
    """A finding without rule, file and line. `value` replaces the value in the fleet file at `path`."""

    path: SpecPath
    message: str
    remedy: str
    severity: Severity = "error"
    value: Any = None


class LocatedGroup(Struct, frozen=True):
    """A node group with its path and site."""

    path: SpecPath
    site: CloudSite
    group: NodeGroup

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"node group {self.group.name!r}"

    @property
    def option(self) -> PurchasingOption:
        """The purchasing option of its nodes."""
        return self.group.capacity.option

    @property
    def option_path(self) -> SpecPath:
        """The path of the purchasing option."""
        return (*self.path, "capacity", *self.option.path)


class BoughtBlock(Struct, frozen=True):
    """A purchased Capacity Block: its request, and its end if it is known.

    `name` is the name of its resources, `<fleet>-<environment>-<site>-<node group>`.
    """

    name: str
    start: str
    nodes: int
    duration: dt.timedelta
    instance_type: str
    end: dt.datetime | None = None


BoughtBlocks = Callable[[], Collection[BoughtBlock]]
"""Reads the purchased Capacity Blocks from a state when a check needs them."""


def nothing_bought() -> Collection[BoughtBlock]:
    """Return no blocks, for fleets without a state."""
    return ()


@dataclass(frozen=True)
class Fleet:
    """The input of checks: fleet file, catalog, positions of values in the file, and time.

    `bought` is None for commands that buy nothing. Only a fleet without errors has a plan and a cost.
    """

    spec: FleetSpec
    catalog: Catalog
    source: SourceMap
    now: dt.datetime
    bought: BoughtBlocks | None = nothing_bought

    @cached_property
    def plan(self) -> FleetPlan:
        """The plan, built once."""
        return build_plan(self.spec, self.catalog)

    @cached_property
    def cost(self) -> FleetCost:
        """The cost of the plan, calculated once."""
        return price_plan(self.plan, self.catalog)

    def cloud(self) -> Iterator[tuple[SpecPath, CloudSite]]:
        """The cloud sites with their paths."""
        for index, site in enumerate(self.spec.cloud):
            yield ("cloud", index), site

    def onprem(self) -> Iterator[tuple[SpecPath, OnPremSite]]:
        """The rack sites with their paths."""
        for index, site in enumerate(self.spec.onprem):
            yield ("onprem", index), site

    def servers(self) -> Iterator[tuple[SpecPath, CloudSite, SlurmServers]]:
        """The cloud sites with a Slurm of their own; the path is that of its servers."""
        for path, site in self.cloud():
            if site.slurm is not None and site.slurm.servers is not None:
                yield (*path, "slurm", "servers"), site, site.slurm.servers

    def people(self) -> Iterator[tuple[SpecPath, str, OnPremSite | SlurmServers]]:
        """What has users and teams whose hosts roles configure, with the name of its site."""
        for path, servers_site, servers in self.servers():
            yield path, servers_site.site, servers
        for path, site in self.onprem():
            yield path, site.site, site

    def groups(self) -> Iterator[LocatedGroup]:
        """All cloud node groups."""
        for path, site in self.cloud():
            for index, group in enumerate(site.node_groups):
                yield LocatedGroup((*path, "node_groups", index), site, group)

    def blocks(self) -> Iterator[tuple[LocatedGroup, CapacityBlock]]:
        """The node groups with a Capacity Block."""
        for each in self.groups():
            if isinstance(each.option, CapacityBlock):
                yield each, each.option

    def reservations(self) -> Iterator[tuple[LocatedGroup, OnDemandReservation]]:
        """The node groups with an On-Demand Capacity Reservation."""
        for each in self.groups():
            if isinstance(each.option, OnDemandReservation):
                yield each, each.option

    def reserved(self) -> Iterator[tuple[LocatedGroup, CapacityBlock | OnDemandReservation]]:
        """The node groups with either, in the order of the fleet file."""
        for each in self.groups():
            if isinstance(each.option, CapacityBlock | OnDemandReservation):
                yield each, each.option

    @cached_property
    def _bought(self) -> Collection[BoughtBlock]:
        """The purchased blocks, read once."""
        return () if self.bought is None else self.bought()

    def bought_block(self, each: LocatedGroup, block: CapacityBlock) -> BoughtBlock | None:
        """The purchased block that matches the group in the fleet file, None if there is none."""
        if block.start is None or block.duration is None:
            return None
        name = f"{self.spec.fleet}-{self.spec.environment}-{each.site.site}-{each.group.name}"
        asked = (name, block.start.text, block.nodes, block.duration.delta, each.group.instance_types[0])
        return next(
            (
                held
                for held in self._bought
                if (held.name, held.start, held.nodes, held.duration, held.instance_type) == asked
            ),
            None,
        )

    def storage(self) -> Iterator[tuple[SpecPath, CloudSite, Storage]]:
        """All storage of cloud sites."""
        for path, site in self.cloud():
            for index, item in enumerate(site.storage):
                yield (*path, "storage", index), site, item

    def lustre(self) -> Iterator[tuple[SpecPath, CloudSite, Storage, Lustre]]:
        """All FSx for Lustre file systems; the path is that of `lustre`."""
        for path, site, item in self.storage():
            if item.lustre is not None:
                yield (*path, "lustre"), site, item, item.lustre

    def buckets(self) -> Iterator[tuple[SpecPath, CloudSite, Storage, Bucket]]:
        """All buckets; the path is that of `bucket`."""
        for path, site, item in self.storage():
            if item.bucket is not None:
                yield (*path, "bucket"), site, item, item.bucket

    def teams(self) -> Iterator[tuple[SpecPath, str, Team]]:
        """All teams with the name of their site."""
        for path, site in self.cloud():
            for index, team in enumerate(site.kubernetes.teams if site.kubernetes is not None else ()):
                yield (*path, "kubernetes", "teams", index), site.site, team
        for path, name, people in self.people():
            for index, account in enumerate(people.teams):
                yield (*path, "teams", index), name, account

    def types(self, group: NodeGroup) -> tuple[InstanceType, ...]:
        """The group's instance types in the catalog. `instance-type-known` reports the others."""
        known = self.catalog.instances
        return tuple(known[name] for name in group.instance_types if name in known)


CheckFunction = Callable[[Fleet], Iterator[FieldFinding]]


class Check(Struct, frozen=True):
    """A rule and the function that yields its findings. The reason is the function's docstring.

    `refers` are the fields that the rule looks names up in, such as teams or hosts. If one of them is
    invalid, the rule is skipped, since the name could be in it.
    """

    rule: str
    run: CheckFunction
    refers: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why the rule exists, and its source."""
        return (self.run.__doc__ or "").strip()


def check(rule: str, *refers: str) -> Callable[[CheckFunction], Check]:
    """Return a decorator that makes a function the check of `rule` (unique, kebab-case). See `Check`."""

    def wrap(function: CheckFunction) -> Check:
        return Check(rule, function, refers)

    return wrap


def listed(items: Sequence[str], limit: int = 8) -> str:
    """Return the first `limit` items as text."""
    more = len(items) - limit
    return ", ".join(items[:limit]) + (f" and {more} more" if more > 0 else "")


def did_you_mean(guess: str | None, otherwise: str) -> str:
    """Return a remedy with the nearest known value, or `otherwise` if there is none."""
    return f"did you mean {guess!r}? If not, {otherwise}" if guess is not None else otherwise


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to `name`, None if none is similar."""
    return next(iter(get_close_matches(name, list(known), n=1)), None)
