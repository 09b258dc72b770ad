"""Shared and divided GPUs of cloud node groups: who offers them, on which GPUs, and quotas of shares."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, LocatedGroup, check, did_you_mean, listed, nearest
from gpufleet.plan.gpu_sharing import mig_gpu_of, plan_gpu_sharing
from gpufleet.spec.models import CloudSite


@check("gpu-sharing")
def gpu_sharing(fleet: Fleet) -> Iterator[FieldFinding]:
    """Pods share GPUs through NVIDIA's device plugin (k8s-device-plugin README, "Shared Access to GPUs"). MPS
    needs a privileged daemon on the node, which the GPU Operator has, and does not work on MIG devices."""
    for each in fleet.groups():
        sharing = each.group.gpu_sharing
        if sharing is None:
            continue
        where = (*each.path, "gpu_sharing")
        if finding := _without_kubernetes_or_gpus(fleet, each, "gpu_sharing", "shares GPUs"):
            yield finding
        elif sharing.mps is not None and each.group.mig_profile is not None:
            yield FieldFinding(
                where,
                f"{each.name} uses both MPS and MIG ({each.group.mig_profile})",
                "keep one of them, or use time_slicing",
                value="mps",
            )
        elif sharing.mps is not None and not _has_operator(each):
            yield FieldFinding(
                (*each.path[:2], "kubernetes", "gpu_stack"),
                f"{each.name} uses MPS, and the device plugin alone does not run its daemon",
                "write 'gpu_stack: gpu-operator', or use time_slicing",
                value="device-plugin",
            )


@check("mig-profile")
def mig_profile(fleet: Fleet) -> Iterator[FieldFinding]:
    """Only some GPUs support MIG, each with its own profiles (NVIDIA MIG User Guide, Supported MIG Profiles).
    The GPU Operator's MIG manager divides the GPUs of a node."""
    for each in fleet.groups():
        wanted = each.group.mig_profile
        if wanted is None:
            continue
        where = (*each.path, "mig_profile")
        if finding := _without_kubernetes_or_gpus(fleet, each, "mig_profile", "divides GPUs"):
            yield finding
            continue
        if not _has_operator(each):
            yield FieldFinding(
                (*each.path[:2], "kubernetes", "gpu_stack"),
                f"{each.name} divides GPUs, which the MIG manager of the GPU Operator does",
                "write 'gpu_stack: gpu-operator', or leave `mig_profile` out",
                value="device-plugin",
            )
        for item in fleet.types(each.group):
            gpu = mig_gpu_of(item)
            if gpu is None:
                yield FieldFinding(
                    where,
                    f"MIG support of {item.gpu} in {item.name} is not documented",
                    "remove `mig_profile`",
                )
            elif gpu.profile(wanted) is None:
                known = sorted(profile.name for profile in gpu.profiles)
                yield FieldFinding(
                    where,
                    f"{item.gpu} in {item.name} has no MIG profile {wanted!r}",
                    did_you_mean(nearest(wanted, known), f"use one of {listed(known)}"),
                )


@check("team-gpu-shares", "node_groups")
def team_gpu_shares(fleet: Fleet) -> Iterator[FieldFinding]:
    """A quota of GPUs does not count shares: without a quota of its own no team can use them. One above what
    the site has, or in a site without shares, has no effect."""
    for path, site in fleet.cloud():
        shares = _shares(fleet, site)
        if shares is None or site.kubernetes is None:
            continue
        most = max(shares.values(), default=0)
        teams = (*path, "kubernetes", "teams")
        unused = not any(team.gpu_shares for team in site.kubernetes.teams)
        if shares and unused and site.kubernetes.teams:
            yield FieldFinding(
                (*teams, 0, "gpu_shares"),
                f"no team of site {site.site!r} has a quota of {listed(sorted(shares))}",
                f"write 'gpu_shares: {most}', or less, for the teams that use them",
                "warning",
                value=0,
            )
        for index, team in enumerate(site.kubernetes.teams):
            if team.gpu_shares > most:
                yield FieldFinding(
                    (*teams, index, "gpu_shares"),
                    f"team '{team.name}' has a quota of {team.gpu_shares} shares of GPUs, but site"
                    f" {site.site!r} has at most {most}",
                    f"write {most} or fewer" if most else "leave `gpu_shares` out",
                    "warning",
                )


def _shares(fleet: Fleet, site: CloudSite) -> dict[str, int] | None:
    """Return the shares of a site's GPUs at its maximum, by resource; None with an unknown instance type."""
    found: dict[str, int] = {}
    for each in (item for item in fleet.groups() if item.site is site):
        types = fleet.types(each.group)
        if len(types) != len(each.group.instance_types):
            return None
        first = types[0]
        plan = plan_gpu_sharing(first, each.group.gpu_sharing, each.group.mig_profile)
        if plan is not None and first.gpu is not None:
            # A fraction of a GPU is one device.
            shares = max(first.gpu_count, 1) * plan.per_gpu * each.group.capacity.most_nodes
            found[plan.resource] = found.get(plan.resource, 0) + shares
    return found


def _without_kubernetes_or_gpus(
    fleet: Fleet, each: LocatedGroup, field: str, does: str
) -> FieldFinding | None:
    if each.site.scheduler != "kubernetes":
        return FieldFinding(
            (*each.path, field),
            f"{each.name} {does}, and site {each.site.site!r} has Slurm",
            f"leave `{field}` out, or move the group to a site with Kubernetes",
            value=field,
        )
    without = [item.name for item in fleet.types(each.group) if item.gpu is None]
    if without:
        return FieldFinding(
            (*each.path, field),
            f"{each.name} {does}, and {listed(without)} has none",
            f"leave `{field}` out",
            value=field,
        )
    return None


def _has_operator(each: LocatedGroup) -> bool:
    return each.site.kubernetes is not None and each.site.kubernetes.gpu_stack == "gpu-operator"


CHECKS = (gpu_sharing, mig_profile, team_gpu_shares)
