"""The checkpoint file: Pulumi's deployment JSON (version 3), read strictly and written atomically."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpufleet import __version__
from gpufleet.engine.embedded.files import (
    backup_of,
    backups_of,
    make_folder,
    replace_durably,
    state_error,
    write_durably,
)
from gpufleet.engine.embedded.integrity import Resource, sort_by_dependency
from gpufleet.engine.embedded.resource import timestamp
from gpufleet.engine.embedded.shape import checked_deployment
from gpufleet.engine.errors import StateError

__all__ = [
    "backup_of",
    "deployment_json",
    "empty_deployment",
    "load",
    "parse",
    "salt_of",
    "save",
    "sort_by_dependency",
]


def empty_deployment() -> dict[str, Any]:
    """Return a deployment without resources."""
    return {"manifest": {}, "resources": []}


def load(path: Path) -> tuple[dict[str, Any], str]:
    """Return the deployment in the file and the file's digest; without a file an empty deployment and ''.

    An invalid checkpoint raises a `StateError` with the backup to use; the file is not changed.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        if backups_of(path):
            # With an empty state everything would be created a second time.
            raise StateError(
                f"{path}: the state is missing, and it has backups",
                remedy=f"`gpufleet state repair` restores one; remove {path.name}.bak* to start without one",
            ) from None
        return empty_deployment(), ""
    except OSError as error:
        raise state_error(path, "the state cannot be read", error) from error
    try:
        deployment = parse(content)
    except ValueError as error:
        whole = next((backup for backup in backups_of(path) if _is_whole(backup)), None)
        raise StateError(
            f"{path}: this is not a complete checkpoint: {error}",
            remedy=(f"{whole} is complete: " if whole else "no backup is complete: ")
            + "`gpufleet state repair` shows what each copy contains and restores one. Nothing was changed",
        ) from error
    return deployment, digest_of(content)


def parse(content: bytes) -> dict[str, Any]:
    """Return the deployment in a checkpoint; a ValueError says why it is invalid."""
    try:
        data = json.loads(content, parse_constant=_refuse)
        if not isinstance(data, dict):
            raise ValueError("it is not a JSON object")
        if data.get("version") != 3:
            raise ValueError(f"it has version {str(data.get('version'))[:20]}, this engine reads version 3")
        deployment = checked_deployment(data)
        # A state is UTF-8, which has no surrogates.
        json.dumps(deployment, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8: {error.reason}") from None
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
    except UnicodeEncodeError as error:
        raise ValueError(f"a text in it is not Unicode: {error.reason}") from None
    return deployment


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _is_whole(path: Path) -> bool:
    try:
        parse(path.read_bytes())
    except (OSError, ValueError):
        return False
    return True


def digest_of(content: bytes) -> str:
    """Return the digest by which a journal refers to the checkpoint that it continues."""
    return hashlib.sha256(content).hexdigest()


def save(path: Path, resources: Sequence[Resource], pending: Sequence[Resource], salt: str) -> str:
    """Write the checkpoint (a temporary file, fsync, rename) and return its digest.

    Former checkpoints stay beside it as `<state>.bak`, `<state>.bak.2` and so on.
    """
    content = content_of(resources, pending, salt)
    temporary = path.with_name(path.name + ".tmp")
    try:
        make_folder(path.parent)
        write_durably(temporary, content)
        replace_durably(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise state_error(path, "the state cannot be written", error) from error
    return digest_of(content)


def content_of(resources: Sequence[Resource], pending: Sequence[Resource], salt: str) -> bytes:
    """Return the content of a checkpoint file."""
    data = {"version": 3, "deployment": deployment_json(resources, pending, salt)}
    return json.dumps(data, indent=1, ensure_ascii=False).encode()


def deployment_json(resources: Sequence[Resource], pending: Sequence[Resource], salt: str) -> dict[str, Any]:
    """Return the deployment with its manifest, secrets provider and resources in dependency order."""
    version = f"v{__version__}"
    deployment: dict[str, Any] = {
        "manifest": {
            "time": timestamp(),
            # Pulumi's check that a manifest was not edited: the digest of the version.
            "magic": hashlib.sha256(version.encode()).hexdigest(),
            "version": version,
        }
    }
    if salt:
        deployment["secrets_providers"] = {"type": "passphrase", "state": {"salt": salt}}
    deployment["resources"] = sort_by_dependency(resources)
    if pending:
        deployment["pending_operations"] = list(pending)
    return deployment


def salt_of(deployment: dict[str, Any]) -> str:
    """Return the salt of the passphrase secrets provider; empty without one. Other providers are rejected."""
    providers = deployment.get("secrets_providers") or {}
    kind = providers.get("type", "")
    if kind not in ("", "passphrase"):
        raise StateError(
            f"the state's secrets are encrypted by the provider '{kind}'",
            remedy="the embedded engine supports only the passphrase provider; use --engine pulumi",
        )
    return str((providers.get("state") or {}).get("salt", ""))
