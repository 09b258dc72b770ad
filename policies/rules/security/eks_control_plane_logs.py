"""EKS clusters write the control plane's logs."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.kinds import CONTROL_PLANE_LOGS
from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._properties import require
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource
from gpufleet.resources.types import CLUSTER


class EksControlPlaneLogsSettings(Settings):
    """Required log types."""

    types: tuple[str, ...] = Field(CONTROL_PLANE_LOGS, description="Log types that a cluster must write")


@resource_rule(
    "eks-control-plane-logs",
    group="security",
    title="EKS clusters write all control-plane logs",
    why="Audit and authenticator logs are the only record of who did what in the cluster.",
    fix="Set `enabledClusterLogTypes` to api, audit, authenticator, controllerManager and scheduler.",
    severity="medium",
    framework=fsbp("EKS.8"),
    types=(CLUSTER,),
    settings=EksControlPlaneLogsSettings,
    passes=Example(({"type": CLUSTER, "props": {"enabledClusterLogTypes": list(CONTROL_PLANE_LOGS)}},)),
    fails=Example(({"type": CLUSTER, "props": {"enabledClusterLogTypes": ["api"]}},)),
)
def eks_control_plane_logs(
    resource: Resource, context: RuleContext[EksControlPlaneLogsSettings]
) -> Iterator[Violation]:
    """Check each cluster."""
    wanted = set(context.settings.types)
    yield from require(
        resource,
        "enabledClusterLogTypes",
        lambda value: isinstance(value, (list, tuple)) and wanted <= {str(each) for each in value},
        f"{', '.join(context.settings.types)} are required",
        "list all of them",
    )
