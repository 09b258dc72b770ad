"""SimulatePrincipalPolicy: the decision on actions by the policies of a user or role, which moto lacks.

The rules are those of the IAM user guide ("Policy evaluation logic"): an explicit denial, else an allowance
by the policies and by the permissions boundary, else an implicit denial. Conditions: StringEquals, StringLike
and their negations, with IfExists; others never match. Policies of groups count; those of resources do not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, operation

SANDBOX_USER = "user/moto"
"""The caller of the sandbox's own key, as moto names it: no policy, and every request is served."""

_EVERYTHING = [{"Effect": "Allow", "Action": "*", "Resource": "*"}]
Statements = list[dict[str, Any]]


@operation("iam", "SimulatePrincipalPolicy")
def simulate_principal_policy(call: Call) -> Params:
    """Return the decision on each action and resource; a page of 100."""
    given = call.params
    policies, boundary = _policies(call, given["PolicySourceArn"])
    context = {
        entry["ContextKeyName"].lower(): [str(value) for value in entry.get("ContextKeyValues") or []]
        for entry in given.get("ContextEntries") or []
    }
    results = [
        _result(action, resource, policies, boundary, context)
        for action in given["ActionNames"]
        for resource in given.get("ResourceArns") or ["*"]
    ]
    start, size = int(given.get("Marker") or 0), int(given.get("MaxItems") or 100)
    page: Params = {"EvaluationResults": results[start : start + size], "IsTruncated": False}
    if start + size < len(results):
        page |= {"IsTruncated": True, "Marker": str(start + size)}
    return page


def _result(
    action: str,
    resource: str,
    policies: Statements,
    boundary: Statements | None,
    context: Mapping[str, list[str]],
) -> Params:
    matched = [each for each in policies if _matches(each, action, resource, context)]
    limits = [each for each in boundary or () if _matches(each, action, resource, context)]
    if any(each["Effect"] == "Deny" for each in [*matched, *limits]):
        decision = "explicitDeny"
    elif matched and (boundary is None or limits):
        decision = "allowed"
    else:
        decision = "implicitDeny"
    return {
        "EvalActionName": action,
        "EvalResourceName": resource,
        "EvalDecision": decision,
        "MatchedStatements": [],
        "MissingContextValues": [],
    }


def _matches(
    statement: Mapping[str, Any], action: str, resource: str, context: Mapping[str, list[str]]
) -> bool:
    return (
        _named(statement, "Action", action.lower(), lower=True)
        and _named(statement, "Resource", resource)
        and all(
            _condition(operator, keys, context)
            for operator, keys in (statement.get("Condition") or {}).items()
        )
    )


def _named(statement: Mapping[str, Any], element: str, value: str, *, lower: bool = False) -> bool:
    """Return whether an element or its negation (`NotAction`) covers a value."""
    for key, covers in ((element, True), (f"Not{element}", False)):
        if key in statement:
            patterns = [each.lower() if lower else each for each in _listed(statement[key])]
            return any(_like(value, each) for each in patterns) is covers
    return False


def _condition(operator: str, keys: Mapping[str, Any], context: Mapping[str, list[str]]) -> bool:
    name = operator.removesuffix("IfExists")
    negated = name in ("StringNotEquals", "StringNotLike")
    if name.replace("Not", "") not in ("StringEquals", "StringLike"):
        return False
    for key, wanted in keys.items():
        values = context.get(key.lower())
        if values is None:
            if operator.endswith("IfExists") or negated:
                continue
            return False
        like = name.endswith("Like")
        found = any(
            _like(value, each) if like else value == each for value in values for each in _listed(wanted)
        )
        if found is negated:
            return False
    return True


def _like(value: str, pattern: str) -> bool:
    return fnmatchcase(value, pattern.replace("[", "[[]"))


def _listed(value: Any) -> Iterable[str]:
    return [value] if isinstance(value, str) else value


def _policies(call: Call, arn: str) -> tuple[Statements, Statements | None]:
    """Return the statements of a user or role, and those of its permissions boundary."""
    from moto.iam.models import iam_backends

    backend = iam_backends[call.account][call.partition]
    kind, _, path = arn.rpartition(":")[2].partition("/")
    name = path.rpartition("/")[2]
    if f"{kind}/{path}" == SANDBOX_USER and name not in backend.users:
        return _EVERYTHING, None
    if kind == "user" and name in backend.users:
        principal = backend.users[name]
        owners = [principal, *backend.get_groups_for_user(name)]
    elif kind == "role" and (found := [each for each in backend.roles.values() if each.name == name]):
        principal, owners = found[0], found[:1]
    else:
        raise AwsError("NoSuchEntity", f"The principal {arn} cannot be found.")
    statements = [each for owner in owners for each in _of_owner(owner)]
    # moto keeps the boundary of a role, and none of a user.
    boundary_arn = getattr(principal, "permissions_boundary_arn", None)
    if boundary_arn is None:
        return statements, None
    return statements, _of_policy(backend.get_policy(boundary_arn))


def _of_owner(owner: Any) -> Iterator[dict[str, Any]]:
    for document in owner.policies.values():
        yield from _statements(document)
    for policy in owner.managed_policies.values():
        yield from _of_policy(policy)


def _of_policy(policy: Any) -> Statements:
    return _statements(next(each.document for each in policy.versions if each.is_default))


def _statements(document: Any) -> Statements:
    parsed = json.loads(document) if isinstance(document, str) else document
    found = parsed["Statement"]
    return found if isinstance(found, list) else [found]
