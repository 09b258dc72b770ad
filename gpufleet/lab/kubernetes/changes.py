"""Differences between two sets of inputs, those that force a replacement, and drift."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct
from pulumi.provider.experimental.provider import DiffResponse, PropertyDiff, PropertyDiffKind

from gpufleet.lab.aws.provider.wire import UNKNOWN, Props
from gpufleet.lab.kubernetes.config import KubernetesProviderConfig
from gpufleet.lab.kubernetes.objects import AUTONAMED, DEFAULT_NAMESPACE, ref_of

Kind = Literal["add", "delete", "update"]

_SELECTOR = ("spec.selector",)
_IDENTITY = ("apiVersion", "kind", "metadata.name", "metadata.namespace")
# The real provider's list (provider/pkg/provider/diff.go of pulumi-kubernetes).
_FORCED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("apps", "DaemonSet"): _SELECTOR,
    ("apps", "Deployment"): _SELECTOR,
    ("apps", "StatefulSet"): (
        "spec.podManagementPolicy", "spec.revisionHistoryLimit", "spec.selector", "spec.serviceName",
        "spec.volumeClaimTemplates",
    ),
    ("batch", "Job"): ("spec.completions", "spec.parallelism", "spec.selector", "spec.template"),
    ("", "PersistentVolumeClaim"): (
        "spec.accessModes", "spec.selector", "spec.storageClassName", "spec.volumeName",
    ),
    ("", "Pod"): ("spec",),
    ("", "ResourceQuota"): ("spec.scopes",),
    ("", "Service"): ("spec.clusterIP",),
    ("policy", "PodDisruptionBudget"): ("spec",),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): ("roleRef",),
    ("rbac.authorization.k8s.io", "RoleBinding"): ("roleRef",),
    ("storage.k8s.io", "StorageClass"): ("parameters", "provisioner"),
    # The API server rejects changes of these in place, which the real provider detects only then.
    ("scheduling.k8s.io", "PriorityClass"): ("value", "preemptionPolicy"),
}  # fmt: skip


class FieldDifference(Struct, frozen=True):
    """One difference: its path as Pulumi writes it, its dotted path without indices, and its kind."""

    path: str
    dotted: str
    kind: Kind


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[FieldDifference]:
    """Return every difference, except the engine's own keys. A null equals an absent value."""
    return list(_diff(old, new, "", ""))


def _diff(old: Any, new: Any, path: str, dotted: str) -> Iterator[FieldDifference]:
    if old == new and UNKNOWN not in (old, new):
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            if key.startswith("__") and not path:
                continue
            below = f"{dotted}.{key}" if dotted else key
            yield from _diff(old.get(key), new.get(key), _step(path, key), below)
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            before = old[index] if index < len(old) else None
            after = new[index] if index < len(new) else None
            yield from _diff(before, after, f"{path}[{index}]", dotted)
    elif old is None and new is not None:
        yield FieldDifference(path, dotted, "add")
    elif new is None and old is not None:
        yield FieldDifference(path, dotted, "delete")
    elif old is not None:
        yield FieldDifference(path, dotted, "update")


def _step(path: str, key: str) -> str:
    if not path:
        return key
    return f"{path}.{key}" if key.replace("-", "_").isidentifier() and "-" not in key else f'{path}["{key}"]'


def forced_paths(manifest: Mapping[str, Any], config: KubernetesProviderConfig) -> tuple[str, ...]:
    """Return dotted paths whose change needs a new object; a path includes everything below it."""
    api_version, kind = str(manifest.get("apiVersion", "")), str(manifest.get("kind", ""))
    group = api_version.rpartition("/")[0]
    forced = _IDENTITY + _FORCED.get((group, kind), ())
    fixed = bool(manifest.get("immutable"))
    if (group, kind) == ("", "Secret"):
        forced += ("type",) if config.mutable_secrets and not fixed else ("type", "stringData", "data")
    if (group, kind) == ("", "ConfigMap") and (fixed or not config.mutable_config_maps):
        forced += ("binaryData", "data")
    return forced


def diff(old: Props, new: Props, config: KubernetesProviderConfig, ignore: list[str]) -> DiffResponse:
    """Return the exact difference between two sets of inputs, and whether it can be made in place."""
    old, new = _placed(old), _placed(new)
    changes = [change for change in differences(old, new) if not _ignored(change, ignore)]
    forced = forced_paths(new, config)
    replacing = {change.path: _below(change.dotted, forced) for change in changes}
    replaces = sorted(path for path, hard in replacing.items() if hard)
    return DiffResponse(
        changes=bool(changes),
        diffs=sorted({change.path.partition(".")[0].partition("[")[0] for change in changes}),
        replaces=replaces,
        delete_before_replace=bool(replaces) and _collides(old, new),
        detailed_diff={
            change.path: PropertyDiff(_kind(change.kind, replacing[change.path]), input_diff=True)
            for change in changes
        },
    )


def _kind(kind: Kind, hard: bool) -> PropertyDiffKind:
    return PropertyDiffKind[f"{kind.upper()}_REPLACE" if hard else kind.upper()]


def _placed(inputs: Props) -> Props:
    """Return the inputs with their effective namespace: setting `default` is not a change."""
    meta = inputs.get("metadata")
    if not isinstance(meta, Mapping) or not ref_of(inputs).namespace:
        return inputs
    return {**inputs, "metadata": {**meta, "namespace": meta.get("namespace") or DEFAULT_NAMESPACE}}


def _ignored(change: FieldDifference, ignore: list[str]) -> bool:
    return any(
        change.path == path
        or change.path.startswith((f"{path}.", f"{path}["))
        or _below(change.dotted, (path,))
        for path in ignore
    )


def _below(dotted: str, paths: tuple[str, ...]) -> bool:
    return any(dotted == path or dotted.startswith(f"{path}.") for path in paths)


def _collides(old: Props, new: Props) -> bool:
    """Return whether the new object would conflict with the old one: same place and a fixed name."""
    meta = new.get("metadata") or {}
    autonamed = (meta.get("annotations") or {}).get(AUTONAMED) == "true"
    return not autonamed and ref_of(old) == ref_of(new)


def drifted(declared: Props, before: Mapping[str, Any], now: Mapping[str, Any]) -> Props:
    """Return the inputs that describe the existing object.

    `before` is the object in the state, `now` the one just read. A declared value whose live value has not
    changed stays as declared (the server writes `1000m` as `1`), and unset values stay unset.
    """
    result = {}
    for key, value in declared.items():
        if key.startswith("__"):
            result[key] = value
            continue
        seen = _follow(value, before.get(key), now.get(key))
        if seen is not None:
            result[key] = seen
    return result


def _follow(declared: Any, before: Any, now: Any) -> Any:
    if before == now:
        return declared
    if isinstance(declared, Mapping) and isinstance(now, Mapping):
        was = before if isinstance(before, Mapping) else {}
        found = {key: _follow(value, was.get(key), now.get(key)) for key, value in declared.items()}
        return {key: value for key, value in found.items() if value is not None}
    if isinstance(declared, list) and isinstance(now, list) and len(declared) == len(now):
        same = isinstance(before, list) and len(before) == len(now)
        items = before if same else [None] * len(now)
        return [_follow(*triple) for triple in zip(declared, items, now, strict=True)]
    return now
