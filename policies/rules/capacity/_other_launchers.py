"""Instances that services other than EC2 start: their types are checked, their number is unknown."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.catalog import Catalog
from gpufleet.policy.rule import Violation
from gpufleet.resources.launches import declared
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import CLUSTER

DEDICATED_HOST = "aws:ec2/dedicatedHost:DedicatedHost"
ENDPOINT_CONFIGURATION = "aws:sagemaker/endpointConfiguration:EndpointConfiguration"
NOTEBOOK = "aws:sagemaker/notebookInstance:NotebookInstance"
EMR_CLUSTER = "aws:emr/cluster:Cluster"
EMR_GROUP = "aws:emr/instanceGroup:InstanceGroup"
EMR_FLEET = "aws:emr/instanceFleet:InstanceFleet"
GAME_FLEET = "aws:gamelift/fleet:Fleet"
CAPACITY_PROVIDER = "aws:ecs/capacityProvider:CapacityProvider"
OLD_NODE_POOL = "kubernetes:karpenter.sh/v1beta1:NodePool"

OTHER_LAUNCHERS = {
    DEDICATED_HOST: ("instanceType",),
    NOTEBOOK: ("instanceType",),
    ENDPOINT_CONFIGURATION: ("productionVariants[].instanceType", "shadowProductionVariants[].instanceType"),
    EMR_CLUSTER: ("masterInstanceGroup.instanceType", "coreInstanceGroup.instanceType"),
    EMR_GROUP: ("instanceType",),
    EMR_FLEET: ("instanceTypeConfigs[].instanceType",),
    GAME_FLEET: ("ec2InstanceType",),
}
"""Properties that hold the instance types of services that start instances themselves."""


def types_written(resource: Resource) -> Iterator[tuple[str, object]]:
    """Yield (path, value) of each instance type that a resource of `OTHER_LAUNCHERS` declares."""
    own = declared(resource)
    for path in OTHER_LAUNCHERS[resource.type]:
        head, _, tail = path.partition("[].")
        if not tail:
            if own.get(path) is not None:
                yield path, own.get(path)
            continue
        for where, item in own.items(head):
            value = item.get(tail) if isinstance(item, dict) else item
            if value is not None:
                yield f"{where}.{tail}", value


def uncounted(stack: Stack, catalog: Catalog) -> Iterator[Violation]:
    """Report services that may start GPUs without a known limit."""
    for resource in stack.of_type(*OTHER_LAUNCHERS):
        for prop, value in types_written(resource):
            known = catalog.instances.get(value.removeprefix("ml.")) if isinstance(value, str) else None
            if known is None or known.accelerator is not None or known.accelerator_unknown:
                yield _violation(resource, f"{prop} may have GPUs ({resource.show(prop)})", prop)
    for cluster in stack.of_type(CLUSTER):
        if declared(cluster).get("computeConfig.enabled", False) is not False:
            yield _violation(cluster, "EKS Auto Mode starts nodes without a maximum", "computeConfig.enabled")
    for provider in stack.of_type(CAPACITY_PROVIDER):
        if declared(provider).get("managedInstancesProvider") is not None:
            yield _violation(provider, "ECS Managed Instances have no maximum", "managedInstancesProvider")
    for pool in stack.of_type(OLD_NODE_POOL):
        limits = pool.get("spec.limits")
        if not isinstance(limits, dict) or limits.get("nvidia.com/gpu") not in (0, "0"):
            yield _violation(pool, "Karpenter chooses the nodes that it starts", "spec.limits")


def _violation(resource: Resource, why: str, prop: str) -> Violation:
    return Violation(
        f"its GPUs cannot be counted: {why}",
        "use a node group or an Auto Scaling group with a maximum",
        urn=resource.urn,
        prop=prop,
        unknown=True,
    )
