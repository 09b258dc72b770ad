"""Permissions of the caller by IAM's simulation, and the service-linked roles that it would have to create.

IAM evaluates the caller's policies and permissions boundary. Service control policies, resource policies and
session policies are not part of it (IAM user guide, "Testing IAM policies with the IAM policy simulator").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpufleet.account.actions import LINKED_ROLE, S3_LINK, ActionSet, action_sets, linked_roles, s3_linked
from gpufleet.account.caller import Caller
from gpufleet.account.needs import RegionNeeds
from gpufleet.account.reading import Clients, NotCheckedError, error_code, pages, read
from gpufleet.account.result import AccountCheck, AccountFinding
from gpufleet.plan.models import FleetPlan

PERMISSIONS = "permissions"
ROLES = "service-linked-roles"

NOT_SIMULATED = (
    "service control policies, session policies and policies of resources are not part of IAM's simulation"
)

_CHUNK = 50
"""Actions of one request: each is paged, and a request has a size limit."""


def check_permissions(needs: RegionNeeds, caller: Caller, clients: Clients) -> AccountCheck:
    """Simulate the actions that `up` needs in the region. A refused simulation is not a pass."""
    if not caller.principal:
        return AccountCheck(PERMISSIONS, needs.region, unchecked=(caller.unclear,))
    denied: dict[str, str] = {}
    try:
        for actions in action_sets(needs, caller.partition, caller.account):
            denied |= dict(_denied(actions, needs.region, caller, clients))
    except NotCheckedError as error:
        return AccountCheck(PERMISSIONS, needs.region, unchecked=(str(error),))
    findings = tuple(
        _finding(kind, sorted(a for a, k in denied.items() if k == kind), needs, caller)
        for kind in sorted(set(denied.values()))
    )
    return AccountCheck(PERMISSIONS, needs.region, findings)


def check_linked_roles(
    plan: FleetPlan, region: str, shown: str, caller: Caller, clients: Clients
) -> AccountCheck:
    """Check the service-linked roles: each exists, or the caller may create it at the first use.

    IAM is global: `region` is that of the clients, and `shown` that of the result.
    """
    findings: list[AccountFinding] = []
    unchecked: list[str] = []
    for service, name in linked_roles(plan).items():
        try:
            if not _exists(clients("iam", region), name):
                findings += _missing(service, name, region, caller, clients)
        except NotCheckedError as error:
            unchecked.append(f"{name}: {error}")
    if s3_linked(plan):
        try:
            findings += _missing(
                S3_LINK, "the role of each file system's link to S3", region, caller, clients
            )
        except NotCheckedError as error:
            unchecked.append(f"{S3_LINK}: {error}")
    return AccountCheck(ROLES, shown, tuple(findings), tuple(unchecked))


def _exists(iam: object, name: str) -> bool:
    from botocore.exceptions import ClientError

    try:
        read(iam, "get_role", RoleName=name)
    except ClientError as error:
        if error_code(error) == "NoSuchEntity":
            return False
        raise NotCheckedError(f"IAM: GetRole is refused ({error_code(error)})") from None
    return True


def _missing(
    service: str, name: str, region: str, caller: Caller, clients: Clients
) -> Iterator[AccountFinding]:
    """Yield a finding if the caller may not create the role."""
    if not caller.principal:
        raise NotCheckedError(f"it does not exist yet, and {caller.unclear}")
    arn = f"arn:{caller.partition}:iam::{caller.account}:role/aws-service-role/{service}/*"
    denied = dict(_denied(ActionSet((LINKED_ROLE,), (arn,)), region, caller, clients, service))
    if denied:
        create = (
            "" if service == S3_LINK else f"aws iam create-service-linked-role --aws-service-name {service}"
        )
        yield AccountFinding(
            "service-linked-role",
            ("cloud",),
            name,
            f"{name} of {service} does not exist, and {caller.principal} may not create it ({LINKED_ROLE})",
            f"let an administrator create it, or allow {LINKED_ROLE} for {service}",
            request=create,
        )


def _denied(
    wanted: ActionSet, region: str, caller: Caller, clients: Clients, service: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield each action that is not allowed, with IAM's decision."""
    from botocore.exceptions import ClientError

    context = [_entry("aws:RequestedRegion", region)]
    if service:
        context.append(_entry("iam:AWSServiceName", service))
    for start in range(0, len(wanted.actions), _CHUNK):
        try:
            results = [
                *pages(
                    clients("iam", region),
                    "simulate_principal_policy",
                    "EvaluationResults",
                    PolicySourceArn=caller.principal,
                    ActionNames=list(wanted.actions[start : start + _CHUNK]),
                    ResourceArns=list(wanted.resources),
                    ContextEntries=context,
                )
            ]
        except ClientError as error:
            raise NotCheckedError(f"IAM: SimulatePrincipalPolicy fails ({error_code(error)})") from None
        for result in results:
            if result["EvalDecision"] != "allowed":
                yield result["EvalActionName"], result["EvalDecision"]


def _entry(key: str, value: str) -> dict[str, object]:
    return {"ContextKeyName": key, "ContextKeyType": "string", "ContextKeyValues": [value]}


def _finding(decision: str, actions: Sequence[str], needs: RegionNeeds, caller: Caller) -> AccountFinding:
    forbidden = decision == "explicitDeny"
    how = "a policy denies" if forbidden else "no policy allows"
    return AccountFinding(
        "permission",
        ("cloud",),
        ", ".join(actions),
        f"{how} {caller.principal} {len(actions)} action{'s' if len(actions) != 1 else ''} of `up` in "
        f"{needs.region}: {', '.join(actions)}",
        "remove the denial"
        if forbidden
        else "allow these actions (simulated on all resources: a policy that "
        "allows them on some only is enough if those are the fleet's)",
        severity="error" if forbidden else "warning",
    )
