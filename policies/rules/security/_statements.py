"""What rules about policy documents share: each document of a resource, and each statement in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct

from gpufleet.policies.rules.security._documents import Statement, parse
from gpufleet.policies.rules.security._properties import ignored
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Violation
from gpufleet.resources.resource import Resource


class StatementRule(Struct, frozen=True):
    """A rule about statements.

    `rule` ends each message, `remedy` says how to correct a statement, `known` what to use in place of values
    that are unknown in a preview. `wrong` yields what is wrong with a statement.
    """

    rule: str
    remedy: str
    known: str
    wrong: Callable[[Statement], Iterator[str]]

    def violations(
        self, resource: Resource, documents: Iterable[tuple[str, Any]], context: RuleContext[Any]
    ) -> Iterator[Violation]:
        """Yield what is wrong with (path, value) of each document.

        A document that is unknown in a preview is a violation if the setting `refuse_unknown` is true.
        """
        for path, value in documents:
            document = parse(value)
            if document.error:
                what = f"not a policy: {document.error}"
                yield self._violation(path, what, "write a policy document in JSON")
            elif document.unknown and (context.settings.refuse_unknown or not context.shared.preview):
                yield self._violation(path, "not known yet", self.known, unknown=True)
            for statement in document:
                for reason in self.wrong(statement):
                    yield self._violation(path, reason, self.remedy)
            if resource.ignores(path):
                yield ignored(resource, path, self.rule)

    def _violation(self, path: str, what: str, remedy: str, *, unknown: bool = False) -> Violation:
        return Violation(f"{path} is {what}, and {self.rule}", remedy, prop=path, unknown=unknown)
