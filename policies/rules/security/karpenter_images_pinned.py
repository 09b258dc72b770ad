"""The nodes of Karpenter start from an image that only a change of the program changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import UNKNOWN, Resource
from gpufleet.resources.types import NODE_CLASS

_TERMS = "spec.amiSelectorTerms"
_VERSION = re.compile(r":\d+$")
_NEWEST = re.compile(r"(^|/)(latest|recommended)(/|$)")


def _example(**term: str) -> Example:
    return Example(({"type": NODE_CLASS, "props": {"spec": {"amiSelectorTerms": [term]}}},))


@resource_rule(
    "karpenter-images-pinned",
    group="security",
    title="Images of Karpenter's nodes are pinned",
    why="Karpenter replaces all nodes whose image is no longer the one that its EC2NodeClass selects. With "
    "`latest`, tags or a pattern of names, the release of an image drains the nodes of running jobs, and "
    "whoever can make a matching image runs code on all nodes.",
    fix="Select the image by its id, by an alias with a version (`al2023@v20260714`) or by its exact name.",
    severity="high",
    types=(NODE_CLASS,),
    settings=Settings,
    passes=_example(id="ami-0123456789abcdef0"),
    fails=_example(alias="al2023@latest"),
)
def karpenter_images_pinned(resource: Resource, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check each term by which an EC2NodeClass selects images."""
    terms = list(resource.items(_TERMS))
    if not terms:
        yield _violation(resource, _TERMS, "is not set", unknown=False)
    for path, term in terms:
        if not isinstance(term, Mapping):
            yield _violation(resource, path, "is not known yet", unknown=True)
        elif why := _moves(term):
            yield _violation(resource, path, why, unknown=False)


def _moves(term: Mapping[str, Any]) -> str:
    """Return why other images can match a term later; empty if none can. The id of an image that is not known
    yet is one all the same."""
    if term.get("id") is not None:
        return ""
    alias, name, parameter = term.get("alias"), term.get("name"), term.get("ssmParameter")
    if alias is not None:
        pinned = isinstance(alias, str) and "@" in alias and not alias.endswith("@latest")
        return "" if pinned else f"has the alias {_text(alias)}"
    if name is not None:
        exact = isinstance(name, str) and not set(name) & set("*?")
        return "" if exact else f"has the name {_text(name)}"
    if parameter is not None:
        fixed = isinstance(parameter, str) and not _NEWEST.search(parameter)
        if fixed and not parameter.lstrip("/").startswith("aws/service/"):
            fixed = bool(_VERSION.search(parameter))
        return "" if fixed else f"has the parameter {_text(parameter)}, without a version"
    return "selects by tags"


def _text(value: object) -> str:
    return "not known yet" if value is UNKNOWN else repr(value)


def _violation(resource: Resource, path: str, why: str, *, unknown: bool) -> Violation:
    return Violation(
        f"{path} {why}, so another image can match it later, and Karpenter replaces the nodes",
        "use the image's id, an alias with a version, or the exact name",
        urn=resource.urn,
        prop=path,
        unknown=unknown,
    )
