"""Manual changes of a state: import it, and settle pending creations of an interrupted run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpufleet.engine.embedded import checkpoint
from gpufleet.engine.embedded.crypter import SecretsManager
from gpufleet.engine.embedded.integrity import problems, sort_by_dependency
from gpufleet.engine.embedded.journal import Record, journal_of
from gpufleet.engine.embedded.lock import StateLock
from gpufleet.engine.embedded.repair import examine, replace_damaged
from gpufleet.engine.embedded.resource import from_json, to_json
from gpufleet.engine.embedded.stored_state import holds_secrets, load_state
from gpufleet.errors import GpufleetError, InputError

_SHOWN = 5


class ImportResult(Struct, frozen=True):
    """The number of resources before and after an import, and of pending operations.

    `kept` are the new paths of damaged files that could not be read as a state.
    """

    before: int
    after: int
    pending: int
    kept: tuple[Path, ...] = ()


def check_import(content: bytes, project: str, stack: str) -> dict[str, Any]:
    """Return the deployment of an export; an `InputError` says why it cannot be this stack's state."""
    try:
        deployment = checkpoint.parse(content)
        checkpoint.salt_of(deployment)
    except ValueError as error:
        raise InputError(f"this is not an export of a stack: {error}", remedy=_EXPORT) from None
    except GpufleetError as error:
        raise InputError(error.message, remedy=error.remedy) from None
    prefix = f"urn:pulumi:{stack}::{project}::"
    foreign = [item["urn"] for item in deployment["resources"] if not item["urn"].startswith(prefix)]
    if foreign:
        raise InputError(
            f"{foreign[0]} belongs to another stack or project than {project}/{stack}",
            remedy="import it into the environment that it was exported from",
        )
    found = problems(deployment["resources"])
    if found:
        more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise InputError(
            f"the export is incomplete: {'; '.join(found[:_SHOWN])}{more}",
            remedy="export it again; an edited state must keep every reference",
        )
    return deployment


_EXPORT = "`gpufleet state export` and `pulumi stack export` create one"


def import_state(
    state_file: Path, content: bytes, project: str, stack: str, env: Mapping[str, str] | None = None
) -> ImportResult:
    """Make an export the state of a stack; the old state becomes its first backup.

    A damaged state is not a backup: it is kept under a name that ends in `damaged-<time>`.

    Secrets must be readable with the current passphrase; plain ones (`--show-secrets`) are encrypted.
    """
    deployment = check_import(content, project, stack)
    salt = checkpoint.salt_of(deployment) if holds_secrets(deployment) else ""
    manager = SecretsManager(state_file, salt, {**os.environ, **(env or {})})
    resources = [
        to_json(from_json(item, manager), manager) for item in sort_by_dependency(deployment["resources"])
    ]
    pending = [_sealed(item, manager) for item in deployment.get("pending_operations") or ()]
    with StateLock(state_file, "state import"):
        if not examine(state_file).is_whole:
            content = checkpoint.content_of(resources, pending, manager.salt)
            kept = replace_damaged(state_file, content)
            return ImportResult(0, len(resources), len(pending), tuple(kept))
        former = load_state(state_file)
        if former.interrupted:
            checkpoint.save(
                state_file, former.replayed.resources, former.replayed.pending, former.replayed.salt
            )
        # The checkpoint now includes the journal, which continues no imported state.
        journal_of(state_file).unlink(missing_ok=True)
        checkpoint.save(state_file, resources, pending, manager.salt)
    return ImportResult(len(former.replayed.resources), len(resources), len(pending))


def _sealed(operation: Record, manager: SecretsManager) -> Record:
    return {**operation, "resource": to_json(from_json(operation["resource"], manager), manager)}


def adopt(state_file: Path, urn: str, identifier: str) -> None:
    """Record the id that an interrupted creation got: the next run reads and takes over the resource."""
    _change_creations(
        state_file,
        urn,
        lambda operation: {**operation, "resource": {**operation["resource"], "id": identifier}},
    )


def forget(state_file: Path, urn: str) -> None:
    """Record that an interrupted creation did not happen: the next run creates the resource."""
    _change_creations(state_file, urn, lambda operation: None)


def _change_creations(state_file: Path, urn: str, change: Callable[[Record], Record | None]) -> None:
    with StateLock(state_file, "state repair"):
        state = load_state(state_file)
        pending: list[Record] = []
        known: list[str] = []
        for operation in state.replayed.pending:
            is_creation = operation["type"] == "creating"
            known += [operation["resource"]["urn"]] if is_creation else []
            settled = is_creation and operation["resource"]["urn"] == urn
            changed = change(operation) if settled else operation
            pending += [] if changed is None else [changed]
        if urn not in known:
            listed = ", ".join(known) or "none"
            raise InputError(f"no creation of {urn} is pending", remedy=f"pending creations: {listed}")
        checkpoint.save(state_file, state.replayed.resources, pending, state.replayed.salt)
        journal_of(state_file).unlink(missing_ok=True)
