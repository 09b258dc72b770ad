"""NodePool: a node group of an EKS cluster that Karpenter scales, as an EC2NodeClass and its NodePools.

Fields are those of karpenter-provider-aws v1.14.1 (pkg/apis/v1/ec2nodeclass.go) and sigs.k8s.io/karpenter
v1.14.1 (pkg/apis/v1/nodepool.go).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import Component, Tags
from gpufleet.components.launch_template import NodeInterfaceArgs, VolumeArgs
from gpufleet.components.node_group_args import TaintArgs
from gpufleet.components.node_image import NodeImageArgs, check_architecture, check_image, image_id
from gpufleet.errors import InputError
from gpufleet.kinds import ALWAYS_SUFFIX, ChangedNodes
from gpufleet.user_data import mime_document

POOL = "kubernetes:karpenter.sh/v1:NodePool"
NODE_CLASS = "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass"
_POOL_API, _CLASS_GROUP = "karpenter.sh/v1", "karpenter.k8s.aws"

DRAINED_WITHIN = "30m"
"""How long the deletion of a pool may take: its nodes drain, and end after it."""


@dataclass(frozen=True, kw_only=True)
class NodePoolArgs:
    """Inputs of `NodePool`; `group` is the name of its objects in the cluster.

    `always` nodes run without a pod that needs them; above these there are nodes up to `limits`, by resource.
    A node ends after `ends_after_s` without work (never if None), with `moves_pods` also if its pods fit on
    others. `after` is what must exist before, and be deleted after it (Karpenter and its definitions).
    Nodes of the capacity type `reserved` run in the reservation `reservation_id`, which is a Capacity Block
    with `block`.
    `placement_group` is True for a new one, or the name of that of the reservation.
    """

    group: str
    instance_types: Sequence[str]
    zones: Sequence[str]
    capacity_types: Sequence[Literal["reserved", "spot", "on-demand"]]
    always: int = 0
    limits: Mapping[str, int]
    weight: int = 1
    moves_pods: bool = False
    ends_after_s: int | None = 600
    changed_nodes: ChangedNodes = "one-at-a-time"
    subnet_ids: Sequence[pulumi.Input[str]]
    security_group_ids: Sequence[pulumi.Input[str]]
    instance_profile: pulumi.Input[str]
    image: NodeImageArgs
    interfaces: Sequence[NodeInterfaceArgs] = (NodeInterfaceArgs(),)
    placement_group: bool | pulumi.Input[str] = False
    reservation_id: pulumi.Input[str] | None = None
    block: bool = False
    public_ip: bool = False
    volume: VolumeArgs = field(default_factory=VolumeArgs)
    stripes_nvme: bool = False
    user_data: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[TaintArgs] = ()
    after: Sequence[pulumi.Resource] = ()
    tags: Tags


class NodePool(Component):
    """The node class of a group, and a pool each for the nodes that always run and for those that pods need.

    A changed node class is a drift: Karpenter replaces the nodes, one at a time or once they have no work.
    Deleted pools drain and end their nodes before Karpenter itself is deleted.
    """

    placement_group_name: pulumi.Output[str] | None

    def __init__(self, name: str, args: NodePoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        _check(name, args)
        super().__init__("gpufleet:kubernetes:NodePool", name, args.tags, opts)
        self.placement_group_name = None
        if args.placement_group is True:
            made = aws.ec2.PlacementGroup(name, strategy="cluster", tags=self.tags(name), opts=self.child())
            self.placement_group_name = made.name
        elif args.placement_group is not False:
            self.placement_group_name = pulumi.Output.from_input(args.placement_group)
        spec = self._class_spec(name, args)
        node_class = self._object(name, NODE_CLASS, args, args.group, spec, args.after)
        self._pools = [
            self._object(f"{name}{suffix}", POOL, args, f"{args.group}{suffix}", pool, [node_class])
            for suffix, pool in pool_specs(args)
        ]
        self.register_outputs({"placementGroupName": self.placement_group_name})

    def _object(
        self,
        label: str,
        token: str,
        args: NodePoolArgs,
        name: str,
        spec: Mapping[str, Any],
        after: Sequence[pulumi.Resource],
    ) -> pulumi.CustomResource:
        api, _, kind = token.removeprefix("kubernetes:").rpartition(":")
        return pulumi.CustomResource(
            token,
            label,
            {
                "apiVersion": api,
                "kind": kind,
                "metadata": {
                    "name": name,
                    "labels": {"app.kubernetes.io/managed-by": "gpufleet", **_site(args.labels)},
                },
                "spec": spec,
            },
            self.child(depends_on=list(after), custom_timeouts=pulumi.CustomTimeouts(delete=DRAINED_WITHIN)),
        )

    def _class_spec(self, name: str, args: NodePoolArgs) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "amiFamily": "AL2023",
            # By id: Karpenter replaces nodes when the image of a name or an alias changes.
            "amiSelectorTerms": [{"id": image_id(self, args.image)}],
            "instanceProfile": args.instance_profile,
            "subnetSelectorTerms": [{"id": each} for each in args.subnet_ids],
            "securityGroupSelectorTerms": [{"id": each} for each in args.security_group_ids],
            # As a launch template of a node group: IMDSv2 only, and one hop, which pods do not reach.
            "metadataOptions": {
                "httpEndpoint": "enabled",
                "httpProtocolIPv6": "disabled",
                "httpPutResponseHopLimit": 1,
                "httpTokens": "required",
            },
            "blockDeviceMappings": [_root_volume(args.volume)],
            "detailedMonitoring": True,
            "tags": self.tags(name),
        }
        if len(args.interfaces) > 1:
            # All EFA adapters of the type: without the list a node has them only if its first pod asks.
            spec["networkInterfaces"] = [
                {
                    "networkCardIndex": each.network_card_index,
                    "deviceIndex": each.device_index,
                    "interfaceType": each.interface_type,
                }
                for each in args.interfaces
            ]
        else:
            # EC2 refuses the parameter for an instance with several interfaces.
            spec["associatePublicIPAddress"] = args.public_ip
        if self.placement_group_name is not None:
            spec["placementGroupSelector"] = {"name": self.placement_group_name}
        if args.reservation_id is not None:
            spec["capacityReservationSelectorTerms"] = [{"id": args.reservation_id}]
        if args.stripes_nvme:
            spec["instanceStorePolicy"] = "RAID0"
        if args.user_data:
            spec["userData"] = mime_document(args.user_data)
        return spec


def pool_specs(args: NodePoolArgs) -> list[tuple[str, dict[str, Any]]]:
    """Return (suffix of the name, specification) of each pool of a group."""
    found: list[tuple[str, dict[str, Any]]] = []
    if args.limits:
        limits = {name: str(count) for name, count in args.limits.items()}
        found.append(("", {**_common(args), "limits": limits, "weight": args.weight}))
    if args.always:
        # One more while a changed node is replaced: Karpenter starts the new one first.
        most = args.always + (args.changed_nodes == "one-at-a-time")
        spec = {**_common(args), "replicas": args.always, "limits": {"nodes": str(most)}}
        found.append((ALWAYS_SUFFIX, spec))
    return found


def pool_names(group: str, limits: Mapping[str, int], always: int) -> list[str]:
    """Return the names of a group's pools in the cluster."""
    return [group] * bool(limits) + [f"{group}{ALWAYS_SUFFIX}"] * bool(always)


def _common(args: NodePoolArgs) -> dict[str, Any]:
    taints = [_taint(each) for each in args.taints]
    return {
        "template": {
            "metadata": {"labels": dict(args.labels)},
            "spec": {
                "nodeClassRef": {"group": _CLASS_GROUP, "kind": "EC2NodeClass", "name": args.group},
                "requirements": [
                    _one_of("node.kubernetes.io/instance-type", args.instance_types),
                    _one_of("topology.kubernetes.io/zone", args.zones),
                    _one_of("karpenter.sh/capacity-type", args.capacity_types),
                    *_reservation_type(args),
                ],
                **({"taints": taints} if taints else {}),
                # Its default is 30 days: jobs would end with their nodes.
                "expireAfter": "Never",
            },
        },
        "disruption": {
            "consolidationPolicy": "WhenEmptyOrUnderutilized" if args.moves_pods else "WhenEmpty",
            "consolidateAfter": "Never" if args.ends_after_s is None else f"{args.ends_after_s}s",
            "budgets": [
                {"nodes": "100%", "reasons": ["Empty"]},
                {"nodes": "10%", "reasons": ["Underutilized"]},
                {"nodes": "1" if args.changed_nodes == "one-at-a-time" else "0", "reasons": ["Drifted"]},
            ],
        },
    }


def _reservation_type(args: NodePoolArgs) -> list[dict[str, Any]]:
    if args.reservation_id is None:
        return []
    kind = "capacity-block" if args.block else "default"
    return [_one_of("karpenter.k8s.aws/capacity-reservation-type", [kind])]


def _one_of(key: str, values: Sequence[str]) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def _taint(taint: TaintArgs) -> dict[str, str]:
    return {
        "key": taint.key,
        **({"value": taint.value} if taint.value else {}),
        "effect": taint.effect,
    }


def _root_volume(volume: VolumeArgs) -> dict[str, Any]:
    return {
        "deviceName": "/dev/xvda",
        "rootVolume": True,
        "ebs": {
            "volumeType": "gp3",
            "volumeSize": f"{volume.size_gib}Gi",
            "iops": volume.iops,
            "throughput": volume.throughput,
            "encrypted": True,
            "deleteOnTermination": True,
            **({} if volume.kms_key_id is None else {"kmsKeyID": volume.kms_key_id}),
        },
    }


def _site(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key == "gpufleet.io/site"}


def _check(name: str, args: NodePoolArgs) -> None:
    check_image(f"node pool {name}", args.image)
    check_architecture(f"node pool {name}", args.instance_types, None, args.image)
    if not args.always and not args.limits.get("nodes"):
        raise InputError(
            f"node pool {name}: it has no limit, and Karpenter would start as many nodes as pods request",
            remedy="set limits to {'nodes': ...} and a limit of cpu or of devices, or set always",
        )
    if ("reserved" in args.capacity_types) != (args.reservation_id is not None):
        raise InputError(
            f"node pool {name}: capacity type 'reserved' needs a reservation, and others have none",
            remedy="set capacity_types to ['reserved'] and reservation_id, or neither",
        )
    if any(each.interface_type == "efa" for each in args.interfaces):
        raise InputError(
            f"node pool {name}: an interface of type 'efa' cannot be in an EC2NodeClass",
            remedy="use 'interface' for the primary one, and 'efa-only' for the others",
        )
