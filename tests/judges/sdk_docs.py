"""What the documentation of the AWS SDK of Pulumi says of inputs that go together, or do not.

Providers enforce some of it, AWS some, and some neither: a budget with a filter and without a metric is
created, and AWS cannot compute its cost.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pulumi_aws

_NAME = re.compile(r"`(\w+)`")
_SENTENCE = re.compile(r"(Conflicts with|(?<!` )[Rr]equires) ((?:`\w+`(?:, | and | or |, and |, or )?)+)")


def contradictions(token: str, inputs: Mapping[str, Any]) -> list[str]:
    """Return what a resource's inputs have against the documentation: one sentence each."""
    found = []
    for one, needs, other in _rules(token):
        if inputs.get(one) is None or needs == (inputs.get(other) is not None):
            continue
        found.append(f"{token}: {one} {'requires' if needs else 'conflicts with'} {other}")
    return found


@cache
def _rules(token: str) -> tuple[tuple[str, bool, str], ...]:
    """(input, whether it requires or excludes, the other one) of a resource type, in Pulumi's names."""
    return tuple(_parsed(token))


def _parsed(token: str) -> Iterator[tuple[str, bool, str]]:
    path, _, name = token.removeprefix("aws:").partition(":")
    folder, _, file = path.partition("/")
    found = getattr(pulumi_aws, folder, None) or getattr(pulumi_aws, f"{folder}_")
    module = importlib.import_module(f"{found.__name__}.{_snake(file)}")
    arguments = getattr(module, f"{name}Args")
    names = {each for each in dir(arguments) if isinstance(getattr(arguments, each), property)}
    for text in (arguments.__init__.__doc__ or "").split(":param ")[1:]:
        one = re.search(r"(\w+):", text.partition("] ")[2] or text)
        if one is None or one.group(1) not in names:
            continue
        for verb, others in _SENTENCE.findall(" ".join(text.split())):
            for other in _NAME.findall(others):
                # Terraform's names of lists are in the singular.
                for known in names & {other, f"{other}s"}:
                    yield _camel(one.group(1)), verb != "Conflicts with", _camel(known)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(each.title() for each in rest)
