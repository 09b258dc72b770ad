"""The monthly cost that other open changes add to the base, each separately."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from gpufleet.engine.embedded.engine import EmbeddedEngine
from gpufleet.errors import GpufleetError, SpecError
from gpufleet.policy.context import PolicyContext
from gpufleet.verdict.git import GitRepository, Revision
from gpufleet.verdict.models import OpenChangeCost
from gpufleet.verdict.preview import preview_with_policies, recording_pack, sandbox_request
from gpufleet.verdict.sides import Side, check_out, side_of
from gpufleet.workspace import Workspace

if TYPE_CHECKING:
    from gpufleet.lab_extra import ThrowawayAccount

AT_ONCE = 2
"""Parallel previews. Each runs a program, two providers and a policy pack."""


class OpenChangePricing(Struct, frozen=True):
    """Prices open changes, given the repository, the environment, and the base's state and cost."""

    repository: GitRepository
    head: Workspace
    account: ThrowawayAccount
    state: Path
    before: Side
    shared: PolicyContext

    def price(
        self, revisions: Sequence[Revision], on_step: Callable[[str], None]
    ) -> tuple[OpenChangeCost, ...]:
        """Return all changes with their increase, or with a reason if they cannot be priced."""
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="open-change") as pool:
            waits = []
            for number, revision in enumerate(revisions):
                on_step(f"pricing the open change {revision.ref}")
                waits.append(pool.submit(self._one, revision, self.account.folder / f"open-{number}"))
            return tuple(wait.result() for wait in waits)

    def _one(self, revision: Revision, folder: Path) -> OpenChangeCost:
        try:
            return self._priced(revision, folder)
        except SpecError as error:
            first = error.findings[0]
            return OpenChangeCost(revision.ref, None, f"{first.file}:{first.line}: {first.message}")
        except GpufleetError as error:
            # The last line of a traceback is the error.
            lines = error.message.splitlines()
            return OpenChangeCost(
                revision.ref, None, " ... ".join(dict.fromkeys((lines[0], lines[-1].strip())))
            )

    def _priced(self, revision: Revision, folder: Path) -> OpenChangeCost:
        checkout = check_out(self.repository, revision, self.head, folder)
        if checkout.fleet is None:
            return OpenChangeCost(revision.ref, None, f"it has no environment {self.head.target}")
        pack = recording_pack(folder.with_name(f"{folder.name}-pack"), self.head.root)
        report = folder.with_name(f"{folder.name}.json")
        request = sandbox_request(checkout.workspace, self.account, self.state, own_code=checkout.own_code)
        seen = preview_with_policies(EmbeddedEngine(), request, pack, report, about=checkout.name).report
        side = side_of(checkout.fleet, seen.stack, self.shared.catalog, self.shared.region)
        # Ignore prices that the base does not know either.
        known = {line.urn for line in self.before.cost.unknown}
        unknown = [line for line in side.cost.unknown if line.urn not in known]
        if unknown:
            names = ", ".join(line.name or line.what for line in unknown[:3])
            return OpenChangeCost(revision.ref, None, f"the price of {names} is unknown")
        return OpenChangeCost(revision.ref, side.cost.total.expected - self.before.cost.total.expected)
