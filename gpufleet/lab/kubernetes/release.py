"""Helm releases: the sandbox only records them, since charts cannot be fetched offline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulumi.provider.experimental.provider import DiffResponse, PropertyDiff, PropertyDiffKind

from gpufleet.lab.aws.provider.wire import Props
from gpufleet.lab.kubernetes.changes import differences
from gpufleet.lab.kubernetes.objects import DEFAULT_NAMESPACE, Manifest, Ref

TOKEN = "kubernetes:helm.sh/v3:Release"  # noqa: S105 - the token of a type
API_VERSION, KIND = "helm.sh/v3", "Release"

NEEDS_SERVERLESS = (
    "a Helm release cannot be installed on an API server by the sandbox: charts are fetched from the network "
    "and rendered by Helm"
)
NEEDS_SERVERLESS_REMEDY = (
    "render it (unset GPUFLEET_KUBECONFIG), use objects, or the real kubernetes provider"
)

_FORCED = ("name", "namespace")


def ref(inputs: Mapping[str, Any]) -> Ref:
    """Return the reference of the release."""
    return Ref(API_VERSION, KIND, str(inputs.get("namespace") or DEFAULT_NAMESPACE), str(inputs["name"]))


def problems(inputs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (property, reason) for each error in the inputs."""
    found = []
    if not inputs.get("chart"):
        found.append(("chart", "a release needs a chart: its name in a repository, or its URL"))
    if not inputs.get("version"):
        found.append(("version", "a release without a version can change at any time: pin it"))
    return found


def manifest(inputs: Mapping[str, Any]) -> Manifest:
    """Return the release as a manifest: chart, version, repository and values of the program."""
    where = ref(inputs)
    spec = {
        key: value
        for key, value in inputs.items()
        if key not in ("name", "namespace", "compat") and not key.startswith("__") and value is not None
    }
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": where.name,
            "namespace": where.namespace,
            "annotations": {
                "gpufleet.io/not-rendered": "the chart is fetched by Helm, which needs the network"
            },
        },
        "spec": spec,
    }


def outputs(inputs: Props) -> Props:
    """Return the outputs of a release that is recorded and not installed."""
    where = ref(inputs)
    status = {
        "name": where.name,
        "namespace": where.namespace,
        "chart": inputs.get("chart"),
        "version": inputs.get("version"),
        "revision": 0,
        "status": "pending-install",
    }
    known = {key: value for key, value in inputs.items() if not key.startswith("__") and key != "compat"}
    return {**known, "namespace": where.namespace, "status": status}


def declared(found: Manifest, inputs: Props) -> Props:
    """Return the inputs that describe a found release; those of the state if nothing changed."""
    meta = found.get("metadata") or {}
    seen = {**(found.get("spec") or {}), "name": meta.get("name"), "namespace": meta.get("namespace")}
    kept = {key: value for key, value in inputs.items() if key == "compat" or key.startswith("__")}
    if "namespace" not in inputs and seen["namespace"] == DEFAULT_NAMESPACE:
        del seen["namespace"]
    return {**seen, **kept}


def diff(old: Props, new: Props, ignore: list[str]) -> DiffResponse:
    """Return the inputs that differ; another name or namespace means another release."""
    changes = [change for change in differences(old, new) if change.dotted.split(".")[0] not in ignore]
    replaces = sorted({change.path for change in changes if change.dotted in _FORCED})
    return DiffResponse(
        changes=bool(changes),
        diffs=sorted({change.dotted.split(".")[0] for change in changes}),
        replaces=replaces,
        detailed_diff={
            change.path: PropertyDiff(
                PropertyDiffKind[f"{change.kind.upper()}{'_REPLACE' if change.path in replaces else ''}"],
                input_diff=True,
            )
            for change in changes
        },
    )
