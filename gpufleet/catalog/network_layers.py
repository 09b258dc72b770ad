"""Instance types whose place in EC2's network is known: how many network nodes are above an instance.

EC2 User Guide, "Prerequisites for Amazon EC2 topology". EKS labels a node with them, the top one first
(`topology.k8s.aws/network-node-layer-1`; EKS User Guide, "Place distributed AI/ML workloads with network
topology labels"; kubernetes/cloud-provider-aws v1.36.2, `instances_v2.go`).
"""

from __future__ import annotations

import re

LAYER_LABEL = "topology.k8s.aws/network-node-layer-"
"""With the number of the layer, the label of a node."""

_THREE = re.compile(
    r"(g6e|g7e|hpc[0-9]\w*|trn1n?)\..*|p3dn\.24xlarge|p4de?\.24xlarge|p5(e|en)?\.48xlarge"
    r"|p6e-gb200\.36xlarge|trn2u?\.48xlarge"
)
_FOUR = re.compile(r"p6-b[23]00\.48xlarge")

_REGIONS = frozenset({
    "us-east-1", "us-east-2", "us-west-1", "us-west-2", "us-gov-west-1", "af-south-1", "ap-east-1",
    "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1", "ap-south-2", "ap-southeast-1",
    "ap-southeast-2", "ap-southeast-3", "ap-southeast-4", "ca-central-1", "eu-central-1", "eu-central-2",
    "eu-north-1", "eu-south-2", "eu-west-1", "eu-west-2", "eu-west-3", "il-central-1", "me-central-1",
    "me-south-1", "sa-east-1",
})  # fmt: skip


def network_layers(instance_type: str, region: str) -> int:
    """Return the number of layers of a type in a region; 0 if EC2 does not describe its place there."""
    if region not in _REGIONS:
        return 0
    if _FOUR.fullmatch(instance_type):
        return 4
    return 3 if _THREE.fullmatch(instance_type) else 0
