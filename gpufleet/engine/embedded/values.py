"""Property values: Pulumi's wire format (protobuf Struct) to plain Python values and back.

In memory a value is None, bool, int, float, str, list, dict, `SecretValue`, `UNKNOWN` or `ResourceRef`.
Numbers on the wire are doubles; a whole one becomes an int, as JSON writes it. The signature keys are those
of Pulumi's property marshalling (sdk/go/common/resource, properties.go).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from google.protobuf import struct_pb2
from msgspec import Struct

from gpufleet.engine.api import SECRET
from gpufleet.engine.api import UNKNOWN as SHOWN_UNKNOWN
from gpufleet.engine.errors import UnsupportedError

SIG_KEY: Final = "4dabf18193072939515e22adb298388d"
SECRET_SIG: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a type tag, not a secret
ASSET_SIG: Final = "c44067f5952c0a294b673a41bacd8c17"
ARCHIVE_SIG: Final = "0def7320c3a5731c473e5ecbe6d01bc7"
RESOURCE_SIG: Final = "5cf8f73096256a8f31e491e813e4eb8e"
OUTPUT_SIG: Final = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
UNKNOWN_WIRE: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_UNKNOWN_WIRES: Final = frozenset(
    {
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # bool
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # number
        UNKNOWN_WIRE,  # string
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # array
        "030794c1-ac77-496b-92df-f27374a8bd58",  # asset
        "e48ece36-62e2-4504-bad9-02848725956a",  # archive
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # object
    }
)
_EXACT_INT: Final = 2**53


class UnknownValue:
    """The type of `UNKNOWN`: a value that only an update can compute. It is a singleton."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __reduce__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = UnknownValue()


@dataclass(slots=True, eq=True)
class SecretValue:
    """A secret value; `ciphertext` is its form in the state, so that it need not be encrypted again."""

    value: Any
    ciphertext: str = field(default="", compare=False)

    def __repr__(self) -> str:
        return "Secret(...)"


class ResourceRef(Struct, frozen=True):
    """A reference to a resource: its URN, and its id for a custom one (may be unknown)."""

    urn: str
    id: Any = None
    package_version: str = ""


Properties = dict[str, Any]


def decode(struct: struct_pb2.Struct, dependencies: dict[str, set[str]] | None = None) -> Properties:
    """Return the properties of a message; `dependencies` collects, by property, the URNs of output values."""
    result: Properties = {}
    for key, value in struct.fields.items():
        found: set[str] | None = None if dependencies is None else set()
        result[key] = _decode_value(value, found)
        if found and dependencies is not None:
            dependencies.setdefault(key, set()).update(found)
    return result


def _decode_value(value: struct_pb2.Value, dependencies: set[str] | None) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        text = value.string_value
        return UNKNOWN if len(text) == 36 and text in _UNKNOWN_WIRES else text
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() and abs(number) < _EXACT_INT else number
    if kind == "bool_value":
        return value.bool_value
    if kind == "struct_value":
        fields = value.struct_value.fields
        if SIG_KEY in fields:
            return _decode_signed(fields, dependencies)
        return {key: _decode_value(item, dependencies) for key, item in fields.items()}
    if kind == "list_value":
        return [_decode_value(item, dependencies) for item in value.list_value.values]
    return None


def _decode_signed(fields: Mapping[str, struct_pb2.Value], dependencies: set[str] | None) -> Any:
    signature = fields[SIG_KEY].string_value
    if signature == SECRET_SIG:
        return (
            as_secret(_decode_value(fields["value"], dependencies))
            if "value" in fields
            else SecretValue(None)
        )
    if signature == OUTPUT_SIG:
        if dependencies is not None and "dependencies" in fields:
            dependencies.update(item.string_value for item in fields["dependencies"].list_value.values)
        value = _decode_value(fields["value"], dependencies) if "value" in fields else UNKNOWN
        return as_secret(value) if "secret" in fields and fields["secret"].bool_value else value
    if signature == RESOURCE_SIG:
        return ResourceRef(
            urn=fields["urn"].string_value,
            id=_decode_value(fields["id"], dependencies) if "id" in fields else None,
            package_version=fields["packageVersion"].string_value if "packageVersion" in fields else "",
        )
    if signature == ASSET_SIG:
        return {key: _decode_value(item, dependencies) for key, item in fields.items()}
    if signature == ARCHIVE_SIG and not {"path", "uri"} & fields.keys():
        # One that was sent as its hash becomes an empty one with this hash, as in the CLI.
        return {"assets": {}} | {key: _decode_value(item, dependencies) for key, item in fields.items()}
    kind = "an archive of files" if signature == ARCHIVE_SIG else f"a value with signature {signature}"
    raise UnsupportedError(f"a property is {kind}")


def with_hashes(value: Any) -> Any:
    """Return a value of a program with hashes in its assets and archives.

    Values of a provider stay as they are: some return no hashes.
    """
    if isinstance(value, SecretValue):
        return as_secret(with_hashes(value.value))
    if isinstance(value, list):
        return [with_hashes(item) for item in value]
    if not isinstance(value, dict):
        return value
    items = {key: with_hashes(item) for key, item in value.items()}
    if items.get(SIG_KEY) == ASSET_SIG:
        return _with_hash(items)
    return _with_digest(items) if items.get(SIG_KEY) == ARCHIVE_SIG else items


def _with_hash(asset: dict[str, Any]) -> dict[str, Any]:
    """Return an asset with the SHA-256 of its content, by which later changes are detected."""
    if asset.get("hash"):
        return asset
    if asset.get("uri"):
        raise UnsupportedError("a property is a remote asset")
    content = Path(asset["path"]).read_bytes() if asset.get("path") else str(asset.get("text", "")).encode()
    return {**asset, "hash": hashlib.sha256(content).hexdigest()}


def _with_digest(archive: dict[str, Any]) -> dict[str, Any]:
    """Return an archive of assets with a digest of its names and contents. It is not Pulumi's own, which
    covers the packed form: an update of an imported state sends the archive again."""
    if archive.get("hash"):
        return archive
    digest = hashlib.sha256()
    for name, asset in sorted(archive["assets"].items()):
        digest.update(f"{name}\0{asset['hash']}\n".encode())
    return {**archive, "hash": digest.hexdigest()}


def encode(
    properties: Mapping[str, Any], *, secrets: bool = True, resources: bool = True, contents: bool = True
) -> struct_pb2.Struct:
    """Return the message of `properties`; without `secrets` or `resources` those become plain values, and
    without `contents` assets and archives are sent as their hashes.
    """
    struct = struct_pb2.Struct()
    fields = struct.fields
    for key, value in properties.items():
        _encode_into(fields[key], value, secrets, resources, contents)
    return struct


def _encode_into(
    target: struct_pb2.Value, value: Any, secrets: bool, resources: bool, contents: bool
) -> None:
    if isinstance(value, str):
        target.string_value = value
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, (int, float)):
        target.number_value = value
    elif value is None:
        target.null_value = struct_pb2.NULL_VALUE
    elif isinstance(value, dict):
        target.struct_value.SetInParent()
        fields = target.struct_value.fields
        if not contents and value.get(SIG_KEY) in (ASSET_SIG, ARCHIVE_SIG):
            value = {key: value[key] for key in (SIG_KEY, "hash") if key in value}
        for key, item in value.items():
            _encode_into(fields[key], item, secrets, resources, contents)
    elif isinstance(value, (list, tuple)):
        target.list_value.SetInParent()
        values = target.list_value.values
        for item in value:
            _encode_into(values.add(), item, secrets, resources, contents)
    elif value is UNKNOWN:
        target.string_value = UNKNOWN_WIRE
    elif isinstance(value, SecretValue):
        if secrets:
            fields = target.struct_value.fields
            fields[SIG_KEY].string_value = SECRET_SIG
            _encode_into(fields["value"], value.value, secrets, resources, contents)
        else:
            _encode_into(target, value.value, secrets, resources, contents)
    elif isinstance(value, ResourceRef):
        _encode_reference(target, value, secrets, resources)
    else:
        raise TypeError(f"a property value of type {type(value).__name__} cannot be sent")


def _encode_reference(target: struct_pb2.Value, ref: ResourceRef, secrets: bool, resources: bool) -> None:
    if not resources:
        _encode_into(target, ref.urn if ref.id is None else ref.id, secrets, resources, True)
        return
    fields = target.struct_value.fields
    fields[SIG_KEY].string_value = RESOURCE_SIG
    fields["urn"].string_value = ref.urn
    if ref.id is not None:
        _encode_into(fields["id"], ref.id, secrets, resources, True)
    if ref.package_version:
        fields["packageVersion"].string_value = ref.package_version


def as_secret(value: Any) -> SecretValue:
    """Return `value` as a secret (a secret stays unchanged)."""
    return value if isinstance(value, SecretValue) else SecretValue(value)


def contains_secret(value: Any) -> bool:
    """Return whether any part of `value` is secret."""
    if isinstance(value, SecretValue):
        return True
    if isinstance(value, dict):
        return any(contains_secret(item) for item in value.values())
    return isinstance(value, list) and any(contains_secret(item) for item in value)


def contains_unknown(value: Any) -> bool:
    """Return whether any part of `value` is unknown."""
    if value is UNKNOWN:
        return True
    if isinstance(value, SecretValue):
        return contains_unknown(value.value)
    if isinstance(value, dict):
        return any(contains_unknown(item) for item in value.values())
    if isinstance(value, ResourceRef):
        return value.id is UNKNOWN
    return isinstance(value, list) and any(contains_unknown(item) for item in value)


def reveal(value: Any) -> Any:
    """Return `value` with every secret replaced by its content."""
    if isinstance(value, SecretValue):
        return reveal(value.value)
    if isinstance(value, dict):
        return {key: reveal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [reveal(item) for item in value]
    return value


def present(value: Any, *, show_secrets: bool = False) -> Any:
    """Return `value` as plain Python for reports, with `api.UNKNOWN` and `api.SECRET` as placeholders."""
    if isinstance(value, SecretValue):
        return present(value.value, show_secrets=True) if show_secrets else SECRET
    if value is UNKNOWN:
        return SHOWN_UNKNOWN
    if isinstance(value, dict):
        return {key: present(item, show_secrets=show_secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [present(item, show_secrets=show_secrets) for item in value]
    if isinstance(value, ResourceRef):
        return value.urn if value.id is None else present(value.id)
    return value


def keep_secrets_of(outputs: Properties, inputs: Mapping[str, Any]) -> None:
    """Mark in `outputs` what is secret under the same key in `inputs`, for providers that drop the mark."""
    for key, given in inputs.items():
        if key not in outputs:
            continue
        out = outputs[key]
        if isinstance(out, dict) and isinstance(given, dict):
            keep_secrets_of(out, given)
        elif not isinstance(out, SecretValue) and contains_secret(given):
            outputs[key] = SecretValue(out)
