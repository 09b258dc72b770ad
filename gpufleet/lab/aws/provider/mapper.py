"""Maps pulumi_aws properties to botocore parameters and botocore results back to properties.

Both directions follow a model: requests botocore's shape of the operation's input, results pulumi_aws'
declared type. Names match without regard to case (`vpcId`, `VpcId`), and a name without a match is an error,
so that no property is silently dropped. `Names` holds different spellings of a type.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from msgspec import Struct, field

from gpufleet.errors import GpufleetError
from gpufleet.lab.aws.provider import schema


class MappingError(GpufleetError):
    """A property without a counterpart in the AWS operation: the emulated AWS cannot use it."""


class Names(Struct, frozen=True):
    """Differences between pulumi_aws and AWS. Keys are dotted property paths without list indices.

    `rename` maps a property to AWS' name. `drop` are properties that this operation does not have. `encode`
    and `decode` replace the generic conversion of one value; `encode` gets the property's
    """

    rename: Mapping[str, str] = field(default_factory=dict)
    drop: Collection[str] = frozenset()
    encode: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    decode: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)


_NO_NAMES = Names()


def canonical(name: str) -> str:
    """Return a name without case and separators: `ipv6cidrblock` for `Ipv6CidrBlock`."""
    return name.replace("_", "").replace("-", "").lower()


def to_request(
    shape: Any, values: Mapping[str, Any], names: Names = _NO_NAMES, path: str = ""
) -> dict[str, Any]:
    """Return parameters for a `botocore.model.StructureShape`. MappingError if a property has none."""
    members = {canonical(member): member for member in shape.members}
    result: dict[str, Any] = {}
    for key, value in values.items():
        here = f"{path}.{key}" if path else key
        if value is None or key.startswith("__") or here in names.drop:
            continue
        wanted = names.rename.get(here, key)
        member = _find(members, wanted)
        if member is None:
            raise MappingError(
                f"property {here!r} has no counterpart in {shape.name} of the AWS API",
                remedy="remove the property, or use the Pulumi CLI with a real account",
            )
        encode = names.encode.get(here)
        result[member] = encode(value) if encode else _encode(shape.members[member], value, names, here)
    return result


def _find(members: Mapping[str, str], name: str) -> str | None:
    """Return the member of that name; a list may be singular on one side and plural on the other."""
    wanted = canonical(name)
    for candidate in (wanted, f"{wanted}s", wanted.removesuffix("s"), f"{wanted.removesuffix('y')}ies"):
        if candidate in members:
            return members[candidate]
    return None


def _encode(shape: Any, value: Any, names: Names, path: str) -> Any:
    kind = shape.type_name
    if kind == "structure" and isinstance(value, dict):
        return to_request(shape, value, names, path)
    if kind == "list":
        items = value if isinstance(value, list) else [value]
        return [_encode(shape.member, item, names, path) for item in items if item is not None]
    if kind == "map" and isinstance(value, dict):
        return {
            key: _encode(shape.value, item, names, f"{path}.*")
            for key, item in value.items()
            if not key.startswith("__")
        }
    return _encode_scalar(kind, value)


def _encode_scalar(kind: str, value: Any) -> Any:
    if kind == "boolean" and value in ("true", "false"):
        return value == "true"
    if kind in {"integer", "long"} and isinstance(value, str) and value.lstrip("-").isdigit():
        return int(value)
    if kind in {"float", "double"} and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind in {"float", "double"} and isinstance(value, str):
        return float(value)
    if kind == "string" and isinstance(value, bool):
        return str(value).lower()
    if kind == "string" and isinstance(value, int | float):
        return str(value)
    if kind == "string" and isinstance(value, dict):
        return json.dumps(value, sort_keys=True)
    return value


def from_response(
    properties: Mapping[str, schema.Type], data: Mapping[str, Any], names: Names = _NO_NAMES, path: str = ""
) -> dict[str, Any]:
    """Return properties of the declared types from AWS' data; missing ones are absent."""
    members = {canonical(member): member for member in data}
    result: dict[str, Any] = {}
    for key, kind in properties.items():
        here = f"{path}.{key}" if path else key
        member = _find(members, names.rename.get(here, key))
        if member is None or data[member] is None:
            continue
        decode = names.decode.get(here)
        decoded = decode(data[member]) if decode else _decode(kind, data[member], names, here)
        if decoded is not None:
            result[key] = decoded
    return result


def _decode(kind: schema.Type, value: Any, names: Names, path: str) -> Any:
    if isinstance(kind, str):
        return _decode_scalar(kind, value)
    if "array" in kind:
        items = value if isinstance(value, list) else [value]
        return [_decode(kind["array"], item, names, path) for item in items]
    if "map" in kind:
        return dict(value) if isinstance(value, Mapping) else tags_to_map(value)
    if isinstance(value, list):  # AWS has a list where pulumi_aws declares at most one block
        return _decode(kind, value[0], names, path) if value else None
    if not isinstance(value, Mapping):
        return None
    return from_response(schema.struct(kind["ref"]).properties, value, names, path)


def _decode_scalar(kind: str, value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if kind == "string" and isinstance(value, bool):
        return str(value).lower()
    if kind == "string" and isinstance(value, int | float):
        return str(int(value)) if float(value).is_integer() else str(value)
    if kind in {"integer", "number"} and isinstance(value, str):
        number = float(value)
        return int(number) if number.is_integer() else number
    if kind == "boolean" and isinstance(value, str):
        return value.lower() in {"true", "enable", "enabled"}
    return value


def tags_to_map(tags: Any) -> dict[str, str]:
    """Return AWS' tag list in any of its spellings, or its map, as a map."""
    if isinstance(tags, Mapping):
        return {str(key): str(value) for key, value in tags.items()}
    result: dict[str, str] = {}
    for tag in tags or ():
        fields = {canonical(key).removeprefix("tag"): value for key, value in tag.items()}
        result[str(fields["key"])] = str(fields.get("value") or "")
    return result


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return a map of tags as the list of Key and Value of most services."""
    return [{"Key": key, "Value": str(value)} for key, value in sorted(tags.items())]
