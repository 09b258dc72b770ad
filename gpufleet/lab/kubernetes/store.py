"""Where objects are kept: what an API server and a folder of manifests have in common."""

from __future__ import annotations

from typing import Protocol

from gpufleet.lab.kubernetes.objects import Manifest, Ref


class Store(Protocol):
    """Objects by reference. Errors reach the user as GpufleetError."""

    def resolve(self, manifest: Manifest) -> Ref:
        """The object's reference: whether its kind has a namespace is the store's to say."""
        ...

    def read(self, ref: Ref) -> Manifest | None:
        """The object as it is now; None when there is none."""
        ...

    def apply(self, manifest: Manifest, *, create: bool, force: bool, dry_run: bool) -> Manifest:
        """Brings the object to what `manifest` says, and returns it as it is then.

        `create` refuses an object that is there already, unless it is the very object that `manifest`
        describes (a run that was cut short made it). `force` takes fields from other owners,
        `dry_run` judges the object and changes nothing.
        """
        ...

    def delete(self, ref: Ref, *, timeout_s: float) -> None:
        """Removes the object and what belongs to it, and waits until it is gone."""
        ...
