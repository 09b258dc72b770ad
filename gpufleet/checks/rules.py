"""What a check is: a rule with an identifier, and a function from a fleet to its findings."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

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
    Storage,
    Team,
)
from gpufleet.spec.source import SourceMap

SpecPath = tuple[str | int, ...]
"""The path of a field: keys and list indices, as in `("cloud", 0, "region")`."""


@dataclass(frozen=True, slots=True)
class FieldFinding:
    """A finding before its rule, file and line are added. `value` replaces what the user wrote at `path`."""

    path: SpecPath
    message: str
    remedy: str
    severity: Severity = "error"
    value: Any = None


@dataclass(frozen=True, slots=True)
class LocatedGroup:
    """A node group where it stands: its path, its site, itself."""

    path: SpecPath
    site: CloudSite
    group: NodeGroup

    @property
    def name(self) -> str:
        """How messages call it."""
        return f"node group {self.group.name!r}"

    @property
    def option(self) -> PurchasingOption:
        """How its nodes are bought."""
        return self.group.capacity.option

    @property
    def option_path(self) -> SpecPath:
        """Where that is declared."""
        return (*self.path, "capacity", *self.option.path)


@dataclass(frozen=True, slots=True)
class BoughtBlock:
    """A Capacity Block that is bought: what was asked for, and when it ends where that is known.

    `name` is that of its resources, `<fleet>-<environment>-<site>-<node group>`.
    """

    name: str
    start: str
    nodes: int
    duration: dt.timedelta
    instance_type: str
    end: dt.datetime | None = None


BoughtBlocks = Callable[[], Collection[BoughtBlock]]
"""Reads the Capacity Blocks that are bought already: from a state, when a check needs to know."""


def nothing_bought() -> Collection[BoughtBlock]:
    """No block: what there is without a state."""
    return ()


@dataclass(frozen=True)
class Fleet:
    """What checks judge: a fleet, the facts, where values stand in the file, and the time.

    `bought` is None where nothing is going to be bought. Only a fleet without errors has a plan and a cost.
    """

    spec: FleetSpec
    catalog: Catalog
    source: SourceMap
    now: dt.datetime
    bought: BoughtBlocks | None = nothing_bought

    @cached_property
    def plan(self) -> FleetPlan:
        """What follows from the fleet file, built once."""
        return build_plan(self.spec, self.catalog)

    @cached_property
    def cost(self) -> FleetCost:
        """What the plan costs, priced once."""
        return price_plan(self.plan, self.catalog)

    def cloud(self) -> Iterator[tuple[SpecPath, CloudSite]]:
        """The cloud sites with their paths."""
        for index, site in enumerate(self.spec.cloud):
            yield ("cloud", index), site

    def onprem(self) -> Iterator[tuple[SpecPath, OnPremSite]]:
        """The rack sites with their paths."""
        for index, site in enumerate(self.spec.onprem):
            yield ("onprem", index), site

    def groups(self) -> Iterator[LocatedGroup]:
        """All cloud node groups."""
        for path, site in self.cloud():
            for index, group in enumerate(site.node_groups):
                yield LocatedGroup((*path, "node_groups", index), site, group)

    def blocks(self) -> Iterator[tuple[LocatedGroup, CapacityBlock]]:
        """The node groups that are bought as Capacity Blocks."""
        for each in self.groups():
            if isinstance(each.option, CapacityBlock):
                yield each, each.option

    def reservations(self) -> Iterator[tuple[LocatedGroup, OnDemandReservation]]:
        """The node groups that are bought as On-Demand Capacity Reservations."""
        for each in self.groups():
            if isinstance(each.option, OnDemandReservation):
                yield each, each.option

    def reserved(self) -> Iterator[tuple[LocatedGroup, CapacityBlock | OnDemandReservation]]:
        """The node groups that are bought as either, in the order of the fleet file."""
        for each in self.groups():
            if isinstance(each.option, CapacityBlock | OnDemandReservation):
                yield each, each.option

    def bought_block(self, each: LocatedGroup, block: CapacityBlock) -> BoughtBlock | None:
        """The block that is bought for a group as its fleet file asks for it; one more would be another."""
        if block.start is None or block.duration is None or self.bought is None:
            return None
        name = f"{self.spec.fleet}-{self.spec.environment}-{each.site.site}-{each.group.name}"
        asked = (name, block.start.text, block.nodes, block.duration.delta, each.group.instance_types[0])
        return next(
            (
                held
                for held in self.bought()
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
        for path, rack_site in self.onprem():
            for index, team in enumerate(rack_site.teams):
                yield (*path, "teams", index), rack_site.site, team

    def types(self, group: NodeGroup) -> tuple[InstanceType, ...]:
        """The instance types of a group that the catalog knows; `instance-type-known` tells the rest."""
        known = self.catalog.instances
        return tuple(known[name] for name in group.instance_types if name in known)


Judge = Callable[[Fleet], Iterator[FieldFinding]]


@dataclass(frozen=True, slots=True)
class Check:
    """A rule and the function that finds what breaks it; the reason is the function's docstring.

    `refers` are the fields that hold what the rule looks up (names of teams, hosts of the site): where
    one of them is broken, it is unknown whether something is missing in it.
    """

    rule: str
    judge: Judge
    refers: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why the rule exists, and its source."""
        return (self.judge.__doc__ or "").strip()


def check(rule: str, *refers: str) -> Callable[[Judge], Check]:
    """Make a function the check of a rule; `rule` is in kebab-case and unique. See `Check` for `refers`."""

    def wrap(judge: Judge) -> Check:
        return Check(rule, judge, refers)

    return wrap


def listed(items: Sequence[str], limit: int = 8) -> str:
    """Items as text, the first `limit` of them."""
    more = len(items) - limit
    return ", ".join(items[:limit]) + (f" and {more} more" if more > 0 else "")


def did_you_mean(guess: str | None, otherwise: str) -> str:
    """A remedy that names the nearest known value, or what to do where none is near."""
    return f"did you mean {guess!r}? If not, {otherwise}" if guess is not None else otherwise


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like `name`, if any is."""
    return next(iter(get_close_matches(name, list(known), n=1)), None)
