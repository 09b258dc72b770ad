"""A plan made by hand, so that these tests depend on the plan's shape and on nothing that fills it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from gpufleet.catalog import Catalog, NetworkInterface, load_catalog
from gpufleet.plan.capacity_models import SpotPlan
from gpufleet.plan.models import (
    BudgetPlan,
    CloudSitePlan,
    FabricPlan,
    FleetPlan,
    HostPlan,
    LogGroupPlan,
    MountPlan,
    NodeGroupPlan,
    OnPremSitePlan,
    TeamPlan,
    VolumePlan,
)
from gpufleet.plan.rack import plan_rack
from gpufleet.spec.models import OnPremSite


def hosts(site: str = "dc1", gpus: int = 3) -> tuple[HostPlan, ...]:
    nodes = tuple(
        HostPlan(f"dgx{n:03}", site, "gpu", f"dgx{n:03}.dc1.example.com", f"bmc{n:03}.dc1.example.com")
        for n in range(1, gpus + 1)
    )
    return (*nodes, HostPlan("ctl01", site, "controller", "ctl01.dc1.example.com"))


def rack(**changes: Any) -> OnPremSitePlan:
    values: dict[str, Any] = {
        "site": "dc1",
        "system": "dgx-h100",
        "gpu": "H100",
        "gpus_per_node": 8,
        "hosts": hosts(),
        "fabric": FabricPlan("infiniband", "ndr", "rail-optimized"),
        "scheduler": "slurm",
        "ssh_user": "ubuntu",
        "ssh_port": 2222,
        "mounts": (MountPlan("nfs", "nas01:/export/home", "/shared/home"),),
        "teams": (TeamPlan("research", 16, "normal"),),
        "power_kw_per_node": Decimal("10.2"),
        "power": None,
        "ownership": None,
        "running_costs": {},
        "tags": {"team": "ml"},
        "rack": plan_rack(declared_site()),
        "software": (),
    }
    return OnPremSitePlan(**values | changes)


def declared_site(**changes: Any) -> OnPremSite:
    """The site as a fleet file declares it; `changes` are fields of it as written there."""
    fields: dict[str, Any] = {
        "site": "dc1",
        "system": "dgx-h100",
        "nodes": "dgx[001-003]",
        "controllers": "ctl01",
        "fabric": {"kind": "infiniband", "speed": "ndr"},
        "teams": [{"name": "research", "gpus": 16}],
    }
    return OnPremSite.model_validate(fields | changes)


def cloud_site(scheduler: str = "slurm", site: str = "usw2") -> CloudSitePlan:
    group = NodeGroupPlan(
        site=site,
        name="overflow",
        instance_type="p5.48xlarge",
        instance_types=("p5.48xlarge",),
        gpu="H100",
        gpus_per_node=8,
        capacity=SpotPlan(0, 4, 2),
        efa=True,
        network_interfaces=(NetworkInterface(0, 0, "efa"), NetworkInterface(1, 1, "efa-only")),
        zones=("us-west-2a",),
        placement_group=False,
        workload="batch",
        labels={},
        taints=(),
        volume=VolumePlan(200, 3000, 125),
        public_ip=False,
        image="AL2023_x86_64_NVIDIA",
        image_kind="eks-release",
        image_release="1.35.6-20260714",
        software=None,
        local_nvme=None,
        user_data=(),
        tags={},
    )
    return CloudSitePlan(
        site=site,
        provider="aws",
        region="us-west-2",
        zones=("us-west-2a",),
        cidr="10.41.0.0/16",
        vpn=None,
        direct_connect=None,
        dns=None,
        nat="single",
        subnets=(),
        scheduler=scheduler,  # type: ignore[arg-type]
        kubernetes=None,
        slurm=None,
        interruptions=None,
        ordered_capacity=(),
        node_groups=(group,),
        lustre=(),
        buckets=(),
        interface_endpoints=(),
        flow_logs=LogGroupPlan("/gpufleet/atlas-test-usw2/flow-logs", 365),
        cluster_logs=None,
        keys=(),
        tags={},
    )


def fleet(*onprem: OnPremSitePlan, cloud: tuple[CloudSitePlan, ...] = (), **changes: Any) -> FleetPlan:
    values: dict[str, Any] = {
        "fleet": "atlas",
        "environment": "test",
        "tags": {"team": "ml"},
        "cloud": cloud,
        "onprem": onprem,
        "budget": BudgetPlan(Decimal(1), "USD", (), "notify", None, (), {}, {}, {}, (), (), None),
        "software_channel": "2026.11",
        "keys": (),
    }
    return FleetPlan(**values | changes)


@pytest.fixture
def make_rack() -> Callable[..., OnPremSitePlan]:
    return rack


@pytest.fixture
def make_cloud_site() -> Callable[..., CloudSitePlan]:
    return cloud_site


@pytest.fixture
def make_hosts() -> Callable[..., tuple[HostPlan, ...]]:
    return hosts


@pytest.fixture
def make_fleet() -> Callable[..., FleetPlan]:
    return fleet


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return load_catalog()
