"""Kubernetes objects as plain values: references, type tokens, and fields that the server adds."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from gpufleet.errors import InputError

Manifest = dict[str, Any]

AUTONAMED = "pulumi.com/autonamed"
DEFAULT_NAMESPACE = "default"
_RANDOM_DIGITS = 8

# Kinds without a namespace, of the groups that every API server has.
_CLUSTER_SCOPED = frozenset({
    "APIService", "CertificateSigningRequest", "ClusterRole", "ClusterRoleBinding", "ClusterTrustBundle",
    "ComponentStatus", "CSIDriver", "CSINode", "CustomResourceDefinition", "DeviceClass", "FlowSchema",
    "IngressClass", "IPAddress", "MutatingWebhookConfiguration", "Namespace", "Node", "PersistentVolume",
    "PriorityClass", "PriorityLevelConfiguration", "ResourceSlice", "RuntimeClass", "ServiceCIDR",
    "StorageClass", "StorageVersion", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration", "VolumeAttachment", "VolumeAttributesClass",
})  # fmt: skip
# Fields that the API server adds to an object's metadata.
_SERVER_METADATA = frozenset({
    "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields",
    "resourceVersion", "selfLink", "uid",
})  # fmt: skip
# The server lower-cases and checks names; here a name only must not leave its folder or path.
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]{0,251}[A-Za-z0-9])?")


class Ref(Struct, frozen=True):
    """The reference of an object. `namespace` is empty for a kind without one."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def id(self) -> str:
        """Return the object's id in the state: `namespace/name`, or only the name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


class TypedRequest(Protocol):
    """A request about a resource."""

    @property
    def type(self) -> str:
        """Return the type part of the resource's URN: its parents' types and its own, joined by `$`."""
        ...


def token_of(request: TypedRequest) -> str:
    """Return the type token of a request's resource."""
    return request.type.rpartition("$")[2]


def type_of(token: str) -> tuple[str, str]:
    """Return (apiVersion, kind) of a token such as `kubernetes:apps/v1:DaemonSet`.

    Raises InputError for types that are not objects: charts, YAML files and kustomizations, which a program
    or plugin has to fetch, and lists and patches, which stand for others.
    """
    parts = token.split(":")
    if len(parts) != 3 or parts[0] != "kubernetes":
        raise InputError(f"{token!r} is not a type of the kubernetes provider", remedy="correct the type")
    group_version, kind = parts[1], parts[2]
    reason = _refusal(group_version, kind)
    if reason:
        raise InputError(f"{token} does not work in the sandbox: {reason[0]}", remedy=reason[1])
    return group_version.removeprefix("core/"), kind


def _refusal(group_version: str, kind: str) -> tuple[str, str] | None:
    if group_version.startswith("helm.sh/"):
        return "its charts have to be fetched and rendered", "use kubernetes:helm.sh/v3:Release, or objects"
    if group_version.split("/")[0] in ("yaml", "kustomize"):
        return "it needs the real provider plugin", "declare the objects themselves"
    if kind.endswith("Patch"):
        return "a patch changes an object that another tool owns", "declare the object itself"
    if kind.endswith("List"):
        return "a list only contains other objects", "declare each object itself"
    return None


def is_namespaced(api_version: str, kind: str, namespace: str = "") -> bool:
    """Return whether a kind has namespaces, as far as known without a server.

    A kind of an unknown group counts as namespaced if it sets a namespace.
    """
    group = api_version.rpartition("/")[0]
    if "." not in group or group.endswith(".k8s.io"):
        return kind not in _CLUSTER_SCOPED
    return bool(namespace)


def ref_of(manifest: Mapping[str, Any], *, namespaced: bool | None = None) -> Ref:
    """Return the reference of an object; `namespaced` from a server, or as far as known without one."""
    meta = manifest.get("metadata") or {}
    api_version, kind = str(manifest.get("apiVersion", "")), str(manifest.get("kind", ""))
    namespace = str(meta.get("namespace") or "")
    if namespaced is None:
        namespaced = is_namespaced(api_version, kind, namespace)
    return Ref(
        api_version, kind, (namespace or DEFAULT_NAMESPACE) if namespaced else "", str(meta.get("name") or "")
    )


def is_name(text: object) -> bool:
    """Return whether a text can be an object's name in a path of the API and in a file's name."""
    return isinstance(text, str) and ".." not in text and _NAME.fullmatch(text) is not None


def auto_name(logical: str, seed: bytes) -> str:
    """Return `<logical name>-<8 hex digits>`; the digits depend on the seed, if there is one."""
    digits = hashlib.sha256(seed + logical.encode() if seed else os.urandom(16)).hexdigest()[:_RANDOM_DIGITS]
    return f"{logical}-{digits}"


def manifest_of(inputs: Mapping[str, Any]) -> Manifest:
    """Return the object of a resource's inputs, without the engine's own keys and nulls."""
    return {
        key: _dashed(value) for key, value in inputs.items() if not key.startswith("__") and value is not None
    }


def outputs_of(live: Mapping[str, Any]) -> Manifest:
    """Return an object as outputs of a resource: with the SDK's property names."""
    return {key: _underscored(value) for key, value in live.items()}


def declared_part(live: Mapping[str, Any]) -> Manifest:
    """Return what a program would declare of a live object: no status, no metadata of the server."""
    meta = {key: value for key, value in (live.get("metadata") or {}).items() if key not in _SERVER_METADATA}
    rest = {key: value for key, value in live.items() if key not in ("metadata", "status")}
    return {**rest, "metadata": meta}


# Schemas of custom resources have keys (`x-kubernetes-int-or-string`, `$ref`) that no SDK can spell.
def _dashed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_dash(key): _dashed(item) for key, item in value.items() if item is not None}
    return [_dashed(item) for item in value] if isinstance(value, list) else value


def _dash(key: str) -> str:
    return key.replace("_", "-") if key.startswith("x_kubernetes_") else key


def _underscored(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            (key.replace("-", "_") if key.startswith("x-kubernetes-") else key): _underscored(item)
            for key, item in value.items()
        }
    return [_underscored(item) for item in value] if isinstance(value, list) else value
