"""A node pool of Karpenter and its node class, for tests of prices and rules."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from gpufleet.pricing import FleetCost
from gpufleet.resources.types import NODE_CLASS, NODE_POOL
from tests.unit.pricing.stacks import cost

TAGS = {
    "team": "ml",
    "cost-center": "cc-1",
    "project": "atlas",
    "gpufleet:site": "use1",
    "gpufleet:node-group": "own",
}
CLASS: Mapping[str, Any] = {
    "metadata": {"name": "own"},
    "spec": {
        "amiSelectorTerms": [{"id": "ami-0123456789abcdef0"}],
        "associatePublicIPAddress": False,
        "blockDeviceMappings": [
            {
                "deviceName": "/dev/xvda",
                "ebs": {"encrypted": True, "volumeSize": "100Gi", "volumeType": "gp3"},
            }
        ],
        "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1},
        "tags": TAGS,
    },
}


def need(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


TYPE, CAPACITY = "node.kubernetes.io/instance-type", "karpenter.sh/capacity-type"
ZONE = need("topology.kubernetes.io/zone", "us-east-1a")


def pool(*needs: dict[str, Any], **spec: Any) -> dict[str, Any]:
    requirements = list(needs) or [need(TYPE, "g6.xlarge"), need(CAPACITY, "on-demand"), ZONE]
    template = {"spec": {"nodeClassRef": {"name": "own"}, "requirements": requirements}}
    limits = {} if "replicas" in spec else {"limits": {"nvidia.com/gpu": "4"}}
    props = {"metadata": {"name": "own"}, "spec": {"template": template, **limits, **spec}}
    return {"type": NODE_POOL, "name": "pool", "props": props}


def node_class(path: str = "", value: Any = None) -> dict[str, Any]:
    props = copy.deepcopy(dict(CLASS))
    if path:
        *above, last = path.split(".")
        inner = props["spec"]
        for part in above:
            inner = inner[int(part)] if part.isdigit() else inner[part]
        if value is None:
            del inner[last]
        else:
            inner[last] = value
    return {"type": NODE_CLASS, "name": "class", "props": props}


def pool_cost(wanted: Mapping[str, Any], *more: Mapping[str, Any], of_class: Any = None) -> FleetCost:
    """The cost of a node pool with its class (default: `node_class()`) and more resources."""
    return cost(of_class or node_class(), wanted, *more)
