"""What statements grant together: rights of others, code in their name, and deletions on all resources.

All Allow statements of one identity are added up, so that it does not matter over how many statements,
patterns and policies a grant is split. Denials are not subtracted, since they need not apply to
what is granted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction

from gpufleet.policies.rules.security._action_forms import buys, destroys, gives_rights, reads_only
from gpufleet.policies.rules.security._actions import (
    ASSUMES,
    DELETES,
    GAINS,
    LAUNCHES,
    PASSES,
    RUNS,
    TAGS,
    TOGETHER,
)
from gpufleet.policies.rules.security._documents import Statement
from gpufleet.policies.rules.security._patterns import (
    WIDE,
    has_wildcard,
    matches,
    share,
    without_variables,
)

_SERVICE = re.compile(r"([a-z0-9.-]+)\.amazonaws\.com(\.cn)?")
_OURS = ("aws:resourcetag/gpufleet:fleet", "iam:resourcetag/gpufleet:fleet")


class Grants:
    """The Allow statements of one identity, none with NotAction; `own` is the name of its role, if known."""

    def __init__(self, statements: Iterable[Statement], own: str = "") -> None:
        self._statements = tuple(each for each in statements if each.allows)
        self._own = own
        self._tagging: dict[str, bool] = {}
        self._listed = list(dict.fromkeys(action for each in self._statements for action in each.actions))
        self._literal = [action for action in self._listed if not has_wildcard(action)]

    def reasons(self, reads: Sequence[str]) -> Iterator[str]:
        """Yield what is too wide. `reads` are names of actions that are allowed on all resources."""
        yield from self._patterns(reads)
        yield from self._gains()
        yield from self._passes()
        yield from self._deletes()

    def wide(self, action: str, *, existing: bool = False) -> bool:
        """Return whether an action applies to all resources: without a condition on the resources' tags.

        `existing`: tags of the request restrict nothing, since the action is not for what it creates. Tags of
        resources restrict nothing if the identity may tag all of them.
        """
        covering = tuple(self._covering(action))
        if not covering:
            # As for most of the known actions: who may tag does not matter then.
            return False
        service = action.partition(":")[0]
        by_tag = not self._tags_all(service)
        found = (
            each.share_of(service)
            for each in covering
            if not _is_scoped(each, by_request=not existing, by_tag=by_tag)
        )
        return sum(found, Fraction(0)) >= WIDE

    def _tags_all(self, service: str) -> bool:
        """Return whether the identity may give tags to all resources of a service."""
        if service not in self._tagging:
            names = [*(f"{service}:{each}" for each in TAGS), "tag:tagresources"]
            shares = (
                sum(
                    (each.share_of(service) for each in self._covering(name) if not _is_scoped(each)),
                    Fraction(0),
                )
                for name in names
            )
            self._tagging[service] = any(share >= WIDE for share in shares)
        return self._tagging[service]

    def _covering(self, action: str) -> Iterator[Statement]:
        return (each for each in self._statements if each.covers(action))

    def _patterns(self, reads: Sequence[str]) -> Iterator[str]:
        """Find actions by pattern on patterns that cover all resources together."""
        for pattern in self._listed:
            name = pattern.partition(":")[2]
            if not has_wildcard(name) or any(matches(read, name) for read in reads):
                continue
            # Any action of the pattern: what covers this one covers it too.
            if self.wide(pattern.replace("*", "").replace("?", "x")):
                yield f"allows {pattern!r} on patterns that together are all resources"

    def _gains(self) -> Iterator[str]:
        found = [action for action in self._named(GAINS, gives_rights) if self._gained(action)]
        if found:
            yield f"allows {_names(found)} on all resources, which gives the rights or the data of others"
        found = [action for action in RUNS if self.wide(action)]
        if found:
            yield f"allows {_names(found)} on all resources, which runs code with the rights of others"
        for actions in TOGETHER:
            if all(self.wide(action) for action in actions):
                yield f"allows {' and '.join(actions)} on all resources, which runs code with their roles"

    def _gained(self, action: str) -> bool:
        return self.wide(action, existing=True) or (
            bool(self._own) and action in _ON_ROLES and any(map(self._on_itself, self._covering(action)))
        )

    def _on_itself(self, statement: Statement) -> bool:
        """Return whether a statement may change the role that it belongs to."""
        named = (each.rpartition("/")[2] for each in _plain(statement) if ":role/" in each)
        return not _is_scoped(statement) and any(matches(each, self._own) for each in named)

    def _passes(self) -> Iterator[str]:
        if any(_every_role(each) and not _to_ours(each) for each in self._covering(ASSUMES)):
            yield f"allows {ASSUMES} on all roles"
        passing = [each for each in self._covering(PASSES) if not _to_ours(each)]
        if sum((_roles(each) for each in passing if not _services(each)), Fraction(0)) >= WIDE:
            yield f"allows {PASSES} on all roles"
            return
        for service, actions in LAUNCHES.items():
            of_service = (each for each in passing if service in (_services(each) or (service,)))
            launched = [action for action in actions if any(True for _ in self._covering(action))]
            if launched and sum(map(_roles, of_service), Fraction(0)) >= WIDE:
                yield (
                    f"allows {PASSES} on all roles for {service}.amazonaws.com and {launched[0]}, which runs "
                    "code with the rights of any role"
                )

        for service in dict.fromkeys(each for statement in passing for each in _services(statement)):
            if service in LAUNCHES:
                continue
            # A service that no list has: any action that writes there may run code with the role.
            own = service.rpartition(".")[2]
            started = [each for each in self._listed if each.startswith(f"{own}:") and not reads_only(each)]
            of_service = (each for each in passing if service in _services(each))
            if started and sum(map(_roles, of_service), Fraction(0)) >= WIDE:
                yield (
                    f"allows {PASSES} on all roles for {service}.amazonaws.com and {started[0]}, which may "
                    "run code with the rights of any role"
                )

    def _deletes(self) -> Iterator[str]:
        found = [action for action in self._named(DELETES, destroys) if self.wide(action)]
        if found:
            yield f"allows {_names(found)} on all resources, which destroys or stops what others need"
        found = [action for action in self._literal if buys(action)]
        if found:
            yield f"allows {_names(found)}, which commits to payments that nobody can cancel"

    def _named(self, known: Sequence[str], form: Callable[[str], bool]) -> list[str]:
        """Return the known actions, and those in the statements whose name has the form."""
        return list(dict.fromkeys([*known, *filter(form, self._literal)]))


def _is_scoped(statement: Statement, *, by_request: bool = False, by_tag: bool = True) -> bool:
    """Return whether a condition restricts the resources, without those that the holder can satisfy."""
    return any(
        each.scopes and (by_request or not each.by_request) and (by_tag or not each.by_tag)
        for each in statement.conditions
    )


_ON_ROLES = frozenset({"iam:attachrolepolicy", "iam:putrolepolicy", "iam:updateassumerolepolicy"}) | {
    "iam:deleterolepermissionsboundary",
    "iam:putrolepermissionsboundary",
}


def _names(actions: Sequence[str]) -> str:
    more = f" and {len(actions) - 3} more" if len(actions) > 3 else ""
    return f"{', '.join(actions[:3])}{more}"


def _roles(statement: Statement) -> Fraction:
    """Return the share of all roles that a statement applies to; a pattern without a start counts as all."""
    if statement.not_resources:
        return Fraction(1)
    found = Fraction(0)
    for each in _plain(statement):
        head, _, name = each.rpartition(":role/")
        if not head:
            # A wildcard in place of the type, or another type of resource.
            found += 1 if matches(each, _ANY_ROLE) else 0
        elif each.count(":") < 5 or has_wildcard(name[:1]):
            found += 1
        else:
            segments = [segment for segment in name.split("/") if segment]
            found += min(map(share, segments), default=Fraction(0))
    return min(Fraction(1), found)


def _plain(statement: Statement) -> list[str]:
    return list(dict.fromkeys(without_variables(each.strip()) for each in statement.resources))


_ANY_ROLE = "arn:aws:iam::123456789012:role/any"


def _every_role(statement: Statement) -> bool:
    """Return whether it is for all roles of an account, or for roles of any account."""
    return _roles(statement) >= WIDE or any(
        has_wildcard(parts[4])
        for each in _plain(statement)
        if len(parts := each.split(":", 5)) == 6 and parts[5].startswith("role/")
    )


def _services(statement: Statement) -> tuple[str, ...]:
    """Return the services to which a statement passes roles (`ec2`); empty for any."""
    for condition in statement.conditions:
        if condition.key == "iam:passedtoservice" and condition.plain in ("stringequals", "stringlike"):
            found = [_SERVICE.fullmatch(value.strip().lower()) for value in condition.values]
            names = tuple(each[1] for each in found if each)
            if len(names) == len(found):
                return names
    return ()


def _to_ours(statement: Statement) -> bool:
    """Return whether a condition restricts it to roles of the fleet, or of named tags."""
    return any(condition.scopes for condition in statement.conditions if condition.key in _OURS)
