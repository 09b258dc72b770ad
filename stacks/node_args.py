"""Inputs of components from the plan of a node: its image, root volume, interfaces, labels and taints."""

from __future__ import annotations

from typing import assert_never

from gpufleet.catalog.images import eks_image_parameter
from gpufleet.components.device_plugins import EFA_NODE_LABEL
from gpufleet.components.node_group import NodeImageArgs, NodeInterfaceArgs, TaintArgs, VolumeArgs
from gpufleet.plan.image_models import ImageKind
from gpufleet.plan.models import NetworkInterface, NodeGroupPlan, TaintPlan, VolumePlan


def node_image(kind: ImageKind, image: str) -> NodeImageArgs:
    """Return the component arguments of a planned image."""
    match kind:
        case "ami-id":
            return NodeImageArgs(ami_id=image)
        case "ami-name":
            return NodeImageArgs(name=image)
        case "eks-release":
            return NodeImageArgs(parameter=eks_image_parameter(image))
        case "parameter":
            return NodeImageArgs(parameter=image)
        case other:
            assert_never(other)


def volume_args(volume: VolumePlan) -> VolumeArgs:
    """Return the component arguments of a planned root volume."""
    return VolumeArgs(size_gib=volume.size_gib, iops=volume.iops, throughput=volume.throughput)


def interface_args(interface: NetworkInterface) -> NodeInterfaceArgs:
    """Return the component arguments of a planned network interface."""
    return NodeInterfaceArgs(
        network_card_index=interface.network_card_index,
        device_index=interface.device_index,
        interface_type=interface.interface_type,
    )


def node_labels(group: NodeGroupPlan) -> dict[str, str]:
    """Return the labels of a group's nodes in a cluster; the EFA plugin runs where theirs says so."""
    return dict(group.labels) | ({EFA_NODE_LABEL: "true"} if group.efa else {})


def taint_args(taint: TaintPlan) -> TaintArgs:
    """Return the component arguments of a planned taint."""
    return TaintArgs(key=taint.key, value=taint.value, effect=taint.effect)
