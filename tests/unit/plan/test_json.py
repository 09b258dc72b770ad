"""The plan as JSON, which others build on: keys, types and rounding are pinned here."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from gpufleet.plan import build_plan
from gpufleet.plan.json import cents, plan_to_json
from gpufleet.pricing.json import cost_to_json
from gpufleet.spec.models import FleetSpec
from tests.unit.plan.fleets import CATALOG, block, cloud_site, cost_of, group, on_demand, rack_site, spec

NUMBER = (int, float)
MONEY = (int, float, type(None))
TEXT_OR_NONE = (str, type(None))
RANGE = {"low": MONEY, "expected": MONEY, "high": MONEY}
KEY = {"name": str, "owner": str}
VOLUME = {"size_gib": int, "iops": int, "throughput": int}
TEAM = {"name": str, "gpus": int, "priority": str}

SHAPE: dict[str, Any] = {
    "fleet": str,
    "environment": str,
    "software_channel": str,
    "tags": dict,
    "gpus_at_maximum": int,
    "sites": list,
    "node_groups": [
        {
            "site": str,
            "name": str,
            "instance_type": str,
            "instance_types": [str],
            "gpu": str,
            "gpus_per_node": int,
            "capacity": {
                "kind": str,
                "min": int,
                "max": int,
                "desired": int,
                "reservation_id": TEXT_OR_NONE,
                "reservation_zone": TEXT_OR_NONE,
                "reservation_placement_group": TEXT_OR_NONE,
                "start": TEXT_OR_NONE,
                "duration_hours": MONEY,
                "on_demand_fallback": bool,
                "spot_max_price": MONEY,
            },
            "efa": bool,
            "network_interfaces": [{"network_card_index": int, "device_index": int, "interface_type": str}],
            "zones": [str],
            "placement_group": bool,
            "workload": str,
            "team": TEXT_OR_NONE,
            "labels": dict,
            "taints": [{"key": str, "value": str, "effect": str}],
            "volume": VOLUME,
            "public_ip": bool,
            "image": str,
            "tags": dict,
        }
    ],
    "storage": list,
    "hosts": [{"name": str, "site": str, "role": str, "address": str, "bmc": TEXT_OR_NONE}],
    "budget": {
        "monthly": NUMBER,
        "currency": str,
        "alerts": [NUMBER],
        "on_breach": str,
        "notify": [str],
        "assume": dict,
    },
    "keys": [KEY],
    "cost": {
        "monthly": {
            "amount": MONEY,
            "low": MONEY,
            "high": MONEY,
            "currency": str,
            "unknown": [{"site": str, "owner": str, "what": str, "reason": str}],
        },
        "upfront": {"amount": NUMBER, "currency": str},
        "budget": {"monthly": NUMBER, "currency": str},
        "by_site": dict,
        "by_owner": dict,
        "by_tag": dict,
        "lines": [
            {
                "site": str,
                "owner": str,
                "kind": str,
                "what": str,
                "monthly": RANGE,
                "upfront": MONEY,
                "basis": str,
                "source": str,
                "date": TEXT_OR_NONE,
                "note": str,
                "assumed": bool,
            }
        ],
        "not_counted": [str],
    },
}

SITE_SHAPES: dict[str, dict[str, Any]] = {
    "cloud": {
        "site": str,
        "kind": str,
        "provider": str,
        "region": str,
        "zones": [str],
        "cidr": str,
        "nat": str,
        "subnets": [{"zone": str, "kind": str, "cidr": str}],
        "scheduler": str,
        "kubernetes": {
            "version": str,
            "private_cidrs": [str],
            "public_cidrs": [str],
            "admins": [str],
            "gpu_stack": str,
            "system_nodes": {
                "instance_types": [str],
                "min": int,
                "max": int,
                "volume": VOLUME,
                "image": str,
            },
            "support_type": str,
            "teams": [TEAM],
        },
        "interface_endpoints": list,
        "log_groups": [{"name": str, "retention_days": int}],
        "keys": [KEY],
        "tags": dict,
    },
    "onprem": {
        "site": str,
        "kind": str,
        "system": str,
        "gpu": str,
        "gpus_per_node": int,
        "nodes": int,
        "fabric": {"kind": str, "speed": str, "topology": str},
        "scheduler": str,
        "power_kw_per_node": MONEY,
        "power": {"pue": NUMBER, "usd_per_kwh": NUMBER},
        "ownership": type(None),
        "mounts": [{"kind": str, "source": str, "mount": str, "options": list}],
        "teams": [TEAM],
        "tags": dict,
        "rack": {
            "link_gbps": int,
            "rails": list,
            "subnet_managers": list,
            "partitions": list,
            "slurm": {
                "cluster": str,
                "partitions": [
                    {"name": str, "nodes": int, "default": bool, "max_minutes": (int, type(None))}
                ],
                "qos": list,
                "accounts": [{"name": str, "gpus": int, "qos": str, "users": list}],
                "units": int,
                "preemption": str,
            },
            "kubernetes": type(None),
            "users": list,
            "local_nvme": (str, type(None)),
            "time_servers": list,
            "package_mirror": (str, type(None)),
            "reboot_batch": int,
            "management": (str, type(None)),
            "mig": (list, type(None)),
            "monitoring": (str, type(None)),
        },
    },
}


def _document() -> dict[str, Any]:
    lustre = {"capacity": "1200 GiB", "throughput": "1000 MB/s/TiB"}
    fleet = spec(
        cloud=[
            cloud_site(
                group("train", "p5.48xlarge", block(2), network="efa"),
                group("serve", "g6.xlarge", on_demand(0, 2), team="serving"),
                scheduler="kubernetes",
                kubernetes={
                    "teams": [{"name": "serving", "gpus": 2}],
                    "private_cidrs": ["10.60.0.0/24"],
                    "public_cidrs": ["203.0.113.0/24"],
                    "admins": ["arn:aws:iam::123456789012:role/platform"],
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
            )
        ],
        budget={"monthly": "1000 USD", "notify": ["a@example.com"]},
    )
    return _of(fleet)


def _of(fleet: FleetSpec) -> dict[str, Any]:
    plan = build_plan(fleet, CATALOG)
    document = {**plan_to_json(plan), "cost": cost_to_json(cost_of(plan), plan)}
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


def test_the_document_has_exactly_the_pinned_keys_and_types() -> None:
    document = _document()
    document["node_groups"][0]["taints"] = document["node_groups"][0]["taints"] or [{}]
    _check(document, SHAPE, "plan")
    for site in document["sites"]:
        _check(site, SITE_SHAPES[site["kind"]], site["site"])


def test_storage_of_both_kinds_is_told_apart_by_its_kind() -> None:
    lustre, bucket = _document()["storage"]
    assert (lustre["kind"], bucket["kind"]) == ("lustre", "bucket")
    assert lustre["capacity_gib"] == 1200
    assert bucket["bucket"] == "atlas-data"


def test_the_amount_is_the_expected_cost_with_what_is_unknown_beside_it() -> None:
    monthly = _document()["cost"]["monthly"]
    assert monthly["currency"] == "USD"
    assert monthly["low"] <= monthly["amount"] <= monthly["high"]
    assert [item["owner"] for item in monthly["unknown"]] == ["fs"]


def test_a_fleet_of_which_no_price_is_known_has_no_amount_and_not_zero() -> None:
    cost = _of(spec(onprem=[rack_site(power=None)]))["cost"]
    assert cost["monthly"]["amount"] is None
    assert cost["monthly"]["unknown"]


def test_interfaces_of_a_p5_are_one_ena_and_thirty_two_efa() -> None:
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
def test_money_is_rounded_half_even_to_cents_and_only_here(amount: str | None, rounded: float | None) -> None:
    assert cents(Decimal(amount) if amount is not None else None) == rounded
