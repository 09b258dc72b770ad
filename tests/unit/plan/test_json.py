"""The plan as JSON, which others build on: keys, types and rounding are pinned here."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from gpufleet.plan import build_plan
from gpufleet.plan.budget_models import AnomaliesPlan
from gpufleet.plan.json import cents, model_to_json
from gpufleet.plan.models import PowerPlan
from gpufleet.pricing.json import cost_to_json
from gpufleet.spec.models import FleetSpec
from tests.unit.plan.fleets import CATALOG, block, cloud_site, cost_of, group, on_demand, rack_site, spec
from tests.unit.plan.json_shapes import SHAPE, SITE_SHAPES

RACK: dict[str, Any] = {
    "controllers": "ctl01",
    "network": "10.60.0.0/22",
    "ownership": {"acquisition": "262800 USD", "lifetime": "5 y"},
    "local_nvme": {"mount": "/raid"},
    "kubernetes": {
        "node_groups": [{"name": "a", "nodes": "dgx[001-064]", "taints": [{"key": "example.com/a"}]}],
        "host_network": ["research"],
    },
    "racks": [{"name": "r1", "nodes": "dgx001"}],
    "fabric": {
        "kind": "infiniband",
        "speed": "ndr",
        "rails": ["mlx5_0"],
        "subnet_managers": [{"host": "ctl01", "priority": 15, "port_guid": "0x0002c903000e0b72"}],
        "switches": [{"name": "leaf0", "nodes": "dgx[001-064]"}],
        "partitions": [{"name": "storage", "pkey": "0x0001", "port_guids": ["0x0002c903000e0b73"]}],
    },
    "slurm": {"partitions": [{"name": "gpu", "teams": ["research"]}]},
    "monitoring": {"alerts": {"slack": {"channel": "#gpu"}}},
    "management": {"user": "admin", "boot_order": ["disk"], "bios": {"SriovEnable": "Enabled"}},
    "mig": [{"nodes": "dgx001", "gpus": [0], "profiles": {"3g.40gb": 2}}],
    "groups": [{"name": "vision", "gid": 3001}],
    "users": [
        {
            "name": "ada",
            "uid": 2001,
            "groups": ["vision"],
            "teams": ["research"],
            "ssh_keys": ["ssh-ed25519 AAAA"],
        }
    ],
    "addresses": {"ctl01": "10.60.0.11"},
    "time_servers": ["ntp1.example.com"],
    "backups": {"s3": {"url": "s3://atlas-backups/dc1"}},
}


def _document() -> dict[str, Any]:
    lustre = {"capacity": "1200 GiB", "throughput": "1000 MB/s/TiB"}
    fleet = spec(
        cloud=[
            cloud_site(
                group("train", "p5.48xlarge", block(2), network="efa"),
                group("serve", "p5e.48xlarge", on_demand(0, 2), team="serving"),
                scheduler="kubernetes",
                kubernetes={
                    "teams": [{"name": "serving", "gpus": 2}],
                    "private_cidrs": ["10.60.0.0/24"],
                    "public_cidrs": ["203.0.113.0/24"],
                    "admins": ["arn:aws:iam::123456789012:role/platform"],
                    "viewers": ["arn:aws:iam::123456789012:role/preview"],
                },
                storage=[
                    {"name": "fs", "mount": "/fsx", "lustre": lustre},
                    {"name": "data", "bucket": {"name": "atlas-data"}},
                ],
            )
        ],
        onprem=[
            rack_site(
                bmc="bmc[001-064]",
                storage=[{"name": "home", "kind": "nfs", "source": "nas:/home", "mount": "/shared"}],
                teams=[{"name": "research", "gpus": 8}],
                **RACK,
            ),
            rack_site(
                site="dc2",
                scheduler="kubernetes",
                storage=[{"name": "home", "kind": "nfs", "source": "nas:/home", "mount": "/shared"}],
                teams=[{"name": "research", "gpus": 8}],
                **RACK,
            ),
        ],
        budget={
            "monthly": "1000 USD",
            "notify": ["a@example.com"],
            "anomalies": {"above": "50 USD"},
            "on_breach": "stop-scale-out",
        },
    )
    return _of(fleet)


def _of(fleet: FleetSpec) -> dict[str, Any]:
    plan = build_plan(fleet, CATALOG)
    document = {**model_to_json(plan), "cost": cost_to_json(cost_of(plan), plan)}
    read: dict[str, Any] = json.loads(json.dumps(document))
    return read


def _check(value: Any, shape: Any, where: str) -> None:
    if isinstance(shape, dict):
        assert list(value) == list(shape), where
        for key, inner in shape.items():
            _check(value[key], inner, f"{where}.{key}")
    elif isinstance(shape, list):
        assert isinstance(value, list), where
        assert value, f"{where}: this test's fleet must have one"
        for index, item in enumerate(value):
            _check(item, shape[0], f"{where}[{index}]")
    else:
        assert isinstance(value, shape), f"{where}: {value!r}"


def test_document_has_exactly_the_pinned_keys_and_types() -> None:
    document = _document()
    document["node_groups"][0]["taints"] = document["node_groups"][0]["taints"] or [{}]
    _check(document, SHAPE, "plan")
    cloud, *racks = document["sites"]
    _check(cloud, SITE_SHAPES["cloud"], "cloud")
    for site, other in zip(racks, ("kubernetes", "slurm"), strict=True):
        rack = SITE_SHAPES["onprem"]["rack"] | {other: type(None)}
        _check(site, SITE_SHAPES["onprem"] | {"rack": rack}, site["site"])


def test_storage_kinds_have_a_kind_field() -> None:
    lustre, bucket = _document()["storage"]
    assert (lustre["kind"], bucket["kind"]) == ("lustre", "bucket")
    assert lustre["capacity_gib"] == 1200
    assert bucket["bucket"] == "atlas-data"


def test_amount_is_the_expected_cost_and_unknown_parts_are_listed() -> None:
    monthly = _document()["cost"]["monthly"]
    assert monthly["currency"] == "USD"
    assert monthly["low"] <= monthly["amount"] <= monthly["high"]
    assert [item["owner"] for item in monthly["unknown"]] == ["serve"]


def test_fleet_without_any_known_price_has_no_amount() -> None:
    cost = _of(spec(onprem=[rack_site(power=None)]))["cost"]
    assert [cost["monthly"][key] for key in ("amount", "low", "high")] == [None, None, None]
    assert cost["monthly"]["unknown"]


def test_p5_has_one_ena_and_32_efa_interfaces() -> None:
    interfaces = _document()["node_groups"][0]["network_interfaces"]
    assert interfaces[:3] == [
        {"network_card_index": 0, "device_index": 0, "interface_type": "interface"},
        {"network_card_index": 0, "device_index": 1, "interface_type": "efa-only"},
        {"network_card_index": 1, "device_index": 0, "interface_type": "efa-only"},
    ]
    assert len(interfaces) == 33


@pytest.mark.parametrize(
    ("amount", "rounded"),
    [("0.005", 0.0), ("0.015", 0.02), ("2.675", 2.68), ("2.665", 2.66), ("40179.20", 40179.2), (None, None)],
)
def test_only_the_json_rounds_money_half_even_to_cents(amount: str | None, rounded: float | None) -> None:
    assert cents(Decimal(amount) if amount is not None else None) == rounded


def test_numbers_that_are_no_money_are_not_rounded() -> None:
    power = PowerPlan(Decimal("1.125"), Decimal("0.1125"))
    assert model_to_json(power) == {"pue": 1.125, "usd_per_kwh": 0.1125}
    assert model_to_json(AnomaliesPlan(Decimal("50.125"), None)) == {"above": 50.12, "monitor": None}


def test_amounts_of_money_by_name_are_numbers() -> None:
    costs = {"colocation": "42000 USD", "staff": "100.12 USD"}
    (site,) = _of(spec(onprem=[rack_site(running_costs=costs)]))["sites"]
    assert site["running_costs"] == {"colocation": 42_000, "staff": 100.12}
