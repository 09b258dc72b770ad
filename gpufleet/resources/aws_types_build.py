"""Derives the data of `aws_types` from the sources of the installed pulumi_aws.

pulumi_aws is 270 MB of generated classes that take seconds to import and longer to parse: this reads only the
few relevant lines of each resource class, in a second. Run it with
`python -m gpufleet.resources.aws_types_build` when the pinned version changes; a test derives the data again
and compares it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpufleet.resources.aws_types import DATA, NO_TAGS

_TOKEN = re.compile(r'^@pulumi\.type_token\("(aws:[^"]+)"\)\nclass (\w+)\(pulumi\.CustomResource\):', re.M)
_INIT = re.compile(r"^    def _internal_init\(__self__,\n(.*?)__props__=None\):$", re.M | re.S)
_INPUT = re.compile(r"^ +(\w+): pulumi\.Input\[(.+)\] = None,$", re.M)
_ALIAS = re.compile(r'pulumi\.Alias\(type_="(aws:[^"]+)"\)')
_ABOUT_TAGS = re.compile(r"(^|_)tags?(_|$)")
_DICTIONARY = "Mapping[str, pulumi.Input[_builtins.str]]"


def build() -> dict[str, Any]:
    """Return the version of pulumi_aws, its resource types with their form of tags, the old names of renamed
    types, inputs for tags besides `tags`, and the types that are one tag of another resource.
    """
    types: dict[str, str] = {}
    renamed: dict[str, str] = {}
    besides: dict[str, list[str]] = {}
    single: list[str] = []
    for path in sorted(package().rglob("*.py")):
        for token, inputs, text in resources(path.read_text(encoding="utf-8")):
            types[token] = shape(inputs)
            renamed.update({old: token for old in _ALIAS.findall(text) if old != token})
            others = sorted(name for name in inputs if _ABOUT_TAGS.search(name) and name != "tags")
            if others:
                besides[token] = [_camel(each) for each in others]
            if token.endswith("/tag:Tag") and {"key", "value"} < set(inputs):
                single.append(token)
    return {
        "version": importlib.metadata.version("pulumi_aws"),
        "types": dict(sorted(types.items())),
        "renamed": dict(sorted(renamed.items())),
        "besides": dict(sorted(besides.items())),
        "single": sorted(single),
    }


def package() -> Path:
    """Return the folder of the installed pulumi_aws."""
    spec = importlib.util.find_spec("pulumi_aws")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("pulumi_aws is not installed: the data is derived from its sources")
    return Path(next(iter(spec.submodule_search_locations)))


def resources(source: str) -> Iterator[tuple[str, dict[str, str], str]]:
    """Yield type token, inputs with their annotations, and text of each resource class of a module."""
    found = list(_TOKEN.finditer(source))
    for index, match in enumerate(found):
        text = source[match.start() : found[index + 1].start() if index + 1 < len(found) else len(source)]
        init = _INIT.search(text)
        if init is None:
            raise ValueError(
                f"the class of {match[1]} has no _internal_init: the form of pulumi_aws has changed"
            )
        yield match[1], dict(_INPUT.findall(init[1])), text


def shape(inputs: dict[str, str]) -> str:
    """Return the form of tags: `map`, `list` of keys and values, or `none`."""
    annotation = inputs.get("tags", "").removeprefix("Optional[")
    if annotation.startswith(_DICTIONARY):
        return "map"
    # A list of the type's own tag class; other inputs named tags are filters.
    return "list" if re.match(r"Sequence\[.*TagArgs", annotation) else NO_TAGS


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def render() -> str:
    """Return the data as written to the file."""
    return json.dumps(build(), indent=0, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    DATA.write_text(render(), encoding="utf-8")
