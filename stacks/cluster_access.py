"""How a run reaches the API of a site's cluster, as whom, and who else has access."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from gpufleet.components.cluster import EksCluster
from gpufleet.components.kubeconfig import TokenCommandArgs, aws_token_command, host_of
from gpufleet.eks_access.entries import ClusterEntries, cluster_entries
from gpufleet.eks_access.programs import AWS_CLI, GPUFLEET, PLUGIN, require_programs
from gpufleet.errors import InputError
from gpufleet.plan.models import CloudSitePlan, FleetPlan, KubernetesPlan
from gpufleet.stacks.settings import StackSettings


def token_command(settings: StackSettings) -> TokenCommandArgs:
    """Return the command with which a kubeconfig gets tokens, as the stack's identity in AWS.

    It is the AWS CLI's, unless that cannot express the roles of `aws:assumeRoles`.
    """
    identity = settings.identity
    if identity.roles and identity.only_role is None:
        return _own_command(settings)
    return aws_token_command(profile=identity.profile, role_arn=identity.only_role)


def run_kubeconfig(plan: KubernetesPlan, settings: StackSettings, cluster: EksCluster) -> pulumi.Output[str]:
    """Return the kubeconfig of the run. With `ssm`, its command also opens the port that leads to the API."""
    port = plan.access_port if uses_forward(plan, settings) else None
    if port is None:
        return cluster.kubeconfig
    command = cluster.endpoint.apply(
        lambda endpoint: _own_command(settings, "--endpoint", host_of(endpoint), "--port", str(port))
    )
    return cluster.kubeconfig_with(command, port=port)


def uses_forward(plan: KubernetesPlan, settings: StackSettings) -> bool:
    """Return whether runs reach the API through a node. The sandbox has no nodes to go through."""
    return plan.access == "ssm" and settings.cloud == "aws"


def require_access(plan: FleetPlan, settings: StackSettings) -> None:
    """Raise InputError if this machine lacks a program that the run needs to reach a cluster.

    A preview only warns: of a cluster that does not exist yet it needs nothing.
    """
    for site in plan.cloud:
        if site.kubernetes is None or settings.cloud != "aws":
            continue
        try:
            require_programs(*_programs(site.kubernetes, settings), site=site.site)
        except InputError as error:
            if not pulumi.runtime.is_dry_run():
                raise
            pulumi.log.warn(f"{error.message}; {error.remedy}")


def warn_of_next_step(site: CloudSitePlan) -> None:
    """Report that nothing is applied in the cluster of a site with `access: phased`, and how to apply it."""
    pulumi.log.warn(
        f"site {site.site}: nothing is applied in its cluster (kubernetes.access: phased). To go on, write"
        " direct, on a machine in a network that reaches the API, or ssm, and run up again"
    )


@dataclass(frozen=True)
class AccessGrants:
    """The principals that need an access entry of gpufleet's own."""

    admins: Sequence[str]
    viewers: Sequence[str]


def grants(name: str, site: CloudSitePlan, plan: KubernetesPlan, settings: StackSettings) -> AccessGrants:
    """Return admins and viewers without those that EKS or somebody else has given an entry.

    EKS gives the creator of a cluster an entry, and rejects a second one. The creator is this run's identity
    if there is no cluster; later its entry is one without the fleet's tags. Raises InputError if such an
    entry grants less than an administrator, or more than a viewer, needs.
    """
    if not (plan.admins or plan.viewers) or not _can_ask(settings):
        return AccessGrants(plan.admins, plan.viewers)
    found = cluster_entries(name, site.region, settings.identity, settings.aws_client, site.tags)
    admins = [arn for arn in plan.admins if found.foreign(arn) is None]
    for arn in set(plan.admins) - set(admins):
        if not found.is_admin(arn):
            raise _other_entry(arn, name, "admins", "does not administer it")
    for arn in plan.viewers:
        if found.foreign(arn) is not None and not _is_early_preview(found):
            raise _other_entry(arn, name, "viewers", "may do more than read")
    return AccessGrants(admins, plan.viewers)


def _is_early_preview(found: ClusterEntries) -> bool:
    """Return whether a viewer previews a cluster that somebody else will create."""
    return not found.exists and pulumi.runtime.is_dry_run()


def _other_entry(arn: str, cluster: str, field: str, why: str) -> InputError:
    return InputError(
        f"{arn} is one of kubernetes.{field}, and has an access entry of cluster {cluster} that gpufleet did"
        f" not make and that {why}",
        remedy=f"remove it from kubernetes.{field}, or delete that entry (`aws eks delete-access-entry"
        f" --cluster-name {cluster} --principal-arn {arn}`); the creator of a cluster is its administrator",
    )


def _can_ask(settings: StackSettings) -> bool:
    return settings.cloud == "aws" or "endpoint_url" in settings.aws_client


def _programs(plan: KubernetesPlan, settings: StackSettings) -> Sequence[str]:
    if plan.access == "phased":
        return ()
    if plan.access == "ssm":
        return (PLUGIN, GPUFLEET)
    return (GPUFLEET,) if token_command(settings).command == GPUFLEET else (AWS_CLI,)


def _own_command(settings: StackSettings, *more: str) -> TokenCommandArgs:
    cluster = ["--cluster-name", "{cluster}", "--region", "{region}"]
    return TokenCommandArgs(
        command=GPUFLEET, arguments=["eks-token", *cluster, *settings.identity.arguments(), *more]
    )
