"""The input of a rule in addition to the resources: its settings, the fleet, the stack, the time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct, field

if TYPE_CHECKING:
    from gpufleet.catalog import Catalog
    from gpufleet.plan.models import FleetPlan
    from gpufleet.pricing.models import FleetCost
    from gpufleet.resources.stack import Stack
    from gpufleet.spec.models import FleetSpec

S = TypeVar("S")


class PolicyContext(Struct, frozen=True):
    """The input that all rules of one run share.

    `spec` and `plan` are None if the stack has no fleet file (a program of another project): rules that need
    one then fail closed. `config` is the stack's configuration without secrets (`aws:region`). `preview` is
    True if values such as IDs are not known yet.
    """

    project: str
    stack: str
    catalog: Catalog
    now: dt.datetime
    preview: bool = True
    spec: FleetSpec | None = None
    plan: FleetPlan | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    _costs: dict[int, tuple[Stack, FleetCost]] = field(default_factory=dict)

    @property
    def environment(self) -> str:
        """The name of the environment, or of the stack if there is no fleet file."""
        return self.spec.environment if self.spec is not None else self.stack

    def cost_of(self, stack: Stack) -> FleetCost:
        """Return the cost of the stack with the racks of its fleet, computed once for all rules."""
        from gpufleet.pricing import price_stack

        found = self._costs.get(id(stack))
        # Keep a reference to the stack: Python reuses the id of a deleted object.
        if found is None or found[0] is not stack:
            cost = price_stack(stack, self.catalog, self.plan, default_region=self.region)
            found = self._costs[id(stack)] = (stack, cost)
        return found[1]

    @property
    def on_trial(self) -> bool:
        """Whether the stack runs in the emulated AWS with its defaults, which protect no resource. Previews
        of a verdict set `gpufleet:protect` as for an account, so they are not a trial.
        """
        return self.config.get("gpufleet:cloud") == "sandbox" and "gpufleet:protect" not in self.config

    @property
    def is_verdict(self) -> bool:
        """Whether the stack before the change is that of a verdict: in an emulated account, where the dates
        of a purchase are not those of the real one.
        """
        return self.config.get("gpufleet:cloud") == "sandbox" and "gpufleet:protect" in self.config

    @property
    def region(self) -> str:
        """The region of resources whose provider has none."""
        return self.config.get("aws:region", "")


class RuleContext(Struct, Generic[S], frozen=True):
    """The settings of one rule, and the context that all rules of the run share."""

    settings: S
    shared: PolicyContext

    @property
    def environment(self) -> str:
        """The environment's name."""
        return self.shared.environment
