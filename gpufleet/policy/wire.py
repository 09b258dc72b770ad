"""Conversion between structures of the Analyzer protocol and plain values, in one pass.

`google.protobuf.json_format` needs two passes and about three times as long. The signatures are those of
Pulumi (sdk/go/common/resource/properties.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from google.protobuf import struct_pb2
from pulumi.runtime.proto import analyzer_pb2

from gpufleet.resources.resource import UNKNOWN, ProviderInstance, Resource, ResourceOptions

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - Pulumi's signature of secrets
OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
UNKNOWNS = frozenset(
    {
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)
UNKNOWN_STRING = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def properties(fields: struct_pb2.Struct, secrets: set[str] | None = None) -> dict[str, Any]:
    """Return properties as plain values and add the paths of secrets to `secrets`."""
    found = set() if secrets is None else secrets
    # items() of a protobuf map is slower: it calls an abstract class for each entry.
    entries = fields.fields
    return {key: _plain(entries[key], key, found) for key in entries}


def _plain(value: struct_pb2.Value, path: str, secrets: set[str]) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return UNKNOWN if value.string_value in UNKNOWNS else value.string_value
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "bool_value":
        return value.bool_value
    if kind == "list_value":
        return [
            _plain(item, f"{path}[{index}]", secrets) for index, item in enumerate(value.list_value.values)
        ]
    if kind != "struct_value":
        return None
    fields = value.struct_value.fields
    mark = fields[SIGNATURE].string_value if SIGNATURE in fields else ""
    if mark == SECRET:
        secrets.add(path)
        return _plain(fields["value"], path, secrets)
    if mark == OUTPUT:
        if "secret" in fields and fields["secret"].bool_value:
            secrets.add(path)
        return _plain(fields["value"], path, secrets) if "value" in fields else UNKNOWN
    return {key: _plain(fields[key], f"{path}.{key}", secrets) for key in fields if key != SIGNATURE}


def write(into: struct_pb2.Struct, key: str, value: Any, secrets: frozenset[str]) -> None:
    """Set a property to plain values. Values at the paths in `secrets` stay secret."""
    into.fields[key].CopyFrom(_value(value, key, secrets))


def _value(value: Any, path: str, secrets: frozenset[str]) -> struct_pb2.Value:
    made = struct_pb2.Value()
    if path in secrets:
        inner = _value(value, path, secrets - {path})
        made.struct_value.fields[SIGNATURE].string_value = SECRET
        made.struct_value.fields["value"].CopyFrom(inner)
    elif value is UNKNOWN:
        made.string_value = UNKNOWN_STRING
    elif value is None:
        made.null_value = struct_pb2.NULL_VALUE
    elif isinstance(value, bool):
        made.bool_value = value
    elif isinstance(value, (int, float)):
        made.number_value = value
    elif isinstance(value, str):
        made.string_value = value
    elif isinstance(value, Mapping):
        made.struct_value.SetInParent()
        for key, item in value.items():
            made.struct_value.fields[str(key)].CopyFrom(_value(item, f"{path}.{key}", secrets))
    else:
        made.list_value.SetInParent()
        made.list_value.values.extend(
            _value(item, f"{path}[{index}]", secrets) for index, item in enumerate(value)
        )
    return made


def resource(request: Any, declared: Resource | None = None) -> Resource:
    """Return the resource of an `AnalyzeRequest`, or of an `AnalyzeStackRequest` merged with declared
    inputs."""
    inputs = declared.props if declared is not None else None
    secrets: set[str] = set(declared.secrets) if declared is not None else set()
    props = properties(request.properties, secrets)
    options = request.options
    in_stack = hasattr(request, "propertyDependencies")
    return Resource(
        type=request.type,
        name=request.name,
        urn=request.urn,
        props={**props, **inputs} if inputs else props,
        inputs=inputs if in_stack else props,
        options=ResourceOptions(
            protect=options.protect,
            ignore_changes=tuple(options.ignoreChanges),
            delete_before_replace=options.deleteBeforeReplace if options.deleteBeforeReplaceDefined else None,
            aliases=tuple(options.aliases),
        ),
        provider=_provider(request),
        parent=request.parent if in_stack else options.parent,
        dependencies=tuple(request.dependencies) if in_stack else (),
        property_dependencies=(
            {key: tuple(each.urns) for key, each in request.propertyDependencies.items()} if in_stack else {}
        ),
        secrets=frozenset(secrets),
    )


def _provider(request: Any) -> ProviderInstance | None:
    if not request.HasField("provider"):
        return None
    # Each resource contains its provider, and a stack has only a few.
    return _provider_of(request.provider.SerializeToString(deterministic=True))


@lru_cache(maxsize=256)
def _provider_of(message: bytes) -> ProviderInstance:
    provider = analyzer_pb2.AnalyzerProviderResource.FromString(message)
    return ProviderInstance(provider.type, provider.name, provider.urn, properties(provider.properties))
