"""What a change edits of the code that judges it, and which code has judged it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from gpufleet.spec.models import FleetSpec
from gpufleet.verdict import guard
from gpufleet.verdict.by_base import SecondCheck
from gpufleet.verdict.data_only import shown
from gpufleet.verdict.git import GitRepository, Revision
from gpufleet.verdict.judging import JudgedChanges, sort_out
from gpufleet.verdict.models import GuardrailChanges, JudgingCode
from gpufleet.verdict.request import CheckRequest


class CodeOfChange(Struct, frozen=True):
    """The files in which the work tree differs from a base.

    With `left_out` the work tree is a copy of the base with the data of a change, whose code these files are.
    """

    repository: GitRepository
    base: Revision
    changes: JudgedChanges
    left_out: tuple[str, ...] | None

    @classmethod
    def of(
        cls, repository: GitRepository | None, base: Revision | None, left_out: tuple[str, ...] | None
    ) -> CodeOfChange | None:
        """Return the files, None without a base."""
        if repository is None or base is None:
            return None
        changes = sort_out(repository.differences(base.commit), repository.prefix)
        return cls(repository, base, changes, left_out)

    def touched(self, environment: str, before: FleetSpec | None, after: FleetSpec) -> GuardrailChanges:
        """Return code, settings of the stack, and fields of the fleet file that judge the change."""
        prefix = self.repository.prefix
        code = self.left_out if self.left_out is not None else shown(self.changes.code, prefix)
        settings = guard.settings_file(environment)
        stack = [name for name in shown(self.changes.data, prefix) if name == settings]
        return GuardrailChanges(tuple(sorted((*code, *stack))), guard.loosened(before, after))

    def judge(
        self, request: CheckRequest, now: dt.datetime, folder: Path, on_step: Callable[[str], None]
    ) -> JudgingCode:
        """Return which code judges the change. That of the base judges a change of code and data, too."""
        if self.left_out is not None or not self.changes.code:
            return JudgingCode("base", self.left_out or ())
        if not self.changes.data:
            return JudgingCode("change")
        on_step(f"judging stacks/ with the code of {self.base.ref[:80]}")
        second = SecondCheck(self.repository, self.base, request, folder)
        return JudgingCode("change", second=second.verdict(self.changes, now.isoformat()))
