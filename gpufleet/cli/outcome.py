"""The outcome of a run: result, events and exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from gpufleet.engine.api import ResourceEvent, RunResult
from gpufleet.errors import ExitCode

if TYPE_CHECKING:
    from gpufleet.plan.models import FleetPlan
    from gpufleet.report.refusals_text import PolicyRefusal
    from gpufleet.report.sites import SiteChanges


class RunOutcome(Struct, frozen=True):
    """The result of a run and its events."""

    result: RunResult
    events: tuple[ResourceEvent, ...]
    refusals: tuple[PolicyRefusal, ...] = ()

    def by_site(self, plan: FleetPlan) -> tuple[SiteChanges, ...]:
        """The changes by site."""
        from gpufleet.report.sites import changes_by_site

        return changes_by_site(self.result, self.events, plan)

    @property
    def exit_code(self) -> ExitCode:
        """0: done; 1: refused by a mandatory policy, or drift; 130: interrupted; 4: failed, state kept."""
        if self.result.interrupted:
            return ExitCode.INTERRUPTED
        if self.result.ok:
            drift = self.result.verb == "refresh" and self.result.changes.total
            return ExitCode.REFUSED if drift else ExitCode.DONE
        refused = any(violation.enforcement == "mandatory" for violation in self.result.violations)
        return ExitCode.REFUSED if refused else ExitCode.CLOUD_FAILURE
