"""The checkpoint file: Pulumi's deployment JSON (version 3), read strictly and written atomically."""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpufleet import __version__
from gpufleet.engine.embedded.resource import timestamp
from gpufleet.engine.embedded.urns import split_reference
from gpufleet.engine.errors import StateError

Resource = dict[str, Any]


def empty_deployment() -> dict[str, Any]:
    """A deployment without resources."""
    return {"manifest": {}, "resources": []}


def load(path: Path) -> tuple[dict[str, Any], str]:
    """The deployment in the file and the file's digest; an absent file is an empty deployment, digest ''.

    A file that is not such a checkpoint is a `StateError` that names the backup; it is not touched.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return empty_deployment(), ""
    except OSError as error:
        raise StateError(f"{path}: the state cannot be read: {error.strerror}") from error
    try:
        data = json.loads(content)
        if data["version"] != 3:
            raise ValueError(f"it has version {data['version']}, this engine reads version 3")
        deployment = data["deployment"]
        deployment["resources"] = deployment.get("resources") or []
        for resource in deployment["resources"]:
            _ = resource["urn"], resource["type"], resource["custom"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        backup = backup_of(path)
        hint = f"the state before the last run is in {backup}; " if backup.exists() else ""
        raise StateError(
            f"{path}: this is not a complete checkpoint: {error}",
            remedy=f"{hint}copy a good one over {path}. Nothing was changed",
        ) from error
    return deployment, hashlib.sha256(content).hexdigest()


def save(path: Path, resources: Sequence[Resource], pending: Sequence[Resource], salt: str) -> None:
    """Write the checkpoint: a temporary file, fsync, rename; the one before stays as `<state>.bak`."""
    content = json.dumps(
        {"version": 3, "deployment": deployment_json(resources, pending, salt)},
        indent=1,
        ensure_ascii=False,
    ).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        if path.exists():
            backup = backup_of(path)
            backup.unlink(missing_ok=True)
            os.link(path, backup)
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise StateError(
            f"{path}: the state cannot be written: {error.strerror}",
            remedy="make room or correct the permissions and run again: the journal beside it has every step",
        ) from error


def deployment_json(resources: Sequence[Resource], pending: Sequence[Resource], salt: str) -> dict[str, Any]:
    """The deployment with its manifest, its secrets provider and its resources in dependency order."""
    version = f"v{__version__}"
    deployment: dict[str, Any] = {
        "manifest": {
            "time": timestamp(),
            # Pulumi's own check that a manifest was not edited: the digest of the version.
            "magic": hashlib.sha256(version.encode()).hexdigest(),
            "version": version,
        }
    }
    if salt:
        deployment["secrets_providers"] = {"type": "passphrase", "state": {"salt": salt}}
    deployment["resources"] = in_order(resources)
    if pending:
        deployment["pending_operations"] = list(pending)
    return deployment


def salt_of(deployment: dict[str, Any]) -> str:
    """The salt of the passphrase secrets provider; empty without one; another provider is refused."""
    providers = deployment.get("secrets_providers") or {}
    kind = providers.get("type", "")
    if kind not in ("", "passphrase"):
        raise StateError(
            f"the state's secrets are kept by the provider '{kind}'",
            remedy="the embedded engine knows the passphrase provider only; use --engine pulumi",
        )
    return str((providers.get("state") or {}).get("salt", ""))


def backup_of(path: Path) -> Path:
    """Where the checkpoint before the last run is kept."""
    return path.with_name(path.name + ".bak")


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def in_order(resources: Sequence[Resource]) -> list[Resource]:
    """The resources with everything they need before them, otherwise in the order given.

    Pulumi refuses a checkpoint in which a resource stands before its parent, provider or dependency.
    Resources that wait to be deleted share their URN with their replacement: of two with one URN a
    resource waits for the one that stands before it, else for the first.
    """
    places: dict[str, list[int]] = {}
    for index, resource in enumerate(resources):
        places.setdefault(resource["urn"], []).append(index)
    waits = [0] * len(resources)
    waiting: list[list[int]] = [[] for _ in resources]
    for index, resource in enumerate(resources):
        for urn in _needs(resource):
            standing = places.get(urn, ())
            before = [place for place in standing if place < index] or [p for p in standing if p != index][:1]
            for place in before:
                waits[index] += 1
                waiting[place].append(index)
    if all(place < index for place, followers in enumerate(waiting) for index in followers):
        return list(resources)
    ready = deque(index for index, count in enumerate(waits) if count == 0)
    ordered: list[Resource] = []
    while ready:
        index = ready.popleft()
        ordered.append(resources[index])
        for follower in waiting[index]:
            waits[follower] -= 1
            if waits[follower] == 0:
                ready.append(follower)
    if len(ordered) != len(resources):
        raise StateError("the resources in the state depend on each other in a circle")
    return ordered


def _needs(resource: Resource) -> set[str]:
    urns = set(resource.get("dependencies") or ())
    for listed in (resource.get("propertyDependencies") or {}).values():
        urns.update(listed or ())
    urns.update((resource.get("parent", ""), resource.get("deletedWith", "")))
    if resource.get("provider"):
        urns.add(split_reference(resource["provider"])[0])
    urns -= {"", resource["urn"]}
    return urns
