"""What a host should show, from its site in the plan and its system in the catalog."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict

from gpufleet.files import write_atomically

# Ansible loads this module during a run to evaluate one host, which does not need the catalog.
if TYPE_CHECKING:
    from gpufleet.catalog import Catalog
    from gpufleet.plan.models import FleetPlan

SUPPORTED_SYSTEMS: Mapping[tuple[str, str], str] = {
    ("ubuntu", "22.04"): "Ubuntu 22.04 and DGX OS 6",
    ("ubuntu", "24.04"): "Ubuntu 24.04 and DGX OS 7",
    ("debian", "12"): "Debian 12",
}
"""What the roles are written for: (ID, VERSION_ID) of /etc/os-release, and its name for people."""


class Expectations(Struct, frozen=True):
    """The expected values of one host. None means that no value is published: measured and shown, not
    evaluated.

    `peers` names the group of hosts that should be equal. The fields from `gpu` on apply only to GPU nodes.
    `nics` is the minimum number of fabric adapters, including those that manage NVSwitches; storage adapters
    of the same make are additional.
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


def expectations_for(plan: FleetPlan, catalog: Catalog) -> dict[str, Expectations]:
    """The expectations of every rack host, by its name. All DGX and HGX systems carry SXM modules."""
    from gpufleet.catalog.pci import device_ids
    from gpufleet.racks.systems import system_of

    expected: dict[str, Expectations] = {}
    for site in plan.host_sites():
        system = system_of(site, catalog)
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
                nics=None if system.compute_nics is None else system.compute_nics + len(system.bridges),
                cpu_sockets=system.cpu_sockets,
                memory_gib=None if system.memory_gb is None else system.memory_gb * 10**9 / 2**30,
            )
    return expected


def write_expectations(expected: Mapping[str, Expectations], path: Path) -> None:
    """Writes them, whole or not at all, for `read_expectations`; a run of Ansible takes them along."""
    document = {
        host: asdict(item) | {"gpu_device_ids": sorted(item.gpu_device_ids)}
        for host, item in expected.items()
    }
    write_atomically(path, json.dumps(document), mode=0o600)


def read_expectations(path: Path) -> dict[str, Expectations]:
    """What was written, by host. Raises OSError for no file."""
    return {
        host: Expectations(**found | {"gpu_device_ids": frozenset(found["gpu_device_ids"])})
        for host, found in json.loads(path.read_text(encoding="utf-8")).items()
    }
