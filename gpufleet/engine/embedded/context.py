"""The shared context of a run."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpufleet.engine.api import StackRequest
from gpufleet.engine.embedded.reporter import Reporter
from gpufleet.engine.embedded.store import StateStore
from gpufleet.engine.embedded.values import SecretValue
from gpufleet.engine.errors import RunInterruptedError
from gpufleet.engine.plugins import ProcessGroup


@dataclass(slots=True)
class RunContext:
    """One run of the engine. `env` is the environment of its processes; `slots` limits cloud operations."""

    request: StackRequest
    dry_run: bool
    env: Mapping[str, str]
    reporter: Reporter
    store: StateStore
    processes: ProcessGroup
    slots: threading.Semaphore
    engine_address: str = ""
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def program_previews(self) -> bool:
        """Return whether the program runs as in a preview, in which values may be unknown."""
        return self.dry_run or self.request.assumes

    @contextlib.contextmanager
    def slot(self) -> Iterator[None]:
        """Hold one of the slots; raise RunInterruptedError if the run was interrupted meanwhile."""
        with self.slots:
            if self.cancelled.is_set():
                raise RunInterruptedError("the run was interrupted")
            yield

    def default_provider_disabled(self, package: str) -> bool:
        """Return whether the stack's configuration forbids a default provider for a package."""
        named = json.loads(self.request.config.get("pulumi:disable-default-providers") or "[]")
        return package != "pulumi" and ("*" in named or package in named)

    def package_config(self, package: str) -> dict[str, Any]:
        """Return the configuration for a package (`aws:region` as `region`); secret values are Secrets."""
        dynamic = package == "pulumi-python"
        result: dict[str, Any] = {}
        for key, text in self.request.config.items():
            namespace, _, name = key.partition(":")
            if dynamic or namespace == package:
                # Dynamic providers get the whole configuration, under its full keys.
                value = SecretValue(text) if key in self.request.secret_config else text
                result[key if dynamic else name] = value
        return result
