"""What is known of FSx for Lustre: its tiers, and clients over EFA."""

from pydantic import Field

from gpufleet.catalog.models import Fact, InstanceType, Price
from gpufleet.kinds import LustreDeployment


class LustreTier(Fact):
    """One FSx for Lustre tier. `throughput` is MB/s per TiB (None: fixed by the deployment type).

    Capacities are `first_gib` or any multiple of `multiple_gib`; an EFA-enabled file system needs multiples
    of `efa_multiple_gib` (None: no EFA). `network_*` and `disk_*` are MB/s per TiB, `cache_gib_per_tib` is
    server memory.
    """

    deployment: LustreDeployment
    throughput: int | None
    first_gib: int
    multiple_gib: int
    efa_multiple_gib: int | None = None
    replicated: bool | None = None
    network_baseline: int | None = None
    network_burst: int | None = None
    disk_read_baseline: int | None = None
    disk_write_baseline: int | None = None
    disk_burst: int | None = None
    cache_gib_per_tib: float | None = None
    prices: dict[str, Price] = Field(default_factory=dict)
    source: str
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """`PERSISTENT_2-125`, or the deployment type alone."""
        return self.deployment if self.throughput is None else f"{self.deployment}-{self.throughput}"

    @property
    def price_key(self) -> str:
        """The key of its prices in the price table."""
        return f"fsx-lustre-{self.title}"


class LustreEfaClients(Fact):
    """How instances reach an EFA-enabled file system.

    `connections` are those that a file system takes, one for each EFA interface of a client in Lustre's
    network (LNet). `interfaces` are AWS's defaults by instance type; other types take `several_cards` or
    `one_card`. Families in `tcp_only` have EFA and reach file systems over TCP alone.
    """

    connections: int
    interfaces: dict[str, int]
    several_cards: int
    one_card: int
    tcp_only: frozenset[str]
    sources: tuple[str, ...]

    def interfaces_of(self, instance: InstanceType) -> int:
        """Return how many EFA interfaces of an instance are in LNet; 0 if it uses TCP alone."""
        if not instance.efa or instance.name.partition(".")[0] in self.tcp_only:
            return 0
        default = self.several_cards if instance.multi_card else self.one_card
        return self.interfaces.get(instance.name, default)
