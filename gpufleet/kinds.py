"""Names, sizes and defaults of the parts of a cloud site, each defined only here.

The fleet file, the catalog, the plan, components, rules and prices import them from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Literal

CapacityKind = Literal["on-demand", "spot", "odcr", "capacity-block"]
"""How nodes are bought, in labels, outputs, prices and the plan's JSON."""

BLOCK_EXTENDED_FROM, BLOCK_EXTENDED_UNTIL = timedelta(days=56), timedelta(hours=1)
"""How long before its end a Capacity Block can be extended (EC2 User Guide, "Extend Capacity Blocks")."""

EXTENSION_SUFFIX = "-extension-"
"""Between the name of a Capacity Block's resources and the number of an extension, from 1 on."""

NatKind = Literal["single", "per-zone", "none"]
"""NAT gateways: one, one in each zone, or none."""

RUNNING_COSTS = ("colocation", "support", "staff")
"""What a rack site costs per month besides electricity."""

KubernetesAccess = Literal["ssm", "direct", "phased"]
"""How a run reaches the API of an EKS cluster: a port-forward of Session Manager, a network, or not yet."""

ACCESS_PORT_MIN, ACCESS_PORT_MAX = 1024, 65535
"""Ports of this machine that an unprivileged process may use."""

LustreDeployment = Literal["PERSISTENT_2", "PERSISTENT_1", "SCRATCH_2"]
"""Deployment types of FSx for Lustre in the catalog, with AWS's names."""

WrittenDeployment = Literal["persistent-2", "persistent-1", "scratch-2"]

LUSTRE_DEPLOYMENTS: Mapping[WrittenDeployment, LustreDeployment] = {
    "persistent-2": "PERSISTENT_2",
    "persistent-1": "PERSISTENT_1",
    "scratch-2": "SCRATCH_2",
}
"""The deployment types, by their names in a fleet file."""

METADATA_IOPS = (1500, 3000, 6000, *range(12_000, 192_001, 12_000))
"""What can be provisioned on SSD file systems (FSx API Reference,
FileSystemLustreMetadataConfiguration)."""

GP3_IOPS = 3000
GP3_MB_S = 125
"""What every gp3 volume includes without extra charge, which is also its minimum (EBS User Guide)."""

NODE_VOLUME_GIB = 200
"""The default root volume of a node; a gp3 volume at its included speed."""

SYSTEM_INSTANCE_TYPES = ("m7i.xlarge",)
SYSTEM_NODES_MIN = 2
SYSTEM_NODES_MAX = 3
"""The default nodes for an EKS cluster's own services."""

GPU_RESOURCE = "nvidia.com/gpu"
NEURON_RESOURCE = "aws.amazon.com/neuron"
NEURON_CORE_RESOURCE = "aws.amazon.com/neuroncore"
"""What pods request of device plugins: whole GPUs, whole Neuron devices, and their cores. The first two are
also the taints of the nodes."""

LAUNCHER_SUFFIX = "-launcher"
"""What the role by which controllers launch a site's nodes is called besides the site."""

NODE_GROUP_TAG = "gpufleet:node-group"
"""The tag of all nodes with the name of their group. Slurm's servers have none."""

SLURM_SERVER_TAG = "gpufleet:slurm-server"
"""The tag of an instance of a Slurm in the cloud with its role: `controller` or `login`."""

SLURM_NODE_TAG = "gpufleet:slurm-node"
"""The tag of an instance with the name of its Slurm node."""

KUBE_SCHEDULER = "registry.k8s.io/kube-scheduler"
"""Kubernetes's own scheduler, as an image for x86_64 and arm64."""

CLUSTER_AUTOSCALER = "cluster-autoscaler"
CLUSTER_AUTOSCALER_IMAGE = "registry.k8s.io/autoscaling/cluster-autoscaler"
"""Kubernetes's own autoscaler: its Deployment and service account in `kube-system`, and its image for x86_64
and arm64."""

KARPENTER = "karpenter"
KARPENTER_IMAGE = "public.ecr.aws/karpenter/controller"
KARPENTER_CRD_CHART = "oci://public.ecr.aws/karpenter/karpenter-crd"
"""Karpenter's Deployment and service account in `kube-system`, its image for x86_64 and arm64, and the chart
of its custom resource definitions."""

ALWAYS_SUFFIX = ".always"
"""What the node pool with a group's nodes that always run is called besides the group: no group's name has a
dot."""

AutoscalerKind = Literal["cluster-autoscaler", "karpenter", "none"]
"""What sets the sizes of a Kubernetes site's node groups."""

ChangedNodes = Literal["one-at-a-time", "when-idle"]
"""When Karpenter ends nodes whose node class has changed: one after the other, or only those without work."""

ReservedNodesIn = Literal["node-groups", "node-pools"]
"""What nodes in reservations and Capacity Blocks belong to: EKS node groups, or Karpenter's node pools."""

Expander = Literal["least-waste", "priority"]
"""How the Cluster Autoscaler chooses between node groups that have room for the same pods."""

QueuesKind = Literal["kueue", "none"]
"""What shares out the devices of a Kubernetes site among teams."""

KUEUE_CHART = "oci://registry.k8s.io/kueue/charts/kueue"
JOBSET_CHART = "oci://registry.k8s.io/jobset/charts/jobset"
LEADER_WORKER_SET_CHART = "oci://registry.k8s.io/lws/charts/lws"
"""Charts of Kueue, and of the controllers of two kinds of jobs; their images are in the same registry."""

PRIORITIES: Mapping[str, int] = {"low": 1_000, "normal": 10_000, "high": 100_000}
"""Values of the priority classes of a site, far below those of Kubernetes's own (2,000,000,000)."""

SYSTEM_PRIORITIES = ("system-cluster-critical", "system-node-critical")
"""Kubernetes's own classes, above all of ours. They work in every namespace, so quotas must limit them."""

TEAM_LABEL = "gpufleet.io/team"
PRIORITY_LABEL = "gpufleet.io/priority"
"""Labels of a team's namespace: whose it is, and the highest priority of its jobs."""

FaultRepairKind = Literal["nvsentinel", "none"]
FaultRepairAction = Literal["detect", "quarantine", "drain"]
"""What finds faulty GPUs of a Kubernetes site, and how far it goes: each action includes those before it."""

AUTOSCALED_TAG = "gpufleet:autoscaler"
"""The tag of Auto Scaling groups whose size belongs to a Cluster Autoscaler; its value is the cluster."""

NEURON_SCHEDULER = "neuron-scheduler"
NEURON_DEVICE_PLUGIN = "neuron-device-plugin"
NEURON_EXTENSION = "neuron-scheduler-extension"
"""The `schedulerName` of pods whose Neuron devices must be neighbours, in an EKS cluster with such nodes."""

OnBreach = Literal["notify", "stop-scale-out", "drain-spot"]
"""What a spent budget does. Each value does what those before it do, too."""

DRAIN_SPOT_AT = 110
"""The share of a budget, in percent, from which spot nodes drain unless the fleet file has another."""

DRAIN_SUFFIX = "-drain"
"""What the function that drains spot nodes is called besides its budget."""

DRAIN_TAG = "gpufleet:budget-drain"
DRAIN_TAG_VALUE = "spot"
"""The tag of groups of spot nodes that a spent budget may drain: the function's role changes no others."""

GPU_SHARING_LABEL = "gpufleet.io/gpu-sharing"
"""The label of EKS nodes whose GPUs pods share by gpufleet's own device plugins; its value is the name of the
configuration."""

UNSHARED_GPUS = "default"
"""The name of the device plugin's configuration for GPUs that no pods share."""

STOP_SUFFIX = "-stop"
"""What the function that stops the growth of node groups is called besides its budget."""

VPN_ASN = 65000
"""The BGP number of a router at the racks unless the fleet file has another: private (RFC 6996)."""

VPN_AMAZON_ASN = 64512
"""The BGP number of AWS's side of a VPN: AWS's default for virtual private gateways."""

MOST_GATEWAYS_OF_DIRECT_CONNECT = 20
"""The virtual private gateways that a Direct Connect gateway takes at most (Direct Connect User Guide,
"Quotas": it cannot be increased)."""

MOST_DNS_SERVERS = 6
"""The servers of a forwarded domain: target addresses of a rule of Route 53 Resolver at most (Route 53
Developer Guide, "Quotas on Route 53 Resolver")."""

DNS_DIRECTIONS = ("inbound", "outbound")
"""The Resolver endpoints of a site: one that the racks query, and one that queries them."""

DNS_ADDRESSES = 2
"""The addresses of each Resolver endpoint: AWS requires two (CreateResolverEndpoint, IpAddresses)."""

LOG_RETENTION_DAYS = 365
"""Retention of log groups: set by the stack, and the minimum that the rules require."""

EKS_ADDONS = ("eks-pod-identity-agent", "vpc-cni", "kube-proxy", "coredns", "aws-ebs-csi-driver")
LUSTRE_ADDON = "aws-fsx-csi-driver"
BUCKET_ADDON = "aws-mountpoint-s3-csi-driver"
"""The add-ons of every EKS cluster, that of a site with FSx for Lustre, and that of one whose teams mount
buckets."""

TEAM_SERVICE_ACCOUNT = "gpufleet-data"
"""The service account in a team's namespace whose pods reach the team's buckets."""

TEAMS_SHARED = "shared"
"""The folder of a bucket that all teams with access to it read; their own have their names."""

NOTICES_NAMESPACE = "gpufleet-system"
NOTICES_SERVICE_ACCOUNT = "gpufleet-notices"
"""Where the handler of AWS's notices runs in an EKS cluster, and with which service account."""

CONTROL_PLANE_LOGS = ("api", "audit", "authenticator", "controllerManager", "scheduler")
"""The types of logs that an EKS control plane has (EKS User Guide, "Send control plane logs")."""


def priority_class(priority: str) -> str:
    """Return the name of a priority class of a Kubernetes site."""
    return f"gpufleet-{priority}"
