"""A small fleet with every feature of the cloud half, and changes to it by path."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from tests.e2e.changes_racks import RACKS_BEFORE, SLURM_RACKS

KEYS = "arn:aws:kms:us-east-1:123456789012:key/00000000-0000-4000-8000-"
"""Keys outside the stack, without their last twelve digits."""

MINE = "ami-000c540e28953ace2"
OTHER = "ami-04681a1dbd79675a5"
"""Images that moto has in each region."""

GONE: Any = object()
"""As a new value: remove the field or list item."""

_STEP = re.compile(r"([A-Za-z_]+)(?:\[([^\]]+)\])?$")
_NAMED_BY = {"cloud": "site", "onprem": "site"}

TRAIN = {"instance_types": ["g6.8xlarge"], "workload": "training"}


def groups(near: str, far: str, held: Mapping[str, str]) -> list[dict[str, Any]]:
    """The node groups of a site in two zones; `held` are existing reservations."""
    plain = {"instance_types": ["g6e.2xlarge"], "zones": [near], "workload": "batch"}
    scaled = {"on_demand": {"min": 0, "max": 3, "desired": 1}}
    return [
        *(
            {**plain, "name": name, "capacity": copy.deepcopy(scaled)}
            for name in ("one", "two", "three", "four")
        ),
        {**plain, "name": "marked", "capacity": scaled, "team": "red", "labels": {"tier": "low"}},
        {
            **plain,
            "name": "tainted",
            "capacity": scaled,
            "taints": [{"key": "night", "value": "yes", "effect": "NoSchedule"}],
        },
        {**plain, "name": "mine", "capacity": scaled, "image": MINE},
        {**TRAIN, "name": "fast", "capacity": scaled, "zones": [near], "network": "efa"},
        {**TRAIN, "name": "slow", "capacity": scaled, "zones": [near], "placement": "none"},
        *(
            {
                **plain,
                "name": name,
                "zones": [near, far],
                "capacity": {"spot": {"min": 0, "max": 2, "desired": 1, "on_shortage": ["wait"]}},
            }
            for name in ("cheap", "idle")
        ),
        *(
            {**plain, "name": name, "zones": zones, "capacity": {"on_demand": {"max": 2}}}
            for name, zones in (("first", [near]), ("second", [near, far]), ("last", [far]), ("rest", [far]))
        ),
        {
            "name": "kept",
            "instance_types": ["p5.48xlarge"],
            "workload": "training",
            "capacity": {"reserved": {"odcr": {"nodes": 2, "zone": near}}},
        },
        {
            "name": "block",
            "instance_types": ["p5.48xlarge"],
            "zones": [near],
            "workload": "training",
            "capacity": {
                "reserved": {
                    "capacity_block": {
                        "nodes": 1,
                        "duration": "1 d",
                        "start": "in 14 d",
                        "extensions": ["1 d", "2 d"],
                    }
                }
            },
        },
        *(
            {
                **plain,
                "name": name,
                "capacity": {
                    "reserved": {
                        "odcr": {
                            "nodes": 1,
                            "id": held[reservation],
                            "instance_type": "g6e.2xlarge",
                            "zone": near,
                            "instances": 2,
                        }
                    }
                },
            }
            for name, reservation in (("given", "odcr"), ("lent", "lent_odcr"))
        ),
        {
            **plain,
            "name": "shared",
            "capacity": {
                "reserved": {
                    "odcr": {
                        "nodes": 1,
                        "zone": near,
                        "shared_nodes": 1,
                        "share_with": ["222233334444", "222233335555"],
                    }
                }
            },
        },
        {
            **plain,
            "name": "pooled",
            "zones": [near],
            "capacity": {"reserved": {"odcr": {"nodes": 1, "group": held["pool"], "instances": 2}}},
        },
        {
            "name": "bought",
            "instance_types": ["p5.48xlarge"],
            "workload": "training",
            "capacity": {
                "reserved": {
                    "capacity_block": {
                        "nodes": 1,
                        "id": held["block"],
                        "instance_type": "p5.48xlarge",
                        "zone": near,
                        "instances": 1,
                    }
                }
            },
        },
    ]


def orders() -> list[dict[str, Any]]:
    """Orders from some of these groups."""
    return [
        {"name": "pair", "nodes": 3, "at_least": 1, "groups": ["first", "second"]},
        {"name": "single", "nodes": 1, "groups": ["last"]},
    ]


def storage() -> list[dict[str, Any]]:
    """The storage of the main site: a bucket that a file system shows, and file systems of each kind."""
    lasting = {"deployment": "persistent-2", "throughput": "125 MB/s/TiB", "zone": "us-east-1a"}
    return [
        {"name": "data", "bucket": {"name": "chg-test-data"}},
        {"name": "spare", "bucket": {"name": "chg-test-spare"}},
        {
            "name": "cold",
            "bucket": {"name": "chg-test-cold", "expire_after": "90 d", "kms_key": f"{KEYS}000000000001"},
        },
        *(
            {
                "name": name,
                "lustre": {**lasting, "capacity": "2400 GiB", "metadata_iops": 3000, "backups": "7 d"},
            }
            for name in ("fs", "big", "safe")
        ),
        {
            "name": "swift",
            "lustre": {**lasting, "capacity": "38400 GiB", "efa": True, "metadata_iops": 6000},
        },
        {
            "name": "linked",
            "mount": "/fsx/linked",
            "lustre": {**lasting, "capacity": "1200 GiB", "import_from": "s3://chg-test-data/a"},
        },
        {
            "name": "older",
            "lustre": {
                "deployment": "persistent-1",
                "capacity": "1200 GiB",
                "throughput": "50 MB/s/TiB",
                "zone": "us-east-1a",
            },
        },
        # Mounted by pods, whose volumes follow their file system.
        *(
            {
                "name": name,
                "lustre": {"deployment": "scratch-2", "capacity": "1200 GiB", "zone": "us-east-1a"},
            }
            for name in ("pods-a", "pods-b", "pods-c")
        ),
    ]


TRAINIUM = {
    "name": "neuron",
    "instance_types": ["trn1.2xlarge"],
    "zones": ["us-east-1a"],
    "capacity": {"on_demand": {"min": 0, "max": 1}},
}
"""A group with Neuron devices, for whose scheduler and quotas the cluster has fields."""


SHARED = [
    {
        "name": name,
        "instance_types": ["g6e.2xlarge"],
        "zones": ["us-east-1a"],
        "capacity": {"on_demand": {"min": 0, "max": 1}},
        "gpu_sharing": sharing,
    }
    for name, sharing in (
        ("sliced", {"time_slicing": {"replicas": 4}}),
        ("served", {"mps": {"replicas": 2}}),
    )
]
"""Groups whose GPUs pods share."""


BURST = {
    "site": "burst",
    "region": "us-west-2",
    "zones": ["us-west-2a"],
    "network": {
        "cidr": "10.47.0.0/16",
        "nat": "single",
        "vpn": {"gateway": "203.0.113.7", "asn": 65010, "networks": ["10.95.0.0/24", "10.96.0.0/24"]},
    },
    "scheduler": "slurm",
    "slurm": {
        "controllers": "east",
        "identity": "arn:aws:iam::123456789012:role/east",
        "burst": {"teams": ["red"], "monthly": "500 USD"},
    },
    "node_groups": [
        {
            "name": "launched",
            "instance_types": ["g6e.2xlarge"],
            "image": MINE,
            "capacity": {"on_demand": {"max": 2}},
        }
    ],
}
"""A site whose nodes the Slurm of a rack site launches."""


def with_servers(site: str, cidr: str, controllers: int) -> dict[str, Any]:
    """A site with a Slurm of its own."""
    servers = {
        "image": MINE,
        "controllers": {"hosts": controllers},
        "login": {"hosts": 2},
        "shared": "/shared",
    }
    return {
        "site": site,
        "region": "us-west-2",
        "zones": ["us-west-2a"],
        "network": {"cidr": cidr, "nat": "single"},
        "scheduler": "slurm",
        "slurm": {"servers": servers},
        "node_groups": [
            {
                "name": "launched",
                "instance_types": ["g6e.2xlarge"],
                "image": MINE,
                "capacity": {"on_demand": {"max": 2}},
            }
        ],
    }


STATIC_VPN = {
    "gateway": "203.0.113.8",
    "networks": ["10.60.0.0/24", "10.62.0.0/24"],
    "static": True,
    "logs": True,
}
"""A VPN to a router without BGP, with logs."""


DIRECT = {
    "gateway": "5f294f92-bafb-4011-916d-9b0bec1f4f35",
    "owner": "444455556666",
    "networks": ["10.97.0.0/24", "10.98.0.0/24"],
}
"""Direct Connect by a gateway of another account."""


DNS = {"forward": [{"domain": "corp.example", "servers": ["10.97.0.53"]}], "inbound": True}
"""Names of the racks at the site, and of the site at the racks."""


def small(site: str, region: str, cidr: str) -> dict[str, Any]:
    """A Slurm site with one group."""
    return {
        "site": site,
        "region": region,
        "zones": [f"{region}a", f"{region}b"],
        "network": {"cidr": cidr, "nat": "single"},
        "scheduler": "slurm",
        "node_groups": [
            {
                "name": "only",
                "instance_types": ["g6e.2xlarge"],
                "zones": [f"{region}a"],
                "capacity": {"on_demand": {"min": 0, "max": 1}},
            }
        ],
        "storage": [],
    }


def pooled() -> dict[str, Any]:
    """A site whose groups are node pools of Karpenter, one in a reservation."""
    site = small("pooled", "us-west-2", "10.50.0.0/16")
    capacity = {"reserved": {"odcr": {"nodes": 1}}}
    site["node_groups"].append({**site["node_groups"][0], "name": "kept", "capacity": capacity})
    return site | {
        "scheduler": "kubernetes",
        "kubernetes": {"autoscaler": {"kind": "karpenter", "reserved_nodes": "node-pools"}},
    }


def queued() -> dict[str, Any]:
    """A site with queues, and a group whose place in the network EC2 describes."""
    site = small("queued", "us-west-2", "10.48.0.0/16")
    site["node_groups"][0]["placement"] = "cluster"
    queues = {"jobset": True, "leader_worker_set": True}
    return site | {
        "scheduler": "kubernetes",
        "kubernetes": {"queues": queues, "teams": [{"name": "lab", "gpus": 1}]},
    }


def fleet(held: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """The fleet before any change; `held` has the existing reservations, by site."""
    return {
        "apiVersion": "gpufleet/v1",
        "fleet": "chg",
        "environment": "test",
        "budget": {
            "monthly": "3000000 USD",
            "upfront": "300000 USD",
            "notify": ["a@example.com"],
            "sites": {"kube": "800000 USD"},
            "node_groups": {"kube/one": "700000 USD"},
            "teams": {"red": "600000 USD"},
            "anomalies": {"above": "500 USD"},
        },
        "tags": {"team": "ml", "cost-center": "cc-1", "project": "atlas"},
        "cloud": [
            {
                "site": "kube",
                "region": "us-east-1",
                "zones": ["us-east-1a", "us-east-1b"],
                "network": {"cidr": "10.40.0.0/16", "nat": "single", "vpn": STATIC_VPN},
                "interruptions": {},
                "scheduler": "kubernetes",
                "kubernetes": {
                    "version": "1.34",
                    "private_cidrs": ["10.60.0.0/24"],
                    "public_cidrs": ["198.51.100.0/24"],
                    "admins": ["arn:aws:iam::123456789012:role/first"],
                    "gpu_stack": "gpu-operator",
                    "system_nodes": {"instance_types": ["m7i.xlarge"], "min": 2, "max": 3},
                    "teams": [
                        {
                            "name": "red",
                            "gpus": 16,
                            "priority": "normal",
                            "buckets": [{"storage": "data", "mount": True}, {"storage": "cold"}],
                            "file_systems": [{"storage": "pods-a"}],
                        },
                        {
                            "name": "blue",
                            "gpus": 8,
                            "priority": "low",
                            "buckets": [{"storage": "data", "access": "read"}],
                            "file_systems": [{"storage": "pods-a"}, {"storage": "pods-b"}],
                        },
                        {"name": "green", "gpus": 8, "priority": "low"},
                    ],
                },
                "node_groups": [*groups("us-east-1a", "us-east-1b", held["kube"]), TRAINIUM, *SHARED],
                "ordered_capacity": orders(),
                "storage": storage(),
            },
            {
                "site": "batch",
                "region": "us-west-2",
                "zones": ["us-west-2a", "us-west-2b"],
                "network": {"cidr": "10.41.0.0/16", "nat": "single"},
                "interruptions": {},
                "scheduler": "slurm",
                "node_groups": groups("us-west-2a", "us-west-2b", held["batch"]),
                "ordered_capacity": orders(),
            },
            small("near", "us-west-2", "10.42.0.0/16"),
            # Its own site: a new group changes the autoscaler's settings as well.
            small("scaled", "us-west-2", "10.46.0.0/16")
            | {
                "scheduler": "kubernetes",
                "kubernetes": {
                    "autoscaler": {},
                    "gpu_stack": "gpu-operator",
                    "fault_repair": {"action": "quarantine"},
                },
            },
            queued(),
            pooled(),
            with_servers("alone", "10.49.0.0/16", 1),
            with_servers("paired", "10.53.0.0/16", 2),
            small("far", "us-west-2", "10.43.0.0/16")
            | {"network": {"cidr": "10.43.0.0/16", "nat": "single", "direct_connect": DIRECT, "dns": DNS}},
            BURST,
        ],
        "onprem": [*RACKS_BEFORE, *SLURM_RACKS],
        "software": {"channel": "2026.11"},
    }


def changed(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The fleet with values at paths like `cloud[kube].node_groups[one].volume.size` set or taken out.

    A list item is found by its name; an unknown name is appended.
    """
    after: dict[str, Any] = copy.deepcopy(dict(before))
    for path, value in changes.items():
        _set(after, path, copy.deepcopy(value) if value is not GONE else GONE)
    return after


def _set(document: Any, path: str, value: Any) -> None:
    *way, last = _split(path)
    for name, item in way:
        document = document.setdefault(name, {})
        if item is not None:
            document = _find(document, name, item)
    name, item = last
    if item is not None:
        found = _find(document.setdefault(name, []), name, item)
        if value is GONE:
            document[name].remove(found)
        elif found is None:
            document[name].append(value)
        else:
            document[name][document[name].index(found)] = value
    elif value is GONE:
        document.pop(name, None)
    else:
        document[name] = value


def _split(path: str) -> list[tuple[str, str | None]]:
    steps = []
    for step in re.split(r"\.(?![^\[]*\])", path):
        match = _STEP.match(step)
        steps.append((match[1], match[2]) if match else (step, None))
    return steps


def _find(items: list[Any], name: str, item: str) -> Any:
    if item.isdecimal():
        return items[int(item)]
    key = _NAMED_BY.get(name, "name")
    return next((each for each in items if each[key] == item), None)
