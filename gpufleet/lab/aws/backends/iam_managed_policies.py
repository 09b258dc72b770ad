"""AWS's managed policies, each loaded on first use.

moto can load all 1,500 at start, which every snapshot would then contain.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from gpufleet.lab.aws.backends.operation import Call, Passthrough, operation


@operation("iam", "AttachRolePolicy")
def attach_role_policy(call: Call) -> Passthrough:
    """Attach a policy to a role."""
    return _with_policy(call)


@operation("iam", "GetPolicy")
def get_policy(call: Call) -> Passthrough:
    """One policy."""
    return _with_policy(call)


@operation("iam", "GetPolicyVersion")
def get_policy_version(call: Call) -> Passthrough:
    """One version of a policy."""
    return _with_policy(call)


@operation("iam", "ListPolicyVersions")
def list_policy_versions(call: Call) -> Passthrough:
    """The versions of a policy."""
    return _with_policy(call)


@operation("iam", "ListEntitiesForPolicy")
def list_entities_for_policy(call: Call) -> Passthrough:
    """Return the entities that have a policy."""
    return _with_policy(call)


def _with_policy(call: Call) -> Passthrough:
    from moto.iam.models import AWSManagedPolicy, iam_backends

    arn = call.params["PolicyArn"]
    backend = iam_backends[call.account][call.partition]
    prefix = f"arn:{call.partition}:iam::aws:policy/"
    if arn.startswith(prefix) and arn not in backend.managed_policies:
        name = arn.rpartition("/")[2]
        data = _published().get(name)
        if data is not None:
            policy = AWSManagedPolicy.from_data(name, call.account, call.partition, data)
            if policy.arn == arn:
                backend.managed_policies[arn] = policy
                backend.aws_managed_policies.append(policy)
    return call.original()


@cache
def _published() -> dict[str, Any]:
    from moto.iam.aws_managed_policies import aws_managed_policies_data

    published: dict[str, Any] = json.loads(aws_managed_policies_data)
    return published
