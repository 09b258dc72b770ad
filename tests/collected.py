"""The stack of an environment with every value known, as rules see it.

A preview leaves ids and everything computed from them unknown, such as whole IAM policies. Here
the program runs on the SDK's mocks, which answer as if everything were created, so that rules and
third-party tools can inspect what a preview hides.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pulumi
import pulumi.runtime
from pulumi.runtime.mocks import MockMonitor, set_mocks

from gpufleet.catalog import load_catalog
from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.policy import wire
from gpufleet.policy.evaluation import RuleEvaluator
from gpufleet.policy.examples import DAY
from gpufleet.policy.fleet import open_stack
from gpufleet.policy.pack import load_rules
from gpufleet.policy.settings import configure
from gpufleet.resources.resource import ProviderInstance, Resource, ResourceOptions
from gpufleet.resources.stack import Stack
from gpufleet.spec.load import load_fleet
from tests.unit.components.recording import REGION, EchoMocks

ROOT = Path(__file__).resolve().parents[1]
PROJECT = "gpufleet"


class CollectingMonitor(MockMonitor):
    """A mock monitor that keeps each registration as a resource of a policy stack."""

    def __init__(self) -> None:
        super().__init__(EchoMocks())
        self.collected: dict[str, Resource] = {}
        self._lock = threading.Lock()

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        response = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        secrets: set[str] = set()
        inputs = wire.properties(request.object, secrets)
        state = wire.properties(response.object) if response.HasField("object") else {}
        outputs = {**state, "id": response.id} if request.custom else state
        with self._lock:
            self.collected[response.urn] = Resource(
                type=request.type,
                name=request.name,
                urn=response.urn,
                props={**outputs, **inputs},
                inputs=inputs,
                options=ResourceOptions(
                    protect=request.protect,
                    ignore_changes=tuple(request.ignoreChanges),
                    delete_before_replace=request.deleteBeforeReplace or None,
                ),
                provider=self._provider(request.provider),
                parent=request.parent,
                dependencies=tuple(request.dependencies),
                property_dependencies={
                    key: tuple(each.urns) for key, each in request.propertyDependencies.items()
                },
                secrets=frozenset(secrets),
            )
        return response

    def _provider(self, reference: str) -> ProviderInstance | None:
        urn = reference.rpartition("::")[0]
        made = self.collected.get(urn)
        return None if made is None else ProviderInstance(made.type, made.name, urn, made.props)


@cache
def plan_of(environment: str) -> FleetPlan:
    """The plan of an environment of this checkout."""
    return build_plan(load_fleet(environment, root=ROOT).spec, load_catalog())


def collect(environment: str, program: Callable[[], None] | None = None) -> Stack:
    """The resources that the program of the environment registers. Raises what the program raises."""
    monitor = CollectingMonitor()
    set_mocks(monitor.mocks, project=PROJECT, stack=environment, preview=False, monitor=monitor)

    @pulumi.runtime.test  # type: ignore[untyped-decorator]
    def run() -> None:
        (program or _program(environment))()

    run()
    return Stack(monitor.collected.values())


Violations = frozenset[tuple[str, str, str]]
"""Mandatory violations as (rule, URN, property path)."""


@cache
def judge_of(environment: str) -> RuleEvaluator:
    """All rules of the checkout, as the environment's fleet file sets them."""
    config = {"aws:region": REGION, "gpufleet:cloud": "sandbox", "gpufleet:protect": "true"}
    stack = open_stack(ROOT, PROJECT, environment, config, preview=True, now=DAY)
    assert stack.loaded is not None
    spec = stack.loaded.spec
    return RuleEvaluator(
        configure(load_rules(ROOT), spec, stack.loaded.source), stack.shared, spec.exemptions
    )


def violations(environment: str, stack: Stack) -> Violations:
    """Violations of the environment's rules in a stack that stop a run."""
    judge = judge_of(environment)
    found = [violation for resource in stack for violation in judge.resource(resource)]
    found += judge.stack(stack)
    return frozenset(
        (each.rule.name, each.urn, each.violation.prop) for each in found if each.level == "mandatory"
    )


def _program(environment: str) -> Callable[[], None]:
    from gpufleet.stacks.program import build_fleet
    from gpufleet.stacks.settings import StackSettings

    settings = StackSettings("sandbox", environment, True, None, {}, {})
    return lambda: build_fleet(plan_of(environment), settings)
