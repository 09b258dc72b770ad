"""A cluster's version of Kubernetes is one that EKS offers."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._eks_calendar import READ_ON, offered
from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._properties import require
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource
from gpufleet.resources.types import CLUSTER, NODE_GROUP


class EksVersionOfferedSettings(Settings):
    """Versions besides those of the calendar."""

    also: tuple[str, ...] = Field((), description="Newer versions, such as '1.37', that EKS offers by now")


@resource_rule(
    "eks-version-offered",
    group="security",
    title="Clusters run a version of Kubernetes that EKS offers",
    why="EKS refuses to create a cluster of a version past its extended support, and upgrades one that "
    "has it without asking. A cluster that names no version gets whichever is newest on that day.",
    fix="Name a version in `version` (fleet file: kubernetes.version).",
    severity="medium",
    framework=fsbp("EKS.2"),
    types=(CLUSTER, NODE_GROUP),
    settings=EksVersionOfferedSettings,
    passes=Example(({"type": CLUSTER, "props": {"version": "1.35"}},)),
    fails=Example(({"type": CLUSTER, "props": {"version": "1.24"}},)),
)
def eks_version_offered(
    resource: Resource, context: RuleContext[EksVersionOfferedSettings]
) -> Iterator[Violation]:
    """Clusters, and node groups that name a version; by the calendar as it was read, not by today's date."""
    known = (*offered(), *context.settings.also)
    if resource.type == NODE_GROUP and not isinstance(resource.get("version"), str):
        # A node group without a version, or with the cluster's, runs what the cluster runs.
        return
    yield from require(
        resource,
        "version",
        lambda value: isinstance(value, str) and value.strip() in known,
        f"EKS offered {known[0]} to {known[-1]} on {READ_ON}",
        "name one of these; for a newer one, add it to the rule's setting `also`",
    )
