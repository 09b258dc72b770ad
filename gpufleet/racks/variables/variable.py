"""A role variable: its hosts, and its value from the plan. argument_specs has the description."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

from msgspec import Struct, field

from gpufleet.catalog import Catalog, SoftwareLock, System
from gpufleet.plan.models import CloudSitePlan, HostPlan, OnPremSitePlan
from gpufleet.racks.systems import system_of

Scope = Literal["fleet", "site", "host"]
"""`fleet`: all hosts, cloud nodes too. `site`: every host of a rack site. `host`: each its own."""


class LaunchedSite(Struct, frozen=True):
    """A cloud site whose nodes a Slurm launches, what the stack says of it (`launches`), which is what the
    role slurm_cloud takes, what a node of each group costs at most, in USD per hour, and what the stack says
    of its own servers (see `gpufleet.stacks.slurm_servers`)."""

    plan: CloudSitePlan
    launches: Mapping[str, Any]
    node_hours: Mapping[str, Decimal | None] = field(default_factory=dict)
    servers: Mapping[str, Any] = field(default_factory=dict)


class Context(Struct, frozen=True):
    """The input of a variable's value. A `fleet` value has only the lock and no site.

    `launched` are the cloud sites whose nodes the site's Slurm launches.
    """

    lock: SoftwareLock
    _site: OnPremSitePlan | None = None
    _catalog: Catalog | None = None
    _host: HostPlan | None = None
    launched: Sequence[LaunchedSite] = ()

    @property
    def site(self) -> OnPremSitePlan:
        """The rack site; asking for it in a `fleet` value is a fault of the entry."""
        if self._site is None:
            raise LookupError("a fleet-wide variable has no site")
        return self._site

    @property
    def catalog(self) -> Catalog:
        """The catalog; only values of sites and hosts have it."""
        if self._catalog is None:
            raise LookupError("a fleet-wide variable has no catalog")
        return self._catalog

    @property
    def system(self) -> System:
        """The system type of the site's GPU nodes."""
        return system_of(self.site, self.catalog)

    @property
    def host(self) -> HostPlan:
        """The host; only `host` values have one."""
        if self._host is None:
            raise LookupError("only a variable of a host has a host")
        return self._host

    def file_system(self, name: str) -> str | None:
        """The NFS source of a file system that the stack made for the site's servers; None if it has none."""
        exports = (each.servers.get(name) for each in self.launched)
        return next((str(each) for each in exports if each), None)

    def hosts(self, role: str) -> list[HostPlan]:
        """The site's hosts of one role, in the order of the fleet file."""
        return [host for host in self.site.hosts if host.role == role]


class Variable(Struct, frozen=True):
    """One variable of one role.

    Its type and meaning are in the role's argument_specs. `value` returns None where the plan has
    nothing to say: the variable is left out then, and the role's default holds.
    """

    role: str
    name: str
    scope: Scope
    value: Callable[[Context], Any]

    @property
    def full_name(self) -> str:
        """The name in the inventory, which starts with the role's."""
        return f"{self.role}_{self.name}"


def named(hosts: list[HostPlan]) -> list[dict[str, str]]:
    """Hosts as roles get them: what they are called, and where they are reached."""
    return [{"name": host.name, "address": host.address} for host in hosts]
