"""Node groups that a breach of the budget stopped or drains: a run keeps their sizes until they are resumed.

The functions of the budget change sizes behind Pulumi's back. A run with the fleet file's sizes would undo
that without anybody's decision. So it has the maxima and sizes of the stop: those that AWS has already. A
group that drains has the minimum 0, and the size that it had: it launches no node, and a smaller size would
end nodes whose jobs still write checkpoints.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from gpufleet.components.node_group import HeldSize
from gpufleet.plan.models import FleetPlan
from gpufleet.plan.names import drained_groups_path, parameters_path, stopped_groups_parameter


def stopped_groups(plan: FleetPlan, provider: aws.Provider) -> Mapping[str, HeldSize]:
    """Return resource name -> sizes of the stopped groups, and warn of them; `provider` is the account's."""
    # A list and not a single parameter: that one does not exist before the first run.
    values = _parameters(parameters_path(plan.fleet, plan.environment), provider)
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
    return groups | (_drained_groups(plan, provider, groups) if plan.budget.drains_spot else {})


def _drained_groups(
    plan: FleetPlan, provider: aws.Provider, stopped: Mapping[str, HeldSize]
) -> dict[str, HeldSize]:
    """Return the same of the groups whose spot nodes drain."""
    path = drained_groups_path(plan.fleet, plan.environment)
    groups: dict[str, HeldSize] = {}
    for parameter, value in _parameters(path, provider).items():
        name, kept = parameter.rpartition("/")[2], json.loads(value)
        if kept:
            _, desired, most = kept["sizes"]
            most = stopped[name].max_size if name in stopped else most
            groups[name] = HeldSize(max_size=most, desired_size=desired, min_size=0)
    if groups:
        pulumi.log.warn(
            f"the budget of {plan.environment} was spent, and the spot nodes of {', '.join(sorted(groups))} "
            f"drain: this run starts none (`gpufleet budget resume {plan.environment}` ends that)"
        )
    return groups


def _parameters(path: str, provider: aws.Provider) -> dict[str, str]:
    found = aws.ssm.get_parameters_by_path(path=path, opts=pulumi.InvokeOptions(provider=provider))
    return dict(zip(found.names, found.values, strict=True))
