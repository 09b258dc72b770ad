"""One resource of the state, and its form in Pulumi's deployment JSON (version 3)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from gpufleet.engine.embedded.urns import split_reference
from gpufleet.engine.embedded.values import (
    RESOURCE_SIG,
    SECRET_SIG,
    SIG_KEY,
    UNKNOWN,
    UNKNOWN_WIRE,
    Properties,
    ResourceRef,
    SecretValue,
)


class Cipher(Protocol):
    """Encrypts secrets for storage."""

    def encrypt(self, plaintext: str) -> str:
        """Return the value as stored on disk."""
        ...

    def decrypt(self, ciphertext: str) -> str:
        """Return the plaintext of a stored value."""
        ...


@dataclass(slots=True)
class ResourceState:
    """A resource: its inputs, its outputs and its dependencies.

    The fields are those of `ResourceV3` in Pulumi's checkpoint. `extra` keeps fields that this engine does
    not use, so that a checkpoint of the CLI stays unchanged. Timeouts are in seconds, by operation.
    """

    urn: str
    type: str
    custom: bool
    id: str = ""
    inputs: Properties = field(default_factory=dict)
    outputs: Properties = field(default_factory=dict)
    parent: str = ""
    protect: bool = False
    external: bool = False
    dependencies: list[str] = field(default_factory=list)
    init_errors: list[str] = field(default_factory=list)
    provider: str = ""
    property_dependencies: dict[str, list[str]] = field(default_factory=dict)
    delete: bool = False
    pending_replacement: bool = False
    additional_secret_outputs: list[str] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)
    custom_timeouts: dict[str, float] = field(default_factory=dict)
    import_id: str = ""
    retain_on_delete: bool = False
    deleted_with: str = ""
    created: str = ""
    modified: str = ""
    source_position: str = ""
    ignore_changes: list[str] = field(default_factory=list)
    replace_on_changes: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)

    def copy(self) -> ResourceState:
        """Return a copy whose properties can be changed independently."""
        return replace(self, inputs=dict(self.inputs), outputs=dict(self.outputs))

    def needs(self) -> set[str]:
        """Return the URNs that must exist before this resource: dependencies, parent, provider."""
        urns = set(self.dependencies)
        for listed in self.property_dependencies.values():
            urns.update(listed)
        urns.update((self.parent, self.deleted_with))
        if self.provider:
            urns.add(split_reference(self.provider)[0])
        urns.discard("")
        return urns


# The order in which Pulumi writes the fields of a resource.
_JSON_NAMES = {
    "urn": "urn",
    "custom": "custom",
    "delete": "delete",
    "id": "id",
    "type": "type",
    "inputs": "inputs",
    "outputs": "outputs",
    "parent": "parent",
    "protect": "protect",
    "external": "external",
    "dependencies": "dependencies",
    "init_errors": "initErrors",
    "provider": "provider",
    "property_dependencies": "propertyDependencies",
    "pending_replacement": "pendingReplacement",
    "additional_secret_outputs": "additionalSecretOutputs",
    "aliases": "aliases",
    "custom_timeouts": "customTimeouts",
    "import_id": "importID",
    "retain_on_delete": "retainOnDelete",
    "deleted_with": "deletedWith",
    "created": "created",
    "modified": "modified",
    "source_position": "sourcePosition",
    "ignore_changes": "ignoreChanges",
    "replace_on_changes": "replaceOnChanges",
}
_ALWAYS = frozenset({"urn", "custom", "type"})
_KNOWN = frozenset(_JSON_NAMES.values())
assert {item.name for item in fields(ResourceState)} == {*_JSON_NAMES, "extra"}  # noqa: S101


def to_json(state: ResourceState, cipher: Cipher) -> dict[str, Any]:
    """Return the resource as the checkpoint stores it: secrets encrypted, empty fields omitted."""
    result: dict[str, Any] = {}
    for attribute, name in _JSON_NAMES.items():
        value = getattr(state, attribute)
        if attribute in ("inputs", "outputs"):
            if value:
                result[name] = {key: _value_to_json(item, cipher) for key, item in value.items()}
        elif value or attribute in _ALWAYS:
            result[name] = value
    result.update(state.extra)
    return result


def from_json(data: dict[str, Any], cipher: Cipher) -> ResourceState:
    """Return a resource of a checkpoint; unknown fields are kept in `extra`."""
    arguments: dict[str, Any] = {}
    for attribute, name in _JSON_NAMES.items():
        if name not in data:
            continue
        value = data[name]
        if attribute in ("inputs", "outputs"):
            value = {key: _value_from_json(item, cipher) for key, item in (value or {}).items()}
        arguments[attribute] = value
    arguments["extra"] = {key: value for key, value in data.items() if key not in _KNOWN}
    return ResourceState(**arguments)


def _value_to_json(value: Any, cipher: Cipher) -> Any:
    if isinstance(value, SecretValue):
        sealed = value.ciphertext
        if not sealed or cipher is _PLAIN:
            plain = json.dumps(_value_to_json(value.value, _PLAIN), separators=(",", ":"), ensure_ascii=False)
            sealed = cipher.encrypt(plain)
            if cipher is not _PLAIN:
                value.ciphertext = sealed
        return {SIG_KEY: SECRET_SIG, "ciphertext": sealed}
    if isinstance(value, dict):
        return {key: _value_to_json(item, cipher) for key, item in value.items()}
    if isinstance(value, list):
        return [_value_to_json(item, cipher) for item in value]
    if value is UNKNOWN:
        return UNKNOWN_WIRE
    if isinstance(value, ResourceRef):
        reference: dict[str, Any] = {
            SIG_KEY: RESOURCE_SIG,
            "urn": value.urn,
            "packageVersion": value.package_version,
        }
        if value.id is not None:
            reference["id"] = _value_to_json(value.id, cipher)
        return reference
    return value


def _value_from_json(value: Any, cipher: Cipher) -> Any:
    if isinstance(value, dict):
        signature = value.get(SIG_KEY)
        if signature == SECRET_SIG:
            if "plaintext" in value:
                return SecretValue(_value_from_json(json.loads(value["plaintext"]), _PLAIN))
            sealed = value["ciphertext"]
            inner = _value_from_json(json.loads(cipher.decrypt(sealed)), _PLAIN)
            return SecretValue(inner, "" if cipher is _PLAIN else sealed)
        if signature == RESOURCE_SIG:
            return ResourceRef(value["urn"], value.get("id"), value.get("packageVersion", ""))
        return {key: _value_from_json(item, cipher) for key, item in value.items()}
    if isinstance(value, list):
        return [_value_from_json(item, cipher) for item in value]
    return UNKNOWN if value == UNKNOWN_WIRE else value


class _PlainCipher:
    """Inside a secret everything is encrypted together, so single values are not."""

    def encrypt(self, plaintext: str) -> str:
        return plaintext

    def decrypt(self, ciphertext: str) -> str:
        return ciphertext


_PLAIN: Cipher = _PlainCipher()


def timestamp() -> str:
    """Return the current time, as Go writes it in JSON (RFC 3339, UTC)."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
