"""Change rules in `gpufleet preview` and `up`.

Pulumi passes only the desired resources to a policy pack. Rules about the change itself (a replaced file
system, a higher monthly cost) are evaluated here, from the preview's steps and the state, for either engine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gpufleet.engine.api import PolicyEvent, ResourceEvent, RunResult, StackRequest
from gpufleet.policy.change import StackChange
from gpufleet.policy.evaluation import RuleEvaluator
from gpufleet.policy.fleet import open_stack
from gpufleet.policy.pack import load_rules
from gpufleet.policy.report import read_report
from gpufleet.policy.server import PACK
from gpufleet.policy.settings import configure, read_pack_config
from gpufleet.resources.stack import Stack
from gpufleet.verdict.before import stack_of_state
from gpufleet.verdict.steps import steps_of


class DeployedState(Struct, frozen=True):
    """The state before the run, as exported by the engine, None without a stack.

    `complete` is True if an `up` of the stack has finished.
    """

    exported: Mapping[str, Any] | None
    complete: bool = True

    @property
    def stack(self) -> Stack:
        """Its resources."""
        return stack_of_state(self.exported)


def evaluate_change_rules(
    result: RunResult,
    events: Sequence[ResourceEvent],
    request: StackRequest,
    report: Path,
    deployed: DeployedState,
) -> RunResult:
    """Add the violations of change rules to the result of a preview; a mandatory one fails it.

    Returns the result unchanged if the stack does not exist or the policy pack wrote no report.
    """
    before = deployed.stack
    if not len(before):
        return result
    try:
        after = read_report(report).stack
    except (FileNotFoundError, json.JSONDecodeError):
        return result
    fleet = open_stack(request.project_root, request.project, request.stack, request.config, preview=True)
    shared = fleet.shared
    source = fleet.loaded.source if fleet.loaded else None
    given = read_pack_config(next(iter(request.policy_config.values()), None))
    configured = configure(load_rules(request.project_root), shared.spec, source, given)
    change = StackChange(
        steps=steps_of(events, before, after),
        before=before,
        after=after,
        cost_before=shared.cost_of(before),
        cost_after=shared.cost_of(after),
        spec_before=shared.spec,
        unfinished=not deployed.complete,
    )
    evaluator = RuleEvaluator(configured, shared, shared.spec.exemptions if shared.spec else ())
    found = tuple(
        PolicyEvent(
            pack=PACK,
            policy=each.rule.name,
            enforcement=each.level,
            message=each.message,
            urn=each.urn,
            severity=each.rule.severity,
            description=each.rule.title,
        )
        for each in evaluator.change(change)
    )
    refused = any(event.enforcement == "mandatory" for event in found)
    return replace(result, ok=result.ok and not refused, violations=(*result.violations, *found))
