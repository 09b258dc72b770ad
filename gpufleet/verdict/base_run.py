"""The base in the temporary account: created, or restored from an earlier verdict."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gpufleet.errors import InputError
from gpufleet.verdict.git import GitRepository, Revision
from gpufleet.verdict.kept_bases import KeptBase, KeptBases, key_of
from gpufleet.verdict.preview import sandbox_request, stop_if_interrupted, why
from gpufleet.verdict.scratch import Scratch
from gpufleet.verdict.sides import Checkout
from gpufleet.workspace import Workspace

_ASSUMED = re.compile(r"does not have the type|no provider plugin for package")
"""What the sandbox's provider and the engine report on resources that no provider serves."""


class BaseRun:
    """The run of one base: a kept one restores the account's files."""

    def __init__(
        self, repository: GitRepository, revision: Revision, head: Workspace, scratch: Scratch
    ) -> None:
        self._scratch = scratch
        self._keep: Callable[[], None] = lambda: None
        self._bases = KeptBases(repository.top)
        target = os.path.relpath(head.target, head.root.resolve()) if head.is_path else head.target
        self._key = key_of(repository.tree(revision), repository.prefix, target)
        self._kept = self._bases.find(self._key, scratch.folder)
        scratch.creates = True
        if self._kept is not None:
            scratch.account.continue_from_files(self._kept.passphrase)

    @property
    def is_kept(self) -> bool:
        """Whether the base is restored and need not be created."""
        return self._kept is not None

    def state(self, base: Checkout, state: Path, on_step: Callable[[str], None]) -> Mapping[str, Any] | None:
        """Return Pulumi's deployment JSON of the base, and leave its resources in the account.

        Raises InputError if the base cannot be created.
        """
        account = self._scratch.account
        if self._kept is not None:
            on_step(f"restoring the base {base.name} from an earlier check")
            return self._kept.at(account.endpoint.url)
        from gpufleet.engine.embedded.engine import EmbeddedEngine

        on_step(f"creating the base {base.name} in the sandbox")
        engine = EmbeddedEngine()
        request = sandbox_request(base.workspace, account, state, own_code=base.own_code)
        result = engine.up(replace(request, assumes=False), lambda _event: None)
        stop_if_interrupted(result)
        if any(_ASSUMED.search(failure.error) for failure in result.failures):
            # The program then runs as in a preview, which a base without such resources does not need.
            result = engine.up(request, lambda _event: None)
            stop_if_interrupted(result)
        if not result.ok:
            raise InputError(
                f"the base {base.name} does not load: {why(result, base.workspace.root)}",
                remedy="use a commit that works as --base, or check without --base",
            )
        exported = engine.export(request)
        if exported is not None:
            made = KeptBase(exported, account.passphrase, account.endpoint.url)
            files = account.save()
            self._keep = partial(self._bases.keep, self._key, made, files, self._scratch.folder)
        return exported

    def keep(self) -> None:
        """Store a base that was created, which `state` has saved, for the next verdict."""
        self._keep()
