"""Node groups that a breach of the budget stopped: a run keeps their maximum until they are resumed.

The function of the budget changes maxima behind Pulumi's back. A run with the fleet file's maxima would undo
that without anybody's decision. So it has the maxima and sizes of the stop: those that AWS has already.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from gpufleet.components.node_group import HeldSize
from gpufleet.plan.models import FleetPlan
from gpufleet.plan.names import parameters_path, stopped_groups_parameter


def stopped_groups(plan: FleetPlan, provider: aws.Provider) -> Mapping[str, HeldSize]:
    """Return resource name -> sizes of the stopped groups, and warn of them; `provider` is the account's."""
    found = aws.ssm.get_parameters_by_path(
        path=parameters_path(plan.fleet, plan.environment),
        opts=pulumi.InvokeOptions(provider=provider),
    )
    # A list and not a single parameter: that one does not exist before the first run.
    values = dict(zip(found.names, found.values, strict=True))
    kept = json.loads(values.get(stopped_groups_parameter(plan.fleet, plan.environment), "{}"))
    groups = {
        name: HeldSize(max_size=most, desired_size=desired)
        for name, (_, most, desired) in kept.get("groups", {}).items()
    }
    if groups:
        pulumi.log.warn(
            f"the budget of {plan.environment} was spent on {kept.get('since', 'an unknown day')}, and "
            f"{', '.join(sorted(groups))} grow no more: this run keeps their maxima "
            f"(`gpufleet budget resume {plan.environment}` lets them grow again)"
        )
    return groups
