"""What a host should show, from its site in the plan and its system in the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpufleet.catalog import Catalog
from gpufleet.catalog.pci import device_ids
from gpufleet.plan.models import FleetPlan

SUPPORTED_SYSTEMS: Mapping[tuple[str, str], str] = {
    ("ubuntu", "22.04"): "Ubuntu 22.04 and DGX OS 6",
    ("ubuntu", "24.04"): "Ubuntu 24.04 and DGX OS 7",
    ("debian", "12"): "Debian 12",
}
"""What the roles are written for: (ID, VERSION_ID) of /etc/os-release, and its name for people."""

MIN_FREE_GIB: Mapping[str, float] = {"/": 20.0, "/var": 10.0, "/tmp": 1.0}  # noqa: S108 - measured, not written to
"""Room for driver, CUDA and their packages with a reserve: gpufleet's own choice, not a vendor's figure."""


@dataclass(frozen=True, slots=True)
class Expectations:
    """What one host should show. None is "nobody published it": measured, shown, not judged.

    `peers` names the hosts that should be alike. The fields from `gpu` on concern GPU nodes only.
    `nics` is the least number of fabric adapters: storage adapters of the same make come on top.
    """

    peers: str
    gpu_node: bool
    gpu: str = ""
    gpus: int | None = None
    gpu_device_ids: frozenset[str] = frozenset()
    nics: int | None = None
    cpus: int | None = None
    cpu_sockets: int | None = None
    memory_gib: float | None = None
    hugepages: int | None = None
    min_free_gib: Mapping[str, float] = field(default_factory=lambda: dict(MIN_FREE_GIB))


def expectations_for(plan: FleetPlan, catalog: Catalog) -> dict[str, Expectations]:
    """The expectations of every rack host, by its name. All DGX and HGX systems carry SXM modules."""
    expected: dict[str, Expectations] = {}
    for site in plan.onprem:
        system = catalog.system(site.system)
        for host in site.hosts:
            peers = f"{site.site} {site.system if host.role == 'gpu' else host.role}"
            if host.role != "gpu":
                expected[host.name] = Expectations(peers=peers, gpu_node=False)
                continue
            expected[host.name] = Expectations(
                peers=peers,
                gpu_node=True,
                gpu=system.gpu,
                gpus=site.gpus_per_node,
                gpu_device_ids=device_ids(system.gpu, "sxm"),
                nics=system.compute_nics,
                cpu_sockets=system.cpu_sockets,
                memory_gib=None if system.memory_gb is None else system.memory_gb * 10**9 / 2**30,
            )
    return expected
