"""Clusters use a Kubernetes version that EKS offers."""

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
    """Versions in addition to those of the calendar."""

    also: tuple[str, ...] = Field((), description="Newer versions that EKS offers, such as '1.37'")


@resource_rule(
    "eks-version-offered",
    group="security",
    title="Clusters use a Kubernetes version that EKS offers",
    why="EKS does not create clusters of a version past its extended support, and upgrades existing ones "
    "automatically. A cluster without a version gets the newest one of that day.",
    fix="Set `version` (fleet file: kubernetes.version).",
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
    """Check clusters and node groups with a version, by the day the calendar was read, not by today."""
    known = (*offered(), *context.settings.also)
    if resource.type == NODE_GROUP and not isinstance(resource.get("version"), str):
        # A node group without a version, or with the cluster's, uses the cluster's.
        return
    yield from require(
        resource,
        "version",
        lambda value: isinstance(value, str) and value.strip() in known,
        f"EKS offered {known[0]} to {known[-1]} on {READ_ON}",
        "use one of these; add a newer one to the rule's setting `also`",
    )
