"""Administrators of EKS clusters are declared in the fleet file."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._frameworks import well_architected
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import declared
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import CLUSTER

ENTRY = "aws:eks/accessEntry:AccessEntry"
ASSOCIATION = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
MODE = "accessConfig.authenticationMode"

ADMINISTRATOR = "amazoneksclusteradminpolicy"
WRITERS = ("amazoneksadminpolicy", "amazonekseditpolicy")
"""Policies of EKS that write, and read secrets: for namespaces, not for a cluster."""


class EksAdminsDeclaredSettings(Settings):
    """Administrators besides those of the fleet file."""

    principals: tuple[str, ...] = Field(
        (), description="ARNs of IAM principals that may administer clusters, besides `kubernetes.admins`"
    )


_CLUSTER = {"type": CLUSTER, "name": "cluster", "props": {"accessConfig": {"authenticationMode": "API"}}}


def _example(policy: str) -> Example:
    props = {
        "principalArn": "arn:aws:iam::123456789012:role/researchers",
        "policyArn": f"arn:aws:eks::aws:cluster-access-policy/{policy}",
        "accessScope": {"type": "cluster"},
    }
    return Example((_CLUSTER, {"type": ASSOCIATION, "props": props}))


@stack_rule(
    "eks-admins-declared",
    group="security",
    title="Administrators of EKS clusters are declared in the fleet file",
    why="An access entry with EKS's administrator policy gives all pods, secrets and nodes of the cluster. "
    "With the older authentication modes a ConfigMap in the cluster does the same, and no rule sees it.",
    fix="List the principal in `kubernetes.admins` of the fleet file, or associate a policy for namespaces.",
    severity="critical",
    framework=well_architected("SEC03-BP02", "sec_permissions_least_privileges"),
    types=(CLUSTER, ENTRY, ASSOCIATION),
    settings=EksAdminsDeclaredSettings,
    fleet_field="cloud",
    passes=_example("AmazonEKSViewPolicy"),
    fails=_example("AmazonEKSClusterAdminPolicy"),
)
def eks_admins_declared(stack: Stack, context: RuleContext[EksAdminsDeclaredSettings]) -> Iterator[Violation]:
    """Check authentication modes, groups of access entries, and associated policies."""
    plan = context.shared.plan
    admins = set(context.settings.principals)
    for site in plan.cloud if plan is not None else ():
        admins.update(site.kubernetes.admins if site.kubernetes is not None else ())
    for cluster in map(declared, stack.of_type(CLUSTER)):
        if str(cluster.get(MODE, "")).strip().upper() != "API" or cluster.ignores(MODE):
            yield _violation(cluster, MODE, "only access entries must give access", "set it to API")
    for entry in map(declared, stack.of_type(ENTRY)):
        for path, group in entry.items("kubernetesGroups"):
            if is_unknown(group) or str(group).strip().lower().startswith("system:"):
                yield _violation(
                    entry, path, "entries must be in no group of the system", "use a group of your own"
                )
    for association in map(declared, stack.of_type(ASSOCIATION)):
        yield from _association(stack, association, admins)


def _association(stack: Stack, resource: Resource, admins: set[str]) -> Iterator[Violation]:
    policy = resource.get("policyArn")
    name = str(policy).strip().rpartition("/")[2].lower()
    scoped = resource.get("accessScope.type") == "namespace"
    if not is_unknown(policy) and name != ADMINISTRATOR and (scoped or name not in WRITERS):
        return
    principal = resource.get("principalArn")
    if is_unknown(principal):
        entries = stack.references(resource, "principalArn", types=(ENTRY,))
        principal = declared(entries[0]).get("principalArn") if len(entries) == 1 else principal
    if principal not in admins:
        yield Violation(
            f"principalArn is {resource.show('principalArn')}, which administers the cluster by "
            f"{resource.show('policyArn')}, and administrators must be declared",
            "list it in kubernetes.admins of the fleet file, or associate a policy for namespaces",
            urn=resource.urn,
            prop="principalArn",
            unknown=is_unknown(principal),
        )


def _violation(resource: Resource, path: str, rule: str, remedy: str) -> Violation:
    return Violation(
        f"{path} is {resource.show(path)}, and {rule}",
        remedy,
        urn=resource.urn,
        prop=path,
        unknown=is_unknown(resource.get(path)),
    )
