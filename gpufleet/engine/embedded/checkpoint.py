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
from gpufleet.engine.embedded.integrity import Resource, in_order
from gpufleet.engine.embedded.resource import timestamp
from gpufleet.engine.embedded.shape import checked_deployment
from gpufleet.engine.errors import StateError

__all__ = ["backup_of", "deployment_json", "empty_deployment", "in_order", "load", "parse", "salt_of", "save"]


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
        if backups_of(path):
            # An empty state would have everything made a second time.
            raise StateError(
                f"{path}: the state is gone, and its backups are there",
                remedy=f"`gpufleet state repair` puts one back; remove {path.name}.bak* to begin anew",
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
            remedy=(f"{whole} is whole: " if whole else "no whole backup of it is left: ")
            + "`gpufleet state repair` says what each copy holds and puts one back. Nothing was changed",
        ) from error
    return deployment, digest_of(content)


def parse(content: bytes) -> dict[str, Any]:
    """The deployment in a checkpoint; a ValueError says what is wrong with one that is none."""
    try:
        data = json.loads(content, parse_constant=_refuse)
        if not isinstance(data, dict):
            raise ValueError("it is no JSON object")
        if data.get("version") != 3:
            raise ValueError(f"it has version {str(data.get('version'))[:20]}, this engine reads version 3")
        deployment = checked_deployment(data)
        # A state is written as UTF-8, which has no halves of characters.
        json.dumps(deployment, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is no UTF-8: {error.reason}") from None
    except RecursionError:
        raise ValueError("its values are nested too deep") from None
    except UnicodeEncodeError as error:
        raise ValueError(f"a text in it is no Unicode: {error.reason}") from None
    return deployment


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _is_whole(path: Path) -> bool:
    try:
        parse(path.read_bytes())
    except (OSError, ValueError):
        return False
    return True


def digest_of(content: bytes) -> str:
    """What a journal names the checkpoint by that it continues."""
    return hashlib.sha256(content).hexdigest()


def save(path: Path, resources: Sequence[Resource], pending: Sequence[Resource], salt: str) -> str:
    """Write the checkpoint (a temporary file, fsync, rename) and return its digest.

    The last ones stay beside it as `<state>.bak`, `<state>.bak.2` and so on.
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
    """What a checkpoint file holds."""
    data = {"version": 3, "deployment": deployment_json(resources, pending, salt)}
    return json.dumps(data, indent=1, ensure_ascii=False).encode()


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
