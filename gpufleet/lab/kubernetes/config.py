"""The provider's configuration, and the target of objects: an API server of this machine or a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpufleet.errors import InputError
from gpufleet.lab.aws.provider.config import sandbox_folder
from gpufleet.lab.kubernetes import kubeconfig
from gpufleet.lab.kubernetes.kubeconfig import ClusterConnection

KUBECONFIG_VARIABLE = "GPUFLEET_KUBECONFIG"

_KNOWN = frozenset({
    "alwaysRender", "cluster", "clusterIdentifier", "context", "deleteUnreachable", "enableConfigMapMutable",
    "enablePatchForce", "enableReplaceCRD", "enableSecretMutable", "enableServerSideApply",
    "helmReleaseSettings", "kubeClientSettings", "kubeconfig", "namespace", "pluginDownloadUrl",
    "renderYamlToDirectory", "skipUpdateUnreachable", "strictMode", "suppressDeprecationWarnings",
    "suppressHelmHookWarnings", "upsertExistingObjects", "version",
})  # fmt: skip


class Target(Struct, frozen=True):
    """The target of objects: `server` (an API server on loopback) or, if None, `folder`.

    `why` is a sentence with the target and the reason, for the first line about this cluster.
    """

    cluster: str
    server: ClusterConnection | None
    folder: Path
    why: str


class KubernetesProviderConfig(Struct, frozen=True):
    """The `kubernetes:*` configuration or an explicit provider resource."""

    namespace: str = ""
    patch_force: bool = False
    upsert: bool = False
    mutable_config_maps: bool = False
    mutable_secrets: bool = False


def unknown_keys(values: Mapping[str, Any]) -> list[str]:
    """Configuration keys that the provider does not have."""
    return sorted(key for key in values if key not in _KNOWN and not key.startswith("__"))


def parse(values: Mapping[str, Any]) -> KubernetesProviderConfig:
    """Return the settings; the protocol sends booleans as texts or as booleans."""
    return KubernetesProviderConfig(
        namespace=str(values.get("namespace") or ""),
        patch_force=_true(values.get("enablePatchForce")),
        upsert=_true(values.get("upsertExistingObjects")),
        mutable_config_maps=_true(values.get("enableConfigMapMutable")),
        mutable_secrets=_true(values.get("enableSecretMutable")),
    )


def _true(value: object) -> bool:
    return str(value).lower() == "true"


def target(values: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Target:
    """Return the target of objects. The user's ~/.kube/config and KUBECONFIG are never read.

    Raises InputError if GPUFLEET_KUBECONFIG has a server that is not on this machine.
    """
    environ = os.environ if environ is None else environ
    declared = _declared(values)
    name = str(values.get("clusterIdentifier") or (declared.name if declared else "") or "default")
    folder = (
        Path(str(values["renderYamlToDirectory"])) if values.get("renderYamlToDirectory") else _folder(name)
    )
    named = environ.get(KUBECONFIG_VARIABLE)
    if named:
        cluster = kubeconfig.read(named)
        if not cluster.on_this_machine:
            raise InputError(
                f"{KUBECONFIG_VARIABLE} has the server {cluster.server}, which is not on this machine: "
                "the sandbox never uses a cluster elsewhere",
                remedy=f"unset {KUBECONFIG_VARIABLE}, or use the real kubernetes provider for a real cluster",
            )
        return Target(
            name,
            cluster,
            folder,
            f"objects of {name} are applied to {cluster.server} ({KUBECONFIG_VARIABLE})",
        )
    if values.get("renderYamlToDirectory"):
        return Target(
            name, None, folder, f"manifests of {name} are rendered to {folder} (renderYamlToDirectory)"
        )
    if declared is not None and declared.on_this_machine and not declared.uses_command:
        return Target(name, declared, folder, f"objects of {name} are applied to {declared.server}")
    reason = "it is emulated" if declared else "no API server is given"
    return Target(name, None, folder, f"manifests of {name} are rendered to {folder}: {reason}")


def _declared(values: Mapping[str, Any]) -> ClusterConnection | None:
    text = values.get("kubeconfig")
    if not text:
        return None
    return kubeconfig.read(
        str(text), context=str(values.get("context") or ""), cluster=str(values.get("cluster") or "")
    )


def _folder(cluster: str) -> Path:
    return sandbox_folder() / "manifests" / re.sub(r"[^A-Za-z0-9_.-]+", "_", cluster).strip(".")


def identity(values: Mapping[str, Any]) -> str:
    """Return a text that changes when the configuration selects another cluster."""
    if values.get("clusterIdentifier"):
        return f"identifier {values['clusterIdentifier']}"
    declared = _declared(values)
    where = declared.server if declared else ""
    return f"{where} {values.get('renderYamlToDirectory') or ''}"
