"""Requirements of the environments in the checkout."""

from __future__ import annotations

import re

import pytest

from gpufleet.spec.load import LoadedFleet, environments, load_fleet
from gpufleet.spec.models import FleetSpec
from tests.unit.spec.samples import ROOT

SHIPPED = ["dev", "prod", "sandbox"]


def load(environment: str) -> LoadedFleet:
    return load_fleet(environment, root=ROOT)


def test_shipped_environments_exist() -> None:
    assert set(SHIPPED) <= set(environments(ROOT))


@pytest.mark.parametrize("environment", SHIPPED)
def test_shipped_environment_loads_under_its_own_name(environment: str) -> None:
    assert load(environment).environment == environment


@pytest.mark.parametrize("name", ["base.yaml", *(f"{environment}/fleet.yaml" for environment in SHIPPED)])
def test_no_shipped_file_has_a_date_that_will_pass(name: str) -> None:
    text = (ROOT / "stacks" / name).read_text()
    assert not re.search(r"20\d\d-\d\d", text)


def capacity_kinds(spec: FleetSpec) -> set[str]:
    kinds = set()
    for site in spec.cloud:
        for group in site.node_groups:
            reserved = group.capacity.reserved
            parts = (
                reserved.model_dump(exclude_none=True)
                if reserved
                else group.capacity.model_dump(exclude_none=True)
            )
            kinds |= set(parts)
    return kinds


def test_sandbox_has_every_purchase_option() -> None:
    assert capacity_kinds(load("sandbox").spec) == {"on_demand", "spot", "odcr", "capacity_block"}


def test_sandbox_has_every_storage_kind_and_both_schedulers() -> None:
    spec = load("sandbox").spec
    storage = [item for site in spec.cloud for item in site.storage]
    lustre = [item.lustre for item in storage if item.lustre]
    assert {each.deployment for each in lustre} == {"persistent-2", "persistent-1", "scratch-2"}
    assert {each.efa for each in lustre} == {True, False}
    buckets = {item.bucket.name for item in storage if item.bucket}
    imported = {each.import_from.split("/")[2] for each in lustre if each.import_from}
    assert imported and imported <= buckets
    assert {site.scheduler for site in spec.cloud} == {"kubernetes", "slurm"}
    assert [site.scheduler for site in spec.onprem] == ["slurm"]


def test_sandbox_block_starts_relative_to_its_purchase() -> None:
    blocks = [
        group.capacity.reserved.capacity_block
        for site in load("sandbox").spec.cloud
        for group in site.node_groups
        if group.capacity.reserved and group.capacity.reserved.capacity_block
    ]
    assert [str(block.start) for block in blocks] == ["in 14 d"]
    assert blocks[0].start is not None
    assert blocks[0].start.at is None


def test_dev_and_prod_extend_the_same_file() -> None:
    for environment in ("dev", "prod"):
        source = load(environment).source
        assert source.at("software.channel")[0] == "stacks/base.yaml"
        assert source.at("environment")[0] == f"stacks/{environment}/fleet.yaml"


def test_prod_has_a_thousand_gpus_in_the_cloud_and_on_premises() -> None:
    spec = load("prod").spec
    per_node = {"p5.48xlarge": 8, "p5en.48xlarge": 8, "g6e.48xlarge": 8, "g6e.12xlarge": 4, "p4d.24xlarge": 8}
    cloud = 0
    for site in spec.cloud:
        for group in site.node_groups:
            reserved = group.capacity.reserved
            held = (reserved.capacity_block or reserved.odcr) if reserved else None
            scaled = group.capacity.on_demand or group.capacity.spot
            nodes = held.nodes if held else scaled.max if scaled else 0
            cloud += nodes * per_node[group.instance_types[0]]
    assert cloud >= 1000
    assert sum(8 * len(site.nodes.hosts) for site in spec.onprem) >= 1000
