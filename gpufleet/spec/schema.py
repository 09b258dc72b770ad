"""The JSON schema of the fleet file, for editors: completion, descriptions and most mistakes.

It describes a file as a YAML editor reads it (`1.35` is a number there), takes everything that the
loader takes, and leaves to the loader what JSON Schema cannot say. A file that extends another may
leave anything out and may remove values with `null`.
"""

from __future__ import annotations

from collections.abc import Container
from copy import deepcopy
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_jsonable_python

from gpufleet.spec.base import Model
from gpufleet.spec.extends import NAMED_BY
from gpufleet.spec.models import FleetSpec

PARTIAL = "Partial"

_EXTENDS = {
    "type": "string",
    "description": "One other file, relative to this one, that this file is merged over.",
    "examples": ["../base.yaml"],
}


class _Schema(GenerateJsonSchema):
    def encode_default(self, dft: Any) -> Any:
        """A default as the fleet file has it: a quantity as its text."""
        return super().encode_default(to_jsonable_python(dft, fallback=str))


def fleet_schema() -> dict[str, Any]:
    """The schema as JSON data (draft 2020-12)."""
    full = FleetSpec.model_json_schema(schema_generator=_Schema)
    definitions = full.pop("$defs")
    definitions["FleetSpec"] = full
    for name, kinds in _choices(Model, definitions):
        definitions[name]["oneOf"] = [{"required": [kind]} for kind in kinds]
    partial = {f"{PARTIAL}{name}": _partial(definition) for name, definition in definitions.items()}
    partial[f"{PARTIAL}FleetSpec"]["properties"]["extends"] = _EXTENDS
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "title": "gpufleet fleet file",
        "description": "One environment of one GPU fleet: cloud sites, racks, storage, budget.",
        "if": {"type": "object", "required": ["extends"]},
        "then": {"$ref": f"#/$defs/{PARTIAL}FleetSpec"},
        "else": {"$ref": "#/$defs/FleetSpec"},
        "$defs": {**definitions, **partial},
    }


def _choices(model: type[Model], known: Container[str]) -> list[tuple[str, tuple[str, ...]]]:
    found: list[tuple[str, tuple[str, ...]]] = []
    for child in model.__subclasses__():
        if child.exactly_one_of and child.__name__ in known:
            found.append((child.__name__, child.exactly_one_of))
        found += _choices(child, known)
    return found


def _partial(definition: dict[str, Any]) -> dict[str, Any]:
    """A definition of which anything may be missing or null, for files that extend another."""
    loose: dict[str, Any] = _renamed(deepcopy(definition))
    keys = set(NAMED_BY.values()) & set(loose.get("required", []))
    loose.pop("required", None)
    loose.pop("oneOf", None)
    if keys:
        loose["required"] = sorted(keys)
    for name, field in loose.get("properties", {}).items():
        if name not in keys:
            loose["properties"][name] = {"anyOf": [field, {"type": "null"}]}
            if "description" in field:
                loose["properties"][name]["description"] = field["description"]
    return loose


def _renamed(node: Any) -> Any:
    """The same schema with every reference pointing at the partial definitions."""
    if isinstance(node, dict):
        return {
            key: value.replace("#/$defs/", f"#/$defs/{PARTIAL}") if key == "$ref" else _renamed(value)
            for key, value in node.items()
        }
    return [_renamed(each) for each in node] if isinstance(node, list) else node
