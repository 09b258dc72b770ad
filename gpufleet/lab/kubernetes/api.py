"""Objects on an API server: server-side apply, read, and deletion that waits until everything is gone."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from gpufleet.errors import CloudError
from gpufleet.lab.kubernetes.kubeconfig import ClusterConnection
from gpufleet.lab.kubernetes.objects import Manifest, Ref, ref_of
from gpufleet.lab.kubernetes.rest import APPLY, ApiError, Rest

FIELD_MANAGER = "gpufleet-sandbox"
_PROPAGATION = "pulumi.com/deletionPropagationPolicy"
_CONTROLLER_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"
_LEASE_S = 15
"""Seconds after which a lease without a duration is over: the default of kube-controller-manager."""
_READY_S = 30.0


class ApiServer:
    """A store on the API server of `cluster`. Thread-safe.

    Workloads are not waited for: the sandbox has no nodes that could run them.
    """

    def __init__(self, cluster: ClusterConnection) -> None:
        self.rest = Rest(cluster)
        self._lock = threading.Lock()
        self._kinds: dict[str, dict[str, tuple[str, bool]]] = {}

    def resolve(self, manifest: Manifest) -> Ref:
        """See Store.resolve."""
        api_version, kind = str(manifest["apiVersion"]), str(manifest["kind"])
        return ref_of(manifest, namespaced=self._kind(api_version, kind)[1])

    def path(self, ref: Ref) -> str:
        """Return the object's path in the API."""
        plural, namespaced = self._kind(ref.api_version, ref.kind)
        inside = f"/namespaces/{quote(ref.namespace, safe='')}" if namespaced else ""
        return f"{_root(ref.api_version)}{inside}/{plural}/{quote(ref.name, safe=':')}"

    def _kind(self, api_version: str, kind: str) -> tuple[str, bool]:
        """Return (plural, namespaced) of a kind; an unknown one may be new, and is looked up again."""
        with self._lock:
            known = self._kinds.get(api_version, {})
            if kind not in known:
                known = self._kinds[api_version] = self._discover(api_version)
        if kind not in known:
            raise ApiError(
                404,
                "NotFound",
                f"the API server has no kind {kind} in {api_version}",
                remedy="correct apiVersion and kind, or create its CustomResourceDefinition first",
            )
        return known[kind]

    def _discover(self, api_version: str) -> dict[str, tuple[str, bool]]:
        listed = self.rest.find(_root(api_version)) or {}
        return {
            item["kind"]: (item["name"], bool(item["namespaced"]))
            for item in listed.get("resources", ())
            if "/" not in item["name"]
        }

    def read(self, ref: Ref) -> Manifest | None:
        """See Store.read. An object that is being deleted still exists."""
        try:
            path = self.path(ref)
        except ApiError:
            # The kind was deleted with its definition, and the objects with the kind.
            return None
        return self.rest.find(path)

    def apply(self, manifest: Manifest, *, create: bool, force: bool, dry_run: bool) -> Manifest:
        """See Store.apply. Unknown fields are rejected, not dropped."""
        ref = self.resolve(manifest)
        path = self.path(ref)
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict", "force": str(force).lower()}
        found = self.rest.find(path) if create else None
        if found is not None and not self._is_ours(path, manifest, found):
            raise ApiError(
                409,
                "AlreadyExists",
                f"{ref} already exists",
                remedy="delete it, choose another name, or set upsertExistingObjects to take it over",
            )
        if dry_run:
            query["dryRun"] = "All"
        live = self.rest.call("PATCH", path, manifest, content_type=APPLY, query=query)
        if ref.kind == "CustomResourceDefinition" and not dry_run:
            return self._established(path, ref)
        return live

    def _is_ours(self, path: str, manifest: Manifest, found: Manifest) -> bool:
        """Return whether applying would change nothing, field ownership included: an interrupted earlier run
        created this object.
        """
        query = {"fieldManager": FIELD_MANAGER, "force": "false", "dryRun": "All"}
        try:
            applied = self.rest.call("PATCH", path, manifest, content_type=APPLY, query=query)
        except ApiError:
            return False
        return applied == found

    def _established(self, path: str, ref: Ref) -> Manifest:
        """Wait until the server serves a new kind, so that its objects can follow at once."""
        deadline = time.monotonic() + _READY_S
        while True:
            live = self.rest.find(path) or {}
            states = {
                item["type"]: item["status"] for item in (live.get("status") or {}).get("conditions") or ()
            }
            if states.get("Established") == "True":
                return live
            if time.monotonic() > deadline:
                raise CloudError(
                    f"{ref} was not established within {_READY_S:g} s",
                    remedy="check the conditions in its status, correct it, and run up again",
                )
            time.sleep(0.1)

    def delete(self, ref: Ref, *, timeout_s: float) -> None:
        """See Store.delete. Dependents are deleted afterwards, unless its annotation says otherwise."""
        found = self.read(ref)
        if found is None:
            return
        path, uid = self.path(ref), found["metadata"]["uid"]
        policy = (found["metadata"].get("annotations") or {}).get(_PROPAGATION, "background").capitalize()
        options = {"propagationPolicy": policy, "preconditions": {"uid": uid}}
        try:
            self.rest.call("DELETE", path, options)
        except ApiError as error:
            # Deleted, or already replaced by another object of that name.
            if error.code in (404, 409):
                return
            raise
        self._wait_gone(path, ref, uid, timeout_s)

    def _wait_gone(self, path: str, ref: Ref, uid: str, timeout_s: float) -> None:
        namespace = ref.kind == "Namespace" and ref.api_version == "v1"
        deadline = time.monotonic() + timeout_s
        pause = 0.05
        while True:
            found = self.rest.find(path)
            if found is None or found["metadata"]["uid"] != uid:
                return
            # Asked each time: the controller may have ended a moment ago, its lease still valid.
            if namespace and not self._has_controllers():
                self._empty_namespace(ref.name)
            if time.monotonic() > deadline:
                holders = (
                    found["metadata"].get("finalizers") or (found.get("spec") or {}).get("finalizers") or ()
                )
                raise CloudError(
                    f"{ref} is being deleted, but was not gone after {timeout_s:g} s"
                    + (f": {', '.join(holders)} holds it" if holders else ""),
                    remedy="check its finalizers, then run destroy again",
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)

    def _has_controllers(self) -> bool:
        """Return whether a controller manager runs on this cluster: it renews its lease every few seconds."""
        lease = self.rest.find(_CONTROLLER_LEASE)
        spec = (lease or {}).get("spec") or {}
        if not spec.get("renewTime"):
            return False
        age = dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(str(spec["renewTime"]))
        return age.total_seconds() < float(spec.get("leaseDurationSeconds", _LEASE_S))

    def _empty_namespace(self, name: str) -> None:
        """Empty and finalize a namespace, on a server without a namespace controller."""
        inside = f"/namespaces/{quote(name, safe='')}"
        for root, plural in self._namespaced_kinds():
            self.rest.call("DELETE", f"{root}{inside}/{plural}", {"propagationPolicy": "Background"})
        path = f"/api/v1{inside}"
        found = self.rest.find(path)
        if found is not None:
            found["spec"]["finalizers"] = []
            try:
                self.rest.call("PUT", f"{path}/finalize", found)
            except ApiError as error:
                if error.code not in (404, 409):
                    raise

    def _namespaced_kinds(self) -> list[tuple[str, str]]:
        """Return (path of the group's version, plural) of every kind that can be deleted by namespace."""
        groups = (self.rest.find("/apis") or {}).get("groups", ())
        roots = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
        return [
            (root, item["name"])
            for root in roots
            for item in _resources(self.rest.find(root))
            if item["namespaced"] and "deletecollection" in item.get("verbs", ())
        ]


def _resources(listed: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    return [item for item in (listed or {}).get("resources", ()) if "/" not in item["name"]]


def _root(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
