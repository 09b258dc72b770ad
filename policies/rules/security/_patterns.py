"""IAM's patterns (`*`, `?`): what they match, and the share of all names that a list of them covers.

A list of narrow patterns can cover as much as `*` does: `arn:aws:s3:::a*` to `arn:aws:s3:::z*`. So patterns
are measured and added up, and the length of a list does not matter.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

LETTERS = 36
"""Characters that start a name: a to z and 0 to 9."""

WIDE = Fraction(1, LETTERS)
"""The share of all names from which a list counts as all of them: what one letter and `*` cover.

IAM's limits on the size of policies leave room for a few hundred patterns in a role. With three letters each
(1/46656), they stay below.
"""

_FLOATING = 20
"""Places where letters after a `*` can be in a name of usual length."""

_ID = re.compile(r"^(i|vol|snap|sg|sgr|subnet|vpc|ami|lt|eni|cr|fs|fsvol|fsmt|backup|mi)-0?(?=[0-9a-f*?]*$)")
"""The constant start of generated identifiers: `i-0`, `vol-0`, `fs-0`."""

_WITH_IDS = frozenset({"ec2", "elasticfilesystem", "fsx", "ssm", ""})

_WORDS = frozenset({"autoscalinggroupname", "app", "net", "gwy", "log-stream", "object", "user", "uuid"})
"""Segments of an ARN that belong to its form and name nothing."""

_VARIABLE = re.compile(r"\$\{([^}]*)\}")


@lru_cache(maxsize=8192)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = (".*" if each == "*" else "." if each == "?" else re.escape(each) for each in pattern)
    return re.compile("".join(parts), re.DOTALL)


def matches(pattern: str, text: str) -> bool:
    """Return whether the pattern matches the whole text, with the same case."""
    return _compiled(pattern).fullmatch(text) is not None


def has_wildcard(text: str) -> bool:
    """Return whether the text has a wildcard or a variable (`${aws:PrincipalTag/x}`), which has any value."""
    return any(each in text for each in ("*", "?")) or "${" in text


def without_variables(text: str) -> str:
    """Return the text with `*` for each variable: it has any value, and its name has colons and slashes."""
    return _VARIABLE.sub("*", text)


@lru_cache(maxsize=8192)
def beyond(resource: str, stems: tuple[str, ...]) -> str:
    """Return a resource element without the beginning that all names of a fleet share, if a pattern follows.

    `stems` are such beginnings (`atlas-prod-`). For the fleet, `role/atlas-*` is as wide as `role/*`.
    """
    text = without_variables(resource.strip())
    parts = text.split(":", 5)
    if len(parts) < 6:
        return text
    names = re.sub(r"[^:/]+", lambda found: _beyond(found[0], stems), parts[5])
    return ":".join((*parts[:5], names))


def _beyond(name: str, stems: tuple[str, ...]) -> str:
    start = re.split(r"[*?]", name, maxsplit=1)[0]
    if start == name:
        return name
    for stem in sorted(stems, key=len, reverse=True):
        if start.startswith(stem):
            return name[len(stem) :]
        if stem.startswith(start):
            return name[len(start) :]
    return name


@lru_cache(maxsize=8192)
def share(name: str) -> Fraction:
    """Return the share of all names that a pattern matches: 0 for a name without wildcards.

    Letters before the first wildcard count most. Later ones can be anywhere in the name, and separators are
    in most names, so `*a*` and `*-*` match nearly everything.
    """
    text = without_variables(name).lower()
    if not has_wildcard(text):
        return Fraction(0)
    first, *later = re.split(r"[*?]+", text)
    found = Fraction(1, LETTERS ** len(first))
    for run in later:
        letters = re.sub(r"[^a-z0-9]", "", run)
        found *= min(Fraction(1), Fraction(_FLOATING, LETTERS ** len(letters)))
    return found


@lru_cache(maxsize=8192)
def kind_and_share(resource: str) -> tuple[str, str, Fraction]:
    """Return service, type and share of the names of a resource element: (`ec2`, `instance`, 1) for
    `arn:aws:ec2:*:*:instance/*`. Empty service and type stand for all.
    """
    text = without_variables(resource.strip())
    parts = text.split(":", 5)
    if len(parts) < 6:
        # A wildcard at the end stands for the missing parts.
        return "", "", Fraction(1) if share(parts[-1]) == 1 else share(text)
    service = "" if has_wildcard(parts[2]) else parts[2].lower()
    if not parts[5].strip("*?/: "):
        return service, "", Fraction(1)
    segments = [each for each in re.split(r"[:/]", parts[5]) if each]
    if service == "s3" and not parts[3]:
        # The bucket counts: a pattern of keys narrows nothing in `*/secret*`.
        return service, "", share(segments[0])
    if len(segments) == 1:
        return service, "", share(segments[0])
    kind, *names = segments
    if service in _WITH_IDS:
        names = [_ID.sub("", each) or "*" for each in names]
    measured = [share(each) for each in names if each.lower() not in _WORDS]
    return service, "" if has_wildcard(kind) else kind.lower(), min(measured, default=Fraction(0))


def measure(resources: Iterable[str], service: str) -> Fraction:
    """Return the largest share that the elements cover together of any type of resource of a service.

    An element of another service does not count. `ssm` and `backup` act on resources of others.
    """
    by_kind: dict[str, Fraction] = defaultdict(Fraction)
    for each in dict.fromkeys(resources):
        own, kind, part = kind_and_share(each)
        if own and own != service and service not in ("ssm", "backup"):
            continue
        by_kind[kind] += part
    for_all = by_kind.pop("", Fraction(0))
    return min(Fraction(1), for_all + max(by_kind.values(), default=Fraction(0)))
