"""The store of objects: the common interface of an API server and a folder of manifests."""

from __future__ import annotations

from typing import Protocol

from gpufleet.lab.kubernetes.objects import Manifest, Ref


class Store(Protocol):
    """Objects by reference. Errors are GpufleetErrors for the user."""

    def resolve(self, manifest: Manifest) -> Ref:
        """Return the object's reference: the store decides whether its kind has a namespace."""
        ...

    def read(self, ref: Ref) -> Manifest | None:
        """Return the current object; None if there is none."""
        ...

    def apply(self, manifest: Manifest, *, create: bool, force: bool, dry_run: bool) -> Manifest:
        """Apply `manifest` and return the resulting object.

        `create` rejects an existing object, unless it equals `manifest` (an interrupted run created it).
        `force` takes fields from other owners, `dry_run` checks the object and changes nothing.
        """
        ...

    def delete(self, ref: Ref, *, timeout_s: float) -> None:
        """Delete the object and its dependents, and wait until they are gone."""
        ...
