"""Conditions of bucket policies that every request of the sandbox decides the same way.

moto applies a statement whatever its condition says: a policy that denies requests without TLS, or of other
accounts, would deny all. The sandbox's endpoint stands for AWS's, which speaks TLS, and its callers are of
the account.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from moto.s3.models import FakeBucket


def applies(statement: Mapping[str, Any], account: str) -> bool:
    """Return whether a statement can apply to a request of the sandbox. Of an unknown condition it can."""
    facts = {
        "aws:securetransport": "true",
        "aws:principalaccount": account,
        "aws:sourceaccount": account,
        "aws:principalisawsservice": "false",
    }
    for operator, tests in (statement.get("Condition") or {}).items():
        for key, asked in tests.items():
            fact = facts.get(key.lower())
            values = {str(each).lower() for each in (asked if isinstance(asked, list) else [asked])}
            if fact is None or operator not in ("Bool", "StringEquals", "StringNotEquals"):
                continue
            if (fact.lower() in values) == (operator == "StringNotEquals"):
                return False
    return True


def _permission(bucket: Any, action: str, resource: str) -> Any:
    from moto.iam.access_control import IAMPolicy, PermissionResult

    if bucket.policy is None:
        return PermissionResult.NEUTRAL
    document = json.loads(bucket.policy.decode())
    statements = document.get("Statement", [])
    kept = [
        each
        for each in (statements if isinstance(statements, list) else [statements])
        if applies(each, bucket.account_id)
    ]
    if not kept:
        return PermissionResult.NEUTRAL
    return IAMPolicy(json.dumps({**document, "Statement": kept})).is_action_permitted(action, resource)


FakeBucket.get_permission = _permission
