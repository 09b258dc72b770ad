"""Checks of inputs: the type, the name, the namespace, and paths that would leave the folder."""

from __future__ import annotations

from collections.abc import Mapping

from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.provider.experimental.provider import CheckFailure, CheckRequest, CheckResponse

from gpufleet.errors import InputError
from gpufleet.lab.aws.provider.wire import UNKNOWN, Props, plain_map, wrap
from gpufleet.lab.kubernetes import release
from gpufleet.lab.kubernetes.config import KubernetesProviderConfig
from gpufleet.lab.kubernetes.objects import (
    AUTONAMED,
    auto_name,
    is_name,
    is_namespaced,
    token_of,
    type_of,
)

Values = dict[str, PropertyValue]


def check(request: CheckRequest, config: KubernetesProviderConfig) -> CheckResponse:
    """Return the inputs with name and namespace set, and all errors in them."""
    if token_of(request) == release.TOKEN:
        return _check_release(request)
    try:
        api_version, kind = type_of(token_of(request))
    except InputError as error:
        return CheckResponse(request.new_inputs, [CheckFailure("", f"{error.message}; {error.remedy}")])
    values = dict(request.new_inputs)
    plain, old = plain_map(values), plain_map(request.old_inputs)
    failures = [
        CheckFailure(key, f"{key} is {plain[key]!r}, but the type is {token_of(request)}")
        for key, wanted in (("apiVersion", api_version), ("kind", kind))
        if plain.get(key, wanted) != wanted
    ]
    values |= {"apiVersion": PropertyValue(api_version), "kind": PropertyValue(kind)}
    meta = plain.get("metadata")
    if meta == UNKNOWN:
        return CheckResponse(values, failures)
    if meta is not None and not isinstance(meta, Mapping):
        return CheckResponse(values, [*failures, CheckFailure("metadata", "metadata is not a mapping")])
    found, added = _metadata(dict(meta or {}), old, request, config, is_namespaced(api_version, kind))
    values["metadata"] = _with(values.get("metadata"), added)
    return CheckResponse(values, [*failures, *_name_failures(found)])


def _metadata(
    meta: Props, old: Props, request: CheckRequest, config: KubernetesProviderConfig, namespaced: bool
) -> tuple[Props, Props]:
    """Return the resulting metadata, and what had to be added to it.

    A name that was generated before is kept for the lifetime of the object.
    """
    added: Props = {}
    if not meta.get("name") and not meta.get("generateName"):
        before = old.get("metadata") or {}
        kept = before.get("name") if (before.get("annotations") or {}).get(AUTONAMED) == "true" else None
        added["name"] = kept or auto_name(request.name, request.random_seed)
        added["annotations"] = {**(meta.get("annotations") or {}), AUTONAMED: "true"}
    if namespaced and config.namespace and not meta.get("namespace"):
        added["namespace"] = config.namespace
    return {**meta, **added}, added


def _with(metadata: PropertyValue | None, added: Props) -> PropertyValue:
    """Return the metadata property with values added; existing values keep their secrets and unknowns."""
    if metadata is None or not isinstance(metadata.value, Mapping):
        return wrap(added)
    if not added:
        return metadata
    return PropertyValue(
        {**metadata.value, **{key: wrap(value) for key, value in added.items()}}, is_secret=metadata.is_secret
    )


def _name_failures(meta: Props) -> list[CheckFailure]:
    if meta.get("generateName") and not meta.get("name"):
        return [
            CheckFailure(
                "metadata.generateName",
                "server-side apply has no generateName: without it, the name follows from the resource's",
            )
        ]
    return [
        CheckFailure(
            f"metadata.{key}", f"{meta[key]!r} is not a Kubernetes name: letters, digits, '-', '.', ':'"
        )
        for key in ("name", "namespace")
        if meta.get(key) not in (None, "", UNKNOWN) and not is_name(meta[key])
    ]


def _check_release(request: CheckRequest) -> CheckResponse:
    values = dict(request.new_inputs)
    plain, old = plain_map(values), plain_map(request.old_inputs)
    if not plain.get("name"):
        kept = old.get("name") if "name" in (old.get("__defaults") or ()) else None
        values["name"] = PropertyValue(kept or auto_name(request.name, request.random_seed))
        values["__defaults"] = wrap(["name"])
    failures = [CheckFailure(path, reason) for path, reason in release.problems(plain)]
    return CheckResponse(values, failures)
