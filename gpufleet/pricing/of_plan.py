"""The cost of a plan.

The lines have the types and names of the resources that the stack's program creates from the plan, so that
plan and stack have the same cost and assumptions apply to both.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import assert_never

from msgspec.structs import replace

from gpufleet.catalog import Catalog
from gpufleet.kinds import ALWAYS_SUFFIX, DNS_ADDRESSES, EXTENSION_SUFFIX, RUNNING_COSTS
from gpufleet.plan.capacity_models import (
    CapacityBlockPlan,
    CapacityPlan,
    ExistingBlockPlan,
    ExistingReservationPlan,
    OnDemandPlan,
    ReservationGroupPlan,
    ReservationPlan,
    SpotPlan,
)
from gpufleet.plan.karpenter import NodePoolPlan
from gpufleet.plan.models import (
    CloudSitePlan,
    FleetPlan,
    KeyPlan,
    KubernetesPlan,
    LustrePlan,
    NodeGroupPlan,
    OnPremSitePlan,
    VolumePlan,
)
from gpufleet.plan.names import (
    BUDGET_REGION,
    CONTROL_PLANE,
    FALLBACK_SUFFIX,
    NETWORK,
    RACKS,
    SERVERS_SUFFIX,
    SYSTEM,
    VPN_SUFFIX,
    dns_resource_name,
    endpoint_resource_name,
    gateway_resource_name,
    group_resource_name,
    site_resource_name,
)
from gpufleet.plan.slurm_models import SlurmServersPlan
from gpufleet.pricing import by_use
from gpufleet.pricing.assume import assume
from gpufleet.pricing.book import CostBook, Owner, PricedResource
from gpufleet.pricing.capacity import price_block, price_reservation
from gpufleet.pricing.cost import ONE, Sizes
from gpufleet.pricing.disks import Disk, price_root_volumes
from gpufleet.pricing.lustre import BACKUPS, paid_metadata_iops, price_lustre, price_metadata_iops
from gpufleet.pricing.models import FleetCost
from gpufleet.pricing.nodes import (
    IN_RESERVATION,
    ON_DEMAND,
    SPOT,
    SPOT_OR_ON_DEMAND,
    Choice,
    Market,
    PricedGroup,
    price_group,
    price_nodes,
)
from gpufleet.pricing.racks import price_ownership, price_power, price_running
from gpufleet.pricing.rates import MONTH, Prices, hours_of
from gpufleet.pricing.services import (
    price_address,
    price_control_plane,
    price_endpoint,
    price_key,
    price_nat_gateway,
    price_resolver_endpoint,
    price_vpn_connection,
)
from gpufleet.resources import types


def price_plan(plan: FleetPlan, catalog: Catalog) -> FleetCost:
    """Return the monthly cost of a plan, with lines in the order of the fleet file.

    Amounts are exact decimals and are rounded only for output.
    """
    book = CostBook()
    for site in plan.cloud:
        _Site(plan, site, catalog, book).price()
    prices = Prices(catalog, BUDGET_REGION)
    for key in plan.keys:
        book.price(PricedResource(types.KEY, key.name, Owner()), lambda: price_key(prices))
    if plan.cloud:
        if plan.budget.stops_growth:
            book.leave_out(by_use.LOGS)
            book.leave_out(by_use.FUNCTIONS)
        book.leave_out(by_use.TOPICS)
        book.leave_out(by_use.TRAFFIC)
    price_rack_sites(plan, book)
    return book.cost(assume(book.lines, plan.budget.assume))


def price_rack_sites(plan: FleetPlan, book: CostBook) -> None:
    """Add the lines of all rack sites. Only the plan has them: they are not resources of a program."""
    for site in plan.onprem:
        _price_rack_site(site, book)


def _price_rack_site(site: OnPremSitePlan, book: CostBook) -> None:
    nodes = sum(1 for host in site.hosts if host.role == "gpu")
    thing = PricedResource("", site.site, Owner(site.site, RACKS))
    pue, energy = (site.power.pue, site.power.usd_per_kwh) if site.power else (None, None)
    book.price(thing, lambda: price_power(site.system, nodes, site.power_kw_per_node, pue, energy))
    for name, amount in site.running_costs.items():
        book.price(thing, partial(price_running, name, amount))
    missing = [each for each in RUNNING_COSTS if each not in site.running_costs]
    left_out = ["switches", *missing, "power of other devices than GPU nodes"]
    book.leave_out(f"{site.site}: {', '.join(left_out[:-1])}, and {left_out[-1]}")
    owned = site.ownership
    if owned is None:
        book.leave_out(f"{site.site}: purchase of the nodes (no `ownership` declared)")
        return
    book.price(thing, lambda: price_ownership(site.system, nodes, owned.acquisition, owned.lifetime))


class _Site:
    """One cloud site."""

    def __init__(self, plan: FleetPlan, site: CloudSitePlan, catalog: Catalog, book: CostBook) -> None:
        self._about = (plan.fleet, plan.environment, site.site)
        self._name = site_resource_name(*self._about)
        self._site = site
        self._prices = Prices(catalog, site.region)
        self._book = book

    def price(self) -> None:
        """Add all lines of the site."""
        site = self._site
        for group in site.node_groups:
            self._node_group(group)
        if site.slurm is not None and site.slurm.servers is not None:
            self._servers(site.slurm.servers)
        for system in site.lustre:
            self._lustre(system)
        if site.buckets:
            self._book.leave_out(by_use.OBJECTS)
        if site.interruptions is not None:
            self._book.leave_out(by_use.EVENTS)
            self._book.leave_out(by_use.QUEUES)
        self._network()
        if site.kubernetes is not None:
            self._cluster(site.kubernetes)
        for key in site.keys:
            self._key(key)
        self._book.leave_out(by_use.LOGS)

    def _thing(self, kind: str, name: str, owner: str, team: str = "") -> PricedResource:
        return PricedResource(kind, name, Owner(self._site.site, owner, team))

    def _key(self, key: KeyPlan) -> None:
        self._book.price(self._thing(types.KEY, key.name, key.owner), lambda: price_key(self._prices))

    def _network(self) -> None:
        for zone in self._site.nat_zones:
            name = gateway_resource_name(self._name, zone)
            self._book.price(self._thing(types.ADDRESS, name, NETWORK), lambda: price_address(self._prices))
            self._book.price(
                self._thing(types.NAT_GATEWAY, name, NETWORK), lambda: price_nat_gateway(self._prices)
            )
        if self._site.vpn is not None:
            self._book.price(
                self._thing(types.VPN_CONNECTION, f"{self._name}{VPN_SUFFIX}", NETWORK),
                lambda: price_vpn_connection(self._prices),
            )
        if self._site.direct_connect is not None:
            self._book.leave_out(by_use.DIRECT_CONNECT)
        for direction in self._site.dns.directions if self._site.dns is not None else ():
            self._book.price(
                self._thing(types.RESOLVER_ENDPOINT, dns_resource_name(self._name, direction), NETWORK),
                lambda: price_resolver_endpoint(self._prices, DNS_ADDRESSES),
            )
        zones = len(self._site.zones)
        for service in self._site.interface_endpoints:
            name = endpoint_resource_name(self._name, service)
            self._book.price(
                self._thing(types.VPC_ENDPOINT, name, NETWORK), lambda: price_endpoint(self._prices, zones)
            )

    def _cluster(self, kubernetes: KubernetesPlan) -> None:
        repair = kubernetes.fault_repair
        if repair is not None and repair.keeps_events and kubernetes.access != "phased":
            self._book.leave_out(by_use.CLAIMS)
        extended = kubernetes.support_type == "EXTENDED"
        self._book.price(
            self._thing(types.CLUSTER, self._name, CONTROL_PLANE),
            lambda: price_control_plane(self._prices, extended=extended),
        )
        system = kubernetes.system_nodes
        least, most = system.min, system.max
        self._launch(
            self._thing(types.NODE_GROUP, group_resource_name(*self._about, SYSTEM), SYSTEM),
            PricedGroup(
                [Choice(name) for name in system.instance_types],
                ON_DEMAND,
                Sizes(least, least, most),
                Sizes(least, least, most),
                lambda: [_disk(system.volume)],
            ),
        )

    def _servers(self, plan: SlurmServersPlan) -> None:
        for server in plan.servers:
            thing = self._thing(types.INSTANCE, f"{self._name}{SERVERS_SUFFIX}-{server.label}", SYSTEM)
            choice, disk = Choice(server.instance_type), Disk("gp3", server.volume_gib, None, None)
            self._book.price(thing, partial(price_nodes, self._prices, [choice], ONE, ON_DEMAND))
            self._book.price(thing, partial(price_root_volumes, self._prices, partial(list, [disk]), ONE))
        if plan.file_systems:
            self._book.leave_out(by_use.FILES)

    def _lustre(self, system: LustrePlan) -> None:
        thing = self._thing(types.LUSTRE, group_resource_name(*self._about, system.name), system.name)
        self._book.price(
            thing,
            lambda: price_lustre(self._prices, system.deployment, system.capacity_gib, system.throughput),
        )
        if paid := paid_metadata_iops(system.metadata_iops or 0, system.capacity_gib):
            self._book.price(thing, lambda: price_metadata_iops(self._prices, paid))
        if system.backup_days:
            self._book.leave_out(BACKUPS)

    # -- node groups

    def _node_group(self, group: NodeGroupPlan) -> None:
        name, team = group_resource_name(*self._about, group.name), group.team or ""
        kubernetes, pool = self._site.kubernetes, group.node_pool
        kind = types.NODE_GROUP if kubernetes is not None else types.AUTO_SCALING_GROUP
        if self._site.slurm is not None:
            kind = types.LAUNCHED_NODES
        if pool is not None:
            kind = types.NODE_POOL
        # Without access to the cluster nothing is applied in it yet.
        applied = pool is None or (kubernetes is not None and kubernetes.access != "phased")
        match group.capacity:
            case ReservationPlan() as held:
                self._book.price(
                    self._thing(types.CAPACITY_RESERVATION, name, group.name, team),
                    lambda: price_reservation(self._prices, group.instance_type, held.instances),
                )
            case CapacityBlockPlan() as block:
                thing = self._thing(types.CAPACITY_BLOCK, name, group.name, team)
                self._block(thing, group, block.nodes, block.duration, paid=False)
            case ExistingBlockPlan() as block:
                thing = self._thing(kind, name, group.name, team)
                if applied:
                    self._block(thing, group, block.nodes, block.duration, paid=True)
            case OnDemandPlan() | SpotPlan() | ExistingReservationPlan() | ReservationGroupPlan():
                pass  # charged per node
            case other:
                assert_never(other)
        if isinstance(group.capacity, CapacityBlockPlan | ExistingBlockPlan):
            self._extensions(name, group, group.capacity)
        launches = _launches(group)
        if self._site.slurm is not None:
            launches = iter([_launched_by_slurm(group)])
        elif pool is not None:
            launches = _pools(group, pool)
        for suffix, launched in launches if applied else ():
            self._launch(self._thing(kind, f"{name}{suffix}", group.name, team), launched)

    def _extensions(
        self, name: str, group: NodeGroupPlan, block: CapacityBlockPlan | ExistingBlockPlan
    ) -> None:
        before = Decimal(0) if block.duration is None else hours_of(block.duration)
        for place, length in enumerate(block.extensions, 1):
            thing = self._thing(
                types.BLOCK_EXTENSION, f"{name}{EXTENSION_SUFFIX}{place}", group.name, group.team or ""
            )
            price = partial(
                price_block,
                self._prices,
                group.instance_type,
                block.nodes,
                hours_of(length),
                extends=before,
            )
            self._book.price(thing, price)
            before += hours_of(length)

    def _block(
        self, thing: PricedResource, group: NodeGroupPlan, nodes: int, length: timedelta | None, *, paid: bool
    ) -> None:
        hours = hours_of(length) if length is not None else None
        self._book.price(
            thing, lambda: price_block(self._prices, group.instance_type, nodes, hours, paid=paid)
        )

    def _launch(self, thing: PricedResource, group: PricedGroup) -> None:
        price_group(self._book, thing, self._prices, group)


def _launches(group: NodeGroupPlan) -> Iterator[tuple[str, PricedGroup]]:
    """Yield (name suffix, group) for each Auto Scaling group of a node group."""
    capacity = group.capacity
    sizes = Sizes(capacity.min, capacity.desired, capacity.max)
    market, paid = _market(capacity)

    def launch(bought: Market, wanted: Sizes) -> PricedGroup:
        return PricedGroup(
            [Choice(name) for name in group.instance_types],
            bought,
            None if paid else wanted,
            wanted,
            lambda: [_disk(group.volume)],
            group.public_addresses,
            _hours(capacity),
        )

    yield "", launch(market, sizes)
    if isinstance(capacity, SpotPlan) and capacity.on_demand_fallback:
        yield FALLBACK_SUFFIX, launch(ON_DEMAND, Sizes(0, 0, capacity.max))


def _pools(group: NodeGroupPlan, pool: NodePoolPlan) -> Iterator[tuple[str, PricedGroup]]:
    """Yield (name suffix, group) for each of Karpenter's pools of a node group.

    A reservation costs the same without nodes.
    """
    if pool.reserved:
        ((_, whole),) = _launches(group)
        yield "", replace(whole, existing=Sizes(0, 0, pool.most))
        return
    market = SPOT_OR_ON_DEMAND if pool.falls_back else SPOT if "spot" in pool.capacity_types else ON_DEMAND

    def launch(sizes: Sizes) -> PricedGroup:
        return PricedGroup(
            [Choice(name) for name in group.instance_types],
            market,
            sizes,
            sizes,
            lambda: [_disk(group.volume)],
            group.public_addresses,
        )

    if pool.limits:
        yield "", launch(Sizes(0, 0, pool.most - pool.always))
    if pool.always:
        yield ALWAYS_SUFFIX, launch(Sizes.fixed(pool.always))


def _launched_by_slurm(group: NodeGroupPlan) -> tuple[str, PricedGroup]:
    """Return the nodes of a group that Slurm launches, from none on. Those that fall back to on-demand cost
    at most its price."""
    ((_, first), *others) = _launches(group)
    most = Sizes(0, 0, group.capacity.max)
    running = None if first.running is None else most
    market = others[0][1].market if others else first.market
    return "", replace(first, market=market, running=running, existing=most)


def _market(capacity: CapacityPlan) -> tuple[Market, bool]:
    """Return the purchase options of a group, and whether a reservation or block of the plan covers its
    nodes."""
    match capacity:
        case OnDemandPlan():
            return ON_DEMAND, False
        case SpotPlan(spot_max_price=price):
            return Market(0, 0, price), False
        case ExistingReservationPlan() | ReservationGroupPlan():
            return IN_RESERVATION, False
        case ReservationPlan() | CapacityBlockPlan() | ExistingBlockPlan():
            return IN_RESERVATION, True
        case other:
            assert_never(other)


def _hours(capacity: CapacityPlan) -> Decimal:
    """Return the hours per month for which the nodes exist, for a block at most its duration with
    extensions."""
    if not isinstance(capacity, CapacityBlockPlan | ExistingBlockPlan) or capacity.duration is None:
        return MONTH
    return min(MONTH, hours_of(sum(capacity.extensions, capacity.duration)))


def _disk(volume: VolumePlan) -> Disk:
    return Disk("gp3", volume.size_gib, volume.iops, volume.throughput)
