"""Node groups that a breach of the budget stopped: their sizes stay as they are until they are resumed.

The function of the budget changes maxima behind Pulumi's back. A run that sends the fleet file's sizes would
undo that without anybody's decision, so it sends no size of these groups.
"""

from __future__ import annotations

import json

import pulumi
import pulumi_aws as aws

from gpufleet.plan.models import FleetPlan
from gpufleet.plan.names import parameters_path, stopped_groups_parameter


def stopped_groups(plan: FleetPlan, provider: aws.Provider) -> frozenset[str]:
    """Return the resource names of the stopped groups, and warn of them; `provider` is the account's."""
    found = aws.ssm.get_parameters_by_path(
        path=parameters_path(plan.fleet, plan.environment),
        opts=pulumi.InvokeOptions(provider=provider),
    )
    # A list and not a single parameter: that one does not exist before the first run.
    values = dict(zip(found.names, found.values, strict=True))
    kept = json.loads(values.get(stopped_groups_parameter(plan.fleet, plan.environment), "{}"))
    names = frozenset(kept.get("before", {}))
    if names:
        pulumi.log.warn(
            f"the budget of {plan.environment} was spent on {kept.get('since', 'an unknown day')}, and "
            f"{', '.join(sorted(names))} grow no more: this run does not change their sizes "
            f"(`gpufleet budget resume {plan.environment}` lets them grow again)"
        )
    return names
