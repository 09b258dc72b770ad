"""The budget's part of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated

from msgspec import Struct

from gpufleet.kinds import OnBreach
from gpufleet.plan.json import MONEY


class AnomaliesPlan(Struct, frozen=True):
    """Reports of unusual cost: anomalies with an impact of at least `above` USD.

    `monitor` is the ARN of an existing monitor; without one the stack makes its own.
    """

    above: Annotated[Decimal, MONEY]
    monitor: str | None


class GrowingGroup(Struct, frozen=True):
    """A node group whose cost follows its size, by the name of its resource; with its site and its team."""

    name: str
    site: str
    team: str | None


class BudgetPlan(Struct, frozen=True):
    """The budget of the environment, for the cloud and for racks. Thresholds in percent.

    `gpufleet.pricing.cloud_budget` has the part of it that AWS Budgets watches. `assume` has USD a month for
    resources that no price is known for, by name or pattern. `sites` and `teams` are caps in USD a month.
    `growing_groups` are the node groups that `on_breach: stop-scale-out` stops, if `monthly` is spent or the
    cap of their site or team: all but those in a reservation or Capacity Block, which is paid for whether it
    is used or not. `spot_groups` are those of them that buy spot: `drain-spot` drains their spot nodes from
    `drain_spot_at` percent on, None with another `on_breach`.
    """

    monthly: Annotated[Decimal, MONEY]
    currency: str
    alerts: tuple[Decimal, ...]
    on_breach: OnBreach
    drain_spot_at: Decimal | None
    notify: tuple[str, ...]
    assume: Annotated[Mapping[str, Decimal], MONEY]
    sites: Annotated[Mapping[str, Decimal], MONEY]
    teams: Annotated[Mapping[str, Decimal], MONEY]
    growing_groups: tuple[GrowingGroup, ...]
    spot_groups: tuple[GrowingGroup, ...]
    anomalies: AnomaliesPlan | None

    @property
    def growing(self) -> tuple[str, ...]:
        """The names of the groups that a breach may stop."""
        return tuple(group.name for group in self.growing_groups)

    @property
    def stops_growth(self) -> bool:
        """Whether a breach stops node groups."""
        return self.on_breach != "notify" and bool(self.growing)

    @property
    def drains_spot(self) -> bool:
        """Whether a breach drains spot nodes."""
        return self.drain_spot_at is not None and bool(self.spot_groups)
