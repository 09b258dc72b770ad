"""Fleets by chance: the same seed gives the same fleet. All can be planned, and built by our program."""

from __future__ import annotations

import random
from typing import Any

from gpufleet.spec.models import FleetSpec
from tests.unit.plan.fleets import CATALOG, block, cloud_site, group, odcr, on_demand, rack_site, spec, spot

REGIONS = ["us-east-1", "us-west-2", "us-east-2", "eu-north-1", "ap-northeast-1"]
_KEY = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
_DEPLOYMENTS = {"persistent-2": "PERSISTENT_2", "persistent-1": "PERSISTENT_1", "scratch-2": "SCRATCH_2"}

SLURM_RACK = rack_site(
    site="r9",
    nodes="r9n[01-02]",
    controllers="r9c1",
    network="10.99.0.0/24",
    addresses={"r9c1": "10.99.0.11"},
    slurm={},
)
"""A rack site whose Slurm launches cloud nodes."""

LAUNCHED = {"controllers": "r9", "identity": "arn:aws:iam::111122223333:role/r9"}


def random_fleet(seed: int, *, most_sites: int = 3, most_groups: int = 4) -> FleetSpec:
    """A fleet of some cloud sites and some racks."""
    chance = random.Random(seed)
    cloud = [_cloud_site(chance, number, most_groups) for number in range(chance.randint(0, most_sites))]
    racks = [_rack_site(chance, number) for number in range(chance.randint(0, 2))]
    assumed = _assumptions(chance)
    launched = [site for site in cloud if site["scheduler"] == "slurm" and chance.random() < 0.4]
    for site in launched:
        _let_slurm_launch(site)
    for site in cloud:
        if chance.random() < 0.3:
            site["network"] |= {"vpn": _vpn(chance)}
        if chance.random() < 0.3:
            site["network"] |= {"direct_connect": _direct_connect(chance)}
        if chance.random() < 0.3:
            site["network"] |= {"dns": _dns(chance)}
    for site in launched:
        if chance.random() < 0.5:
            site["slurm"] = {"servers": _servers(chance)}
    # A generator of its own: fleets of earlier seeds stay as they are but for this.
    _draw_elsewhere(random.Random(f"orders of {seed}"), cloud)
    return spec(cloud=cloud, onprem=[*racks, *([SLURM_RACK] if launched else [])], policies=assumed)


def _let_slurm_launch(site: dict[str, Any]) -> None:
    """Let the Slurm of a rack site launch the nodes of a cloud site, from none on."""
    site |= {"slurm": LAUNCHED, "ordered_capacity": []}
    for each in site["node_groups"]:
        each |= {"image": "ami-0123456789abcdef0", "public_ip": False}
        (kind, option), *_ = each["capacity"].items()
        if kind != "reserved":
            option |= {"min": 0, "desired": None}


def _servers(chance: random.Random) -> dict[str, Any]:
    return {
        "image": "ami-0123456789abcdef0",
        "controllers": {
            "hosts": chance.choice([1, 2]),
            "instance_type": chance.choice(["m7i.large", "m7i.xlarge"]),
        },
        "login": {"hosts": chance.randint(0, 3), "volume": f"{chance.randint(50, 900)} GiB"},
        "shared": chance.choice([None, "/shared"]),
        "teams": [{"name": name, "gpus": 8} for name in ("a", "b")],
    }


def _vpn(chance: random.Random) -> dict[str, Any]:
    return {
        "gateway": f"203.0.113.{chance.randint(1, 254)}",
        "asn": chance.choice([65000, 65010, 4200000000]),
        "networks": chance.choice([["10.99.0.0/24"], ["10.99.0.0/24", "172.16.0.0/20"]]),
        "static": chance.choice([False, True]),
        "logs": chance.choice([False, True]),
    }


def _direct_connect(chance: random.Random) -> dict[str, Any]:
    return {
        "gateway": "5f294f92-bafb-4011-916d-9b0bec1f4f35",
        "owner": chance.choice([None, "444455556666"]),
        "networks": chance.choice([["10.99.0.0/24"], ["10.99.0.0/24", "172.16.0.0/20"]]),
    }


def _dns(chance: random.Random) -> dict[str, Any]:
    forward = [
        {"domain": "corp.example", "servers": ["10.99.0.53"]},
        {"domain": "lab.example", "servers": ["10.99.0.53", "10.99.0.54"]},
    ]
    return {"forward": forward[: chance.randint(0, 2)], "inbound": chance.choice([False, True])}


def _assumptions(chance: random.Random) -> dict[str, Any]:
    amounts = {
        "atlas-test-c0-*": "50 USD",
        "atlas-test-c0-g0/compute": "900 USD",
        "atlas-test-c*-fs": "1200 USD",
        "r0": "70 USD",
        "r*/ownership": "11 USD",
    }
    chosen = chance.sample(sorted(amounts), chance.randint(0, 2))
    return {"budget-unknown-cost": {"settings": {"assume": {key: amounts[key] for key in chosen}}}}


def _rack_site(chance: random.Random, number: int) -> dict[str, Any]:
    return rack_site(
        site=f"r{number}",
        system=chance.choice(sorted(CATALOG.systems)),
        nodes=f"r{number}n[01-{chance.randint(2, 40):02}]",
        ownership=chance.choice([None, {"acquisition": "270001 USD", "lifetime": "7 y"}]),
        **chance.choice([{}, {"power": None}]),
    )


def _cloud_site(chance: random.Random, number: int, most_groups: int) -> dict[str, Any]:
    region = chance.choice(REGIONS)
    zones = list(CATALOG.zones(region))[: chance.randint(1, 3)]
    scheduler = chance.choice(["kubernetes", "slurm"])
    system = {"instance_types": chance.choice([["m7i.xlarge"], ["m7i.2xlarge", "m7i.xlarge"]]), "max": 5}
    groups = [
        _group(chance, f"g{index}", zones, scheduler) for index in range(chance.randint(0, most_groups))
    ]
    return cloud_site(
        *groups,
        ordered_capacity=_orders(chance, groups),
        site=f"c{number}",
        region=region,
        zones=zones,
        network={
            "cidr": f"10.{number}.0.0/{chance.randint(16, 22)}",
            "nat": chance.choice(["none", "single", "per-zone"]),
        },
        scheduler=scheduler,
        storage=[each for each in (_lustre(chance), _bucket(chance, number)) if each is not None],
        **({"kubernetes": {"system_nodes": system}} if scheduler == "kubernetes" else {}),
    )


def _group(chance: random.Random, name: str, zones: list[str], scheduler: str) -> dict[str, Any]:
    capacity = _capacity(chance, zones, scheduler)
    reserved = "reserved" in capacity
    # An image of Slurm nodes is for x86_64.
    known = [name for name, each in sorted(CATALOG.instances.items()) if "x86_64" in each.architectures]
    types = chance.sample(known, 1 if reserved else chance.randint(1, 3))
    several_cards = any(CATALOG.instances[each].multi_card for each in types)
    volume = {"size": f"{chance.randint(100, 900)} GiB", "iops": chance.choice([3000, 9000])}
    return group(
        name,
        types,
        capacity,
        team=chance.choice([None, "a", "b"]),
        zones=chance.choice([[], zones[:1]]),
        volume=volume | {"throughput": chance.choice([125, 500])},
        public_ip=chance.choice([False, True]) and not several_cards and not reserved,
    )


_POOL = "arn:aws:resource-groups:us-east-1:111122223333:group/training"


def _orders(chance: random.Random, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most one order, from some of the groups; these lose their own sizes."""
    drawn = chance.sample(groups, chance.randint(0, len(groups)))
    if not drawn:
        return []
    nodes = chance.randint(1, sum(map(_without_size, drawn)))
    names = [each["name"] for each in drawn]
    return [{"name": "o", "nodes": nodes, "at_least": chance.randint(0, nodes), "groups": names}]


def _without_size(drawn: dict[str, Any]) -> int:
    """Take a group's own size from it; return how many nodes it may have."""
    (kind, option), *_ = drawn["capacity"].items()
    if kind == "reserved":
        return int(next(iter(option.values()))["nodes"])
    option |= {"min": 0, "desired": None, "max": max(option["max"], 1)}
    if kind == "spot":
        option["on_shortage"] = ["wait"]
    return int(option["max"])


def _draw_elsewhere(chance: random.Random, sites: list[dict[str, Any]]) -> None:
    """Let some orders draw from groups of other sites too."""
    taken = {
        (site["site"], name)
        for site in sites
        for order in site.get("ordered_capacity", [])
        for name in order["groups"]
    }
    for site in sites:
        for order in site.get("ordered_capacity", []):
            for other in sites:
                alike = other is not site and other["scheduler"] == site["scheduler"] and "slurm" not in other
                for each in other["node_groups"] if alike and chance.random() < 0.5 else []:
                    if (other["site"], each["name"]) not in taken:
                        taken.add((other["site"], each["name"]))
                        _without_size(each)
                        place = chance.randint(0, len(order["groups"]))
                        order["groups"].insert(place, f"{other['site']}/{each['name']}")


def _capacity(chance: random.Random, zones: list[str], scheduler: str) -> dict[str, Any]:
    low = chance.randint(0, 4)
    high = low + chance.randint(0, 6)
    shortage = chance.sample(["other-zone", "other-type", "on-demand", "wait"], 2)
    capped = spot(low, high, *shortage)
    if scheduler == "slurm" and chance.random() < 0.5:
        capped["spot"]["max_price"] = f"{chance.choice([1, 5, 25])} USD/h"
    days = f"{chance.choice([1, 5, 14, 49, 182])} d"
    held = {"id": "cr-0123456789abcdef0", "zone": zones[0]}
    return chance.choice(
        [
            on_demand(low, high, chance.randint(low, high)),
            capped,
            block(
                chance.randint(1, 64),
                duration=days,
                extensions=chance.choice([[], ["1 d"], ["14 d", "21 d"]]),
            ),
            block(chance.randint(1, 64), duration=chance.choice([days, None]), start=None, **held),
            block(chance.randint(1, 8), duration="7 d", start=None, extensions=["7 d"], **held),
            odcr(chance.randint(1, 8)),
            odcr(chance.randint(1, 8), **held),
            odcr(chance.randint(1, 8), group=_POOL),
            odcr(chance.randint(1, 8), shared_nodes=chance.randint(0, 3), share_with=["222233334444"]),
        ]
    )


def _lustre(chance: random.Random) -> dict[str, Any] | None:
    if chance.random() < 0.4:
        return None
    deployment = chance.choice(sorted(_DEPLOYMENTS))
    throughputs = CATALOG.lustre_throughputs(_DEPLOYMENTS[deployment])
    lustre: dict[str, Any] = {"deployment": deployment, "capacity": f"{2400 * chance.randint(1, 20)} GiB"}
    if throughputs:
        lustre["throughput"] = f"{chance.choice(throughputs)} MB/s/TiB"
        lustre |= chance.choice([{}, {"kms_key": _KEY}, {"backups": "7 d"}])
    if deployment == "persistent-2":
        lustre |= chance.choice([{}, {"metadata_iops": 6000}])
    return {"name": "fs", "mount": "/fsx", "lustre": lustre}


def _bucket(chance: random.Random, number: int) -> dict[str, Any] | None:
    bucket = {"name": f"atlas-data-{number}", **chance.choice([{}, {"kms_key": _KEY}])}
    return chance.choice([None, {"name": "data", "bucket": bucket}])
