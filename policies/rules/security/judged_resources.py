"""Everything is created by resources that the rules can check."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.kinds import JOBSET_CHART, KARPENTER_CRD_CHART, KUEUE_CHART, LEADER_WORKER_SET_CHART
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.kubernetes import RELEASE, foreign_group, is_list
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.types import (
    BLOCK_EXTENSION,
    BLOCK_OFFERING,
    BLOCK_SCHEDULE,
    LAUNCHED_NODES,
    NODE_CLASS,
    NODE_POOL,
    NODES_IN_SERVICE,
    ORDERED_CAPACITY,
)

OPAQUE = {
    "aws:cloudcontrol/resource:Resource": "Cloud Control creates resources of any type from JSON",
    "aws:cloudformation/stack:Stack": "CloudFormation creates its own resources",
    "aws:cloudformation/stackSet:StackSet": "CloudFormation creates its own resources",
    "aws:cloudformation/stackInstances:StackInstances": "CloudFormation creates its own resources",
    "aws:cloudformation/stackSetInstance:StackSetInstance": "CloudFormation creates its own resources",
    "aws:servicecatalog/provisionedProduct:ProvisionedProduct": "Service Catalog creates its own resources",
}
_DYNAMIC = "pulumi-python:dynamic"


class JudgedResourcesSettings(Settings):
    """What the rules can check, and reviewed exceptions."""

    packages: tuple[str, ...] = Field(
        ("aws", "kubernetes", "random", "tls"),
        description="Packages that the rules check, or that create nothing outside the state",
    )
    dynamic: tuple[str, ...] = Field(
        (
            BLOCK_EXTENSION,
            BLOCK_OFFERING,
            BLOCK_SCHEDULE,
            LAUNCHED_NODES,
            NODES_IN_SERVICE,
            ORDERED_CAPACITY,
        ),
        description="Reviewed types of dynamic resources",
    )
    charts: tuple[str, ...] = Field(
        (
            "https://helm.ngc.nvidia.com/nvidia/gpu-operator",
            KUEUE_CHART,
            JOBSET_CHART,
            LEADER_WORKER_SET_CHART,
            KARPENTER_CRD_CHART,
            "https://charts.jetstack.io/cert-manager",
            "oci://ghcr.io/nvidia/nvsentinel",
        ),
        description="Reviewed Helm charts: the repository's address, `/`, and the chart's name; or an address"
        " in OCI",
    )
    api_groups: tuple[str, ...] = Field(
        (
            "jobset.x-k8s.io",
            "kubeflow.org",
            "kueue.x-k8s.io",
            "leaderworkerset.x-k8s.io",
            "monitoring.coreos.com",
            "nvidia.com",
        ),
        description="API groups of Kubernetes custom resources whose controllers create no cloud resources",
    )


@resource_rule(
    "judged-resources",
    group="security",
    title="Everything is created by resources that the rules check",
    why="The rules check resources of the aws package. A security group created by aws-native, a "
    "CloudFormation template, a shell command or a dynamic resource passes unchecked, and so does what a "
    "Helm chart or the controller of a custom resource creates (ACK, Crossplane, Cluster API).",
    fix="Use resources of the aws package, and single objects instead of charts (`helm.v4.Chart`).",
    severity="high",
    types=(),
    settings=JudgedResourcesSettings,
    passes=Example(({"type": "aws:ec2/vpc:Vpc", "props": {}},)),
    fails=Example(({"type": "aws:cloudcontrol/resource:Resource", "props": {"desiredState": "{}"}},)),
)
def judged_resources(
    resource: Resource, context: RuleContext[JudgedResourcesSettings]
) -> Iterator[Violation]:
    """Check every resource of a provider; components create nothing themselves."""
    package = resource.type.partition(":")[0]
    if resource.type in OPAQUE:
        yield _violation(resource, OPAQUE[resource.type])
    elif resource.type.startswith(_DYNAMIC):
        if resource.type not in context.settings.dynamic:
            yield _violation(resource, "a dynamic resource runs code of the program")
    elif package == "pulumi":
        kind = resource.type.rpartition(":")[2]
        known = (*context.settings.packages, "pulumi", "pulumi-python")
        if resource.type.startswith("pulumi:providers:") and kind not in known:
            yield _violation(resource, f"no rule checks resources of the package {kind}")
    elif resource.provider is not None and package not in context.settings.packages:
        yield _violation(resource, f"no rule checks resources of the package {package}")
    else:
        why = _unseen_in_cluster(resource, context.settings)
        if why:
            yield _violation(resource, why)


def _unseen_in_cluster(resource: Resource, settings: JudgedResourcesSettings) -> str:
    """Return why no rule checks what a Kubernetes object creates; empty if rules check it."""
    if resource.type == RELEASE:
        chart = "/".join(
            str(part).rstrip("/")
            for path in ("repositoryOpts.repo", "chart")
            if not is_unknown(part := resource.get(path, "")) and part
        )
        return "" if chart in settings.charts else f"the chart {chart or '(unknown)'} was not reviewed"
    if is_list(resource.type):
        return "the rules do not check the objects in a list"
    if resource.type in (NODE_POOL, NODE_CLASS):
        # Rules check what Karpenter launches for them, but not for patches of them or single NodeClaims.
        return ""
    group = foreign_group(resource.type)
    if group and group not in settings.api_groups:
        return f"the rules do not check what the controller of {group} creates"
    return ""


def _violation(resource: Resource, why: str) -> Violation:
    return Violation(
        f"type is {resource.type}: {why}, and the rules must be able to check everything",
        "use resources that the rules check, or add it to the rule's settings once it is reviewed",
        urn=resource.urn,
    )
