"""The schema of a checkpoint and of journal lines, validated as a whole before use.

A state can come from an edited export, another tool or a damaged disk. Fields that this engine does not use
may have any value; in those that it uses, null means absent, as in Go.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    create_model,
)

from gpufleet.engine.embedded.values import RESOURCE_SIG, SECRET_SIG, SIG_KEY

_STRICT = ConfigDict(strict=True, extra="ignore")
_Urn = Annotated[str, StringConstraints(pattern=r"(?s)^urn:pulumi:.*?::.*?::.*?::.")]
_Place = Annotated[int, Field(ge=0)]
_OPTIONAL: dict[str, Any] = {
    **dict.fromkeys(("protect", "external", "delete", "pendingReplacement", "retainOnDelete"), bool),
    **dict.fromkeys(("id", "parent", "provider", "importID", "deletedWith"), str),
    **dict.fromkeys(("created", "modified", "sourcePosition"), str),
    **dict.fromkeys(("dependencies", "initErrors", "additionalSecretOutputs", "aliases"), list[str]),
    **dict.fromkeys(("ignoreChanges", "replaceOnChanges"), list[str]),
    **dict.fromkeys(("inputs", "outputs"), dict[str, Any]),
    "propertyDependencies": dict[str, list[str] | None],
    "customTimeouts": dict[str, float],
}
_FIELDS: dict[str, Any] = {
    "urn": (_Urn, ...),
    "type": (str, ...),
    "custom": (bool, ...),
    **{name: (kind | None, None) for name, kind in _OPTIONAL.items()},
}
_Resource: Any = create_model("_Resource", __config__=_STRICT, **_FIELDS)


class _Operation(BaseModel):
    model_config = _STRICT
    type: str
    resource: _Resource


class _Secrets(BaseModel):
    model_config = _STRICT
    type: str | None = None
    state: dict[str, Any] | None = None


class _Deployment(BaseModel):
    model_config = _STRICT
    resources: list[_Resource] | None = None
    pending_operations: list[_Operation] | None = None
    secrets_providers: _Secrets | None = None


class _Checkpoint(BaseModel):
    model_config = _STRICT
    deployment: _Deployment


class _Base(BaseModel):
    model_config = _STRICT
    kind: Literal["base"]
    digest: str


class _Begin(BaseModel):
    model_config = _STRICT
    kind: Literal["begin"]
    n: int
    type: str
    resource: _Resource


class _Step(BaseModel):
    model_config = ConfigDict(extra="ignore")  # pairs are lists in JSON
    kind: Literal["step"]
    n: int = -1
    put: tuple[int, _Resource] | None = None
    same: tuple[int, _Place] | None = None
    drop: list[_Place] = []
    old: list[tuple[_Place, _Resource]] = []


class _Outputs(BaseModel):
    model_config = _STRICT
    kind: Literal["outputs"]
    key: int
    outputs: dict[str, Any]


class _Salt(BaseModel):
    model_config = _STRICT
    kind: Literal["salt"]
    salt: str


_RECORD: TypeAdapter[Any] = TypeAdapter(
    Annotated[_Base | _Begin | _Step | _Outputs | _Salt, Field(discriminator="kind")]
)


def checked_deployment(data: Any) -> dict[str, Any]:
    """Return the deployment of a checkpoint without nulls in resources; a `ValueError` reports an error."""
    try:
        _Checkpoint.model_validate(data)
    except ValidationError as error:
        raise ValueError(_message(error)) from None
    deployment: dict[str, Any] = data["deployment"]
    deployment["resources"] = [_checked(item, "resources") for item in deployment.get("resources") or ()]
    for operation in deployment.get("pending_operations") or ():
        operation["resource"] = _checked(operation["resource"], "pending_operations")
    return deployment


def is_record(data: Any) -> bool:
    """Return whether a line of a journal is valid."""
    try:
        _RECORD.validate_python(data)
    except ValidationError:
        return False
    return True


def _checked(resource: dict[str, Any], where: str) -> dict[str, Any]:
    for name in ("inputs", "outputs"):
        for key, value in (resource.get(name) or {}).items():
            _check_value(value, f"deployment.{where}: {resource['urn']}: {name}.{key}")
    return {key: value for key, value in resource.items() if value is not None or key not in _OPTIONAL}


def _check_value(value: Any, where: str) -> None:
    """Check that secrets and resource references are complete."""
    if isinstance(value, list):
        for item in value:
            _check_value(item, where)
    if not isinstance(value, dict):
        return
    signature = value.get(SIG_KEY)
    if signature == SECRET_SIG and not _opens(value):
        raise ValueError(f"{where} is a secret without ciphertext")
    if signature == RESOURCE_SIG and not isinstance(value.get("urn"), str):
        raise ValueError(f"{where} is a reference to a resource without its URN")
    for item in value.values():
        _check_value(item, where)


def _opens(secret: dict[str, Any]) -> bool:
    """Return whether a secret has a ciphertext, or a plain JSON text."""
    if "plaintext" not in secret:
        return isinstance(secret.get("ciphertext"), str)
    try:
        json.loads(secret["plaintext"])
    except (ValueError, TypeError):
        return False
    return True


def _message(error: ValidationError) -> str:
    """Return the first error with its place: `deployment.resources[3].type is missing`."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    if first["type"] == "missing":
        return f"{place} is missing"
    message = first["msg"].replace("Input should be", "should be", 1)
    if first["type"] == "string_pattern_mismatch":
        message = "is not a URN (urn:pulumi:<stack>::<project>::<type>::<name>)"
    return f"{place} {message}" if place else f"it {message}"
