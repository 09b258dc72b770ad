"""Objects as files: one YAML manifest each, written atomically, deleted with the object."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from urllib.parse import quote

import yaml

from gpufleet.errors import CloudError
from gpufleet.files import write_atomically
from gpufleet.lab.kubernetes.objects import DEFAULT_NAMESPACE, Manifest, Ref, is_namespaced, ref_of
from gpufleet.yaml_text import dump_yaml

_LONGEST_NAME = 200


class Folder:
    """A store of manifests: `<kind>_<namespace>_<name>.yaml`, without a namespace `<kind>_<name>.yaml`.

    Parts are joined by `_`, which no name contains, so that two objects never share a file. Files may contain
    Secrets: only their owner can read them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def resolve(self, manifest: Manifest) -> Ref:
        """See Store.resolve."""
        return ref_of(manifest)

    def file(self, ref: Ref) -> Path:
        """Return the file of an object."""
        group = ref.api_version.rpartition("/")[0]
        kind = ref.kind.lower() + (f".{group}" if "." in group and not group.endswith(".k8s.io") else "")
        name = "_".join(quote(part, safe="") for part in (kind, ref.namespace, ref.name) if part)
        if len(name) > _LONGEST_NAME:
            name = f"{name[:_LONGEST_NAME]}~{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        return self.path / f"{name}.yaml"

    def read(self, ref: Ref) -> Manifest | None:
        """See Store.read."""
        path = self.file(ref)
        try:
            found = yaml.safe_load(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, yaml.YAMLError) as error:
            raise CloudError(
                f"{path} cannot be read: {' '.join(str(error).split())}", remedy="repair or delete the file"
            ) from None
        if not isinstance(found, dict):
            raise CloudError(f"{path} holds no object", remedy="repair or delete the file")
        return found

    def apply(self, manifest: Manifest, *, create: bool, force: bool, dry_run: bool) -> Manifest:
        """See Store.apply. Values that a server would set stay unset."""
        del force
        ref = self.resolve(manifest)
        path = self.file(ref)
        rendered = _placed(manifest, ref)
        if create and path.exists() and self.read(ref) != rendered:
            raise CloudError(
                f"{ref} is already rendered: {path}",
                remedy="delete the file if no stack has it, or give the object another name",
            )
        if not dry_run:
            with self._lock:
                self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_atomically(path, _yaml(rendered), mode=0o600)
        return rendered

    def delete(self, ref: Ref, *, timeout_s: float) -> None:
        """See Store.delete."""
        del timeout_s
        with self._lock:
            self.file(ref).unlink(missing_ok=True)
            # An empty folder would look like an existing cluster.
            if self.path.is_dir() and not any(self.path.iterdir()):
                self.path.rmdir()


def _placed(manifest: Manifest, ref: Ref) -> Manifest:
    """Return the manifest with an explicit namespace, so that the file is complete."""
    if not ref.namespace or not is_namespaced(ref.api_version, ref.kind, ref.namespace):
        return manifest
    meta = {"namespace": DEFAULT_NAMESPACE, **(manifest.get("metadata") or {})}
    return {**manifest, "metadata": meta}


def _yaml(manifest: Manifest) -> str:
    first = [key for key in ("apiVersion", "kind", "metadata") if key in manifest]
    return dump_yaml({key: manifest[key] for key in [*first, *sorted(set(manifest) - set(first))]})
