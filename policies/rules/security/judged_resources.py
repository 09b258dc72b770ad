"""Nothing is made by a way that no rule can look into."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.kubernetes import RELEASE, foreign_group, is_list
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.types import BLOCK_OFFERING, BLOCK_SCHEDULE

OPAQUE = {
    "aws:cloudcontrol/resource:Resource": "Cloud Control makes resources of any type from JSON",
    "aws:cloudformation/stack:Stack": "CloudFormation makes resources of its own",
    "aws:cloudformation/stackSet:StackSet": "CloudFormation makes resources of its own",
    "aws:cloudformation/stackInstances:StackInstances": "CloudFormation makes resources of its own",
    "aws:cloudformation/stackSetInstance:StackSetInstance": "CloudFormation makes resources of its own",
    "aws:servicecatalog/provisionedProduct:ProvisionedProduct": "Service Catalog makes resources of its own",
}
_DYNAMIC = "pulumi-python:dynamic"


class JudgedResourcesSettings(Settings):
    """What rules can look into, or need not."""

    packages: tuple[str, ...] = Field(
        ("aws", "kubernetes", "random", "tls"),
        description="Packages whose resources are judged here, or make nothing outside the state",
    )
    dynamic: tuple[str, ...] = Field(
        (BLOCK_OFFERING, BLOCK_SCHEDULE), description="Types of dynamic resources that were reviewed"
    )
    charts: tuple[str, ...] = Field(
        ("https://helm.ngc.nvidia.com/nvidia/gpu-operator",),
        description="Helm charts that were reviewed: the repository's address, `/`, and the chart's name",
    )
    api_groups: tuple[str, ...] = Field(
        ("jobset.x-k8s.io", "kubeflow.org", "kueue.x-k8s.io", "monitoring.coreos.com", "nvidia.com"),
        description="API groups of Kubernetes custom resources whose controllers make nothing in a cloud",
    )


@resource_rule(
    "judged-resources",
    group="security",
    title="Nothing is made where no rule looks",
    why="The rules read resources of the aws package. The same security group made by aws-native, by a "
    "CloudFormation template, by a shell command or by a dynamic resource passes them all unseen; so does "
    "what a Helm chart or the controller of a custom resource makes (ACK, Crossplane, Cluster API).",
    fix="Make it with a resource of the aws package, and charts' objects one by one (`helm.v4.Chart`).",
    severity="high",
    types=(),
    settings=JudgedResourcesSettings,
    passes=Example(({"type": "aws:ec2/vpc:Vpc", "props": {}},)),
    fails=Example(({"type": "aws:cloudcontrol/resource:Resource", "props": {"desiredState": "{}"}},)),
)
def judged_resources(
    resource: Resource, context: RuleContext[JudgedResourcesSettings]
) -> Iterator[Violation]:
    """Every resource that a provider makes; components make nothing themselves."""
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
            yield _violation(resource, f"no rule looks into resources of the package {kind}")
    elif resource.provider is not None and package not in context.settings.packages:
        yield _violation(resource, f"no rule looks into resources of the package {package}")
    elif package == "kubernetes":
        why = _unseen_in_cluster(resource, context.settings)
        if why:
            yield _violation(resource, why)


def _unseen_in_cluster(resource: Resource, settings: JudgedResourcesSettings) -> str:
    """Why what a Kubernetes object brings about is judged by no rule; empty where it is."""
    if resource.type == RELEASE:
        chart = "/".join(
            str(part).rstrip("/")
            for path in ("repositoryOpts.repo", "chart")
            if not is_unknown(part := resource.get(path, "")) and part
        )
        return "" if chart in settings.charts else f"the chart {chart or 'that it names'} was not reviewed"
    if is_list(resource.type):
        return "the objects in a list are not looked into"
    group = foreign_group(resource.type)
    if group and group not in settings.api_groups:
        return f"the controller of {group} makes what it likes of it"
    return ""


def _violation(resource: Resource, why: str) -> Violation:
    return Violation(
        f"type is {resource.type}: {why}, and nothing is made where no rule looks",
        "use what rules look into, or name it in the rule's settings once it is reviewed",
        urn=resource.urn,
    )
