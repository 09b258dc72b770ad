"""Tags: the required ones, and the limits of AWS."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, check, listed
from gpufleet.checks.tag_owners import names_nobody
from gpufleet.plan.marks import TAG_PREFIX

LONGEST_KEY = 128
LONGEST_VALUE = 256
MOST_TAGS = 50
OURS = 9
"""Tags that a resource gets in addition to the fleet file's: Name, six of gpufleet, and two that EKS sets on
resources of a cluster."""

TAG_TEXT = re.compile(r"[\w\s.:/=+\-@]*")
"""Valid characters of a key or value (Tagging AWS Resources User Guide)."""


@check("required-tags")
def required_tags(fleet: Fleet) -> Iterator[FieldFinding]:
    """Costs are grouped by these tags. A resource without them has no owner."""
    for key in fleet.spec.required_tags:
        value = fleet.spec.tags.get(key, "")
        if value.strip() and names_nobody(value, key):
            yield FieldFinding(
                ("tags", key),
                f"required tag '{key}' names nobody",
                f"write the name of an owner, such as '{key}: research'",
                value=value,
            )
        if not fleet.spec.tags.get(key, "").strip():
            near = [name for name in fleet.spec.tags if name.lower().replace("_", "-") == key.lower()]
            state = "is empty" if key in fleet.spec.tags else "is missing"
            yield FieldFinding(
                ("tags", key) if key in fleet.spec.tags else ("tags",),
                f"required tag '{key}' {state}",
                f"rename tag '{near[0]}' to '{key}'" if near else f"write '{key}: <value>' under `tags`",
                value=fleet.spec.tags.get(key) or key,
            )


@check("tag-key")
def tag_keys(fleet: Fleet) -> Iterator[FieldFinding]:
    """A tag key has up to 128 letters, digits, spaces and _ . : / = + - @. "aws:" is reserved (Tagging AWS
    Resources User Guide). IAM rejects keys that differ only in case (IAM User Guide, "Tags for IAM
    resources")."""
    seen: dict[str, str] = {}
    for key in fleet.spec.tags:
        path = ("tags", key)
        lower = key.lower()
        if not key or len(key) > LONGEST_KEY:
            yield FieldFinding(
                path,
                f"a tag key has 1 to {LONGEST_KEY} characters, but this one has {len(key)}",
                "shorten it",
                value=key,
            )
        elif not TAG_TEXT.fullmatch(key):
            yield FieldFinding(
                path,
                f"tag key '{key}' has characters that AWS rejects",
                "use letters, digits, spaces and _ . : / = + - @",
                value=key,
            )
        if lower.startswith("aws:"):
            yield FieldFinding(
                path,
                f"tag key '{key}' starts with 'aws:', which AWS reserves",
                "use another key",
                value=key,
            )
        elif lower.startswith(TAG_PREFIX):
            yield FieldFinding(
                path,
                f"tag key '{key}' starts with '{TAG_PREFIX}', which gpufleet reserves",
                "use another key",
                value=key,
            )
        if lower in seen:
            yield FieldFinding(
                path,
                f"tag keys '{seen[lower]}' and '{key}' differ only in case, which IAM rejects",
                "keep one",
                value=key,
            )
        seen.setdefault(lower, key)


@check("tag-value")
def tag_values(fleet: Fleet) -> Iterator[FieldFinding]:
    """A tag value has up to 256 of the same characters as a key."""
    for key, value in fleet.spec.tags.items():
        path = ("tags", key)
        if len(value) > LONGEST_VALUE:
            yield FieldFinding(
                path,
                f"a tag value has at most {LONGEST_VALUE} characters, but this one has {len(value)}",
                "shorten it",
            )
        elif not TAG_TEXT.fullmatch(value):
            yield FieldFinding(
                path,
                f"the value of tag '{key}' has characters that AWS rejects",
                "use letters, digits, spaces and _ . : / = + - @",
            )


@check("tag-count")
def tag_count(fleet: Fleet) -> Iterator[FieldFinding]:
    """A resource has at most 50 tags, including those of gpufleet and EKS."""
    count = len(fleet.spec.tags)
    room = MOST_TAGS - OURS
    if count > room:
        yield FieldFinding(
            ("tags",),
            f"{count} tags are too many: AWS allows {MOST_TAGS} on a resource, and gpufleet and EKS"
            f" need {OURS}",
            f"keep {room} or fewer",
            value=listed(list(fleet.spec.tags), 3),
        )


CHECKS = (required_tags, tag_keys, tag_values, tag_count)
