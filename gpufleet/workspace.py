"""The workspace of a command: the checkout, its environment, and the cloud it may use.

A checkout is a folder with `Pulumi.yaml` and `stacks/`. State, caches and the emulated AWS are in its
`.gpufleet/`, separately for each cloud, so that the sandbox never mixes with an account.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from msgspec import Struct

from gpufleet.containment import GIVEN_FLEET_FILE, contained, repository_of, shown_in
from gpufleet.errors import GpufleetError, InputError, SpecError

if TYPE_CHECKING:
    from gpufleet.checks.rules import BoughtBlock
    from gpufleet.engine.api import StackRequest
    from gpufleet.lab_extra import WhileStarting

Cloud = Literal["sandbox", "aws"]
PROJECT = "gpufleet"
CLOUD_KEY = "gpufleet:cloud"
FLEET_FILE_KEY = "gpufleet:fleetFile"


def find_root(start: Path | None = None) -> Path:
    """Return the checkout that contains `start` (default: the working folder), or the one gpufleet runs from.

    Raises InputError if there is none: gpufleet's programs run from a checkout.
    """
    here = (start or Path.cwd()).resolve()
    candidates = [here, *here.parents, Path(__file__).resolve().parents[1]]
    for folder in candidates:
        if (folder / "Pulumi.yaml").is_file() and (folder / "stacks").is_dir():
            return folder
    raise InputError(
        f"{here} is not inside a fleet repository (a folder with Pulumi.yaml and stacks/)",
        remedy="change into one, use a fleet file inside one, or create one with `gpufleet new DIR`",
    )


class Workspace(Struct, frozen=True):
    """A checkout, and one environment of it. `target` is what the user wrote: a name or a path."""

    root: Path
    target: str

    @property
    def local(self) -> Path:
        """Return the folder of everything that belongs only to this checkout and is not versioned."""
        return self.root / ".gpufleet"

    @property
    def sandbox_root(self) -> Path:
        """Return the folder of the emulated AWS."""
        return self.local / "sandbox"

    @classmethod
    def open(cls, target: str) -> Workspace:
        """Return the workspace of an environment's name or of a path to a fleet file."""
        path = Path(target)
        if path.suffix in {".yaml", ".yml"} or os.sep in target:
            if (path / "fleet.yaml").is_file():
                raise InputError(f"{target} is a folder", remedy=f"use the file in it: {path / 'fleet.yaml'}")
            real = contained(path, target, within=repository_of(path))
            return cls(find_root(real.parent if real.parent.is_dir() else None), str(real))
        return cls(find_root(), target)

    @property
    def is_path(self) -> bool:
        """Return whether the target is a path of a fleet file, not an environment's name."""
        return os.sep in self.target

    def environment(self) -> str:
        """Return the target's environment without checking its fleet file: a state outlives the file.

        Raises InputError for a name without a fleet file, stack settings or a state in this checkout, and the
        errors of an invalid fleet file for a path.
        """
        if self.is_path:
            from gpufleet.spec.load import load_fleet

            return load_fleet(self.target, root=self.root).environment
        stacks, name = self.root / "stacks", self.target
        known = (
            stacks / name / "fleet.yaml",
            stacks / f"Pulumi.{name}.yaml",
            *(self.state_file(name, cloud) for cloud in get_args(Cloud)),
        )
        if not any(path.is_file() for path in known):
            from gpufleet.spec.load import find_fleet_file

            find_fleet_file(name, self.root)
        return name

    def state_file(self, environment: str, cloud: str) -> Path:
        """Return where the embedded engine keeps the stack of an environment in a cloud."""
        return self.local / "state" / cloud / f"{environment}.json"

    def bought_blocks(self) -> tuple[BoughtBlock, ...]:
        """Return the Capacity Blocks in the embedded engine's state, for the cloud of the environment.

        An unreadable state counts as empty: the commands that use it report why.
        """
        from gpufleet.changes.bought_blocks import blocks_of_state

        name = self.environment()
        with contextlib.suppress(GpufleetError):
            state_file = self.state_file(name, self.cloud(name, None))
            if state_file.parent.is_dir():  # without it there was no run: most plans need no engine
                from gpufleet.engine.embedded.stored_state import export_state

                return blocks_of_state(export_state(state_file))
        return ()

    def stack_config(self, environment: str, *, plain_only: bool = False) -> dict[str, str]:
        """Return the configuration in `stacks/Pulumi.<env>.yaml` with full keys; empty without the file.

        Raises InputError for a file that is not a Pulumi stack file, and for encrypted or structured values,
        which only the Pulumi CLI can read; `plain_only` skips those.
        """
        path = self.root / "stacks" / f"Pulumi.{environment}.yaml"
        if not os.path.lexists(path):
            return {}
        shown = shown_in(path, self.root)
        config = _settings_file(path, shown, self.root).get("config") or {}
        if not isinstance(config, dict):
            raise InputError(f"{shown}: `config` must be a mapping", remedy="see `pulumi config`")
        values: dict[str, str] = {}
        for key, value in config.items():
            if isinstance(value, (dict, list)):
                if plain_only:
                    continue
                raise InputError(
                    f"{shown}: {key} is encrypted or structured, which the embedded engine does not read",
                    remedy="write a plain value, or use the Pulumi CLI: --engine pulumi",
                )
            if value is None:
                continue
            full = key if ":" in key else f"{PROJECT}:{key}"
            values[full] = value.lower() if value in ("True", "TRUE", "False", "FALSE") else value
        if os.sep in (named := values.get(FLEET_FILE_KEY, "")):
            # The file is part of the checkout, so its references must stay inside.
            contained(self.root / named, f"{FLEET_FILE_KEY} of {shown}", within=self.root)
        return values

    def assumed_roles(self, environment: str) -> tuple[dict[str, Any], ...]:
        """Return the entries of `aws:assumeRoles` in the stack's settings, without encrypted values."""
        path = self.root / "stacks" / f"Pulumi.{environment}.yaml"
        if not os.path.lexists(path):
            return ()
        config = _settings_file(path, shown_in(path, self.root), self.root).get("config") or {}
        roles = config.get("aws:assumeRoles") if isinstance(config, dict) else None
        return tuple(role for role in roles or () if isinstance(role, dict) and role.get("roleArn"))

    def cloud(self, environment: str, asked: str | None) -> Cloud:
        """Return the cloud to use: the requested one, else the stack configuration's, else a real account."""
        name = asked or self.stack_config(environment, plain_only=True).get(CLOUD_KEY) or "aws"
        if name not in get_args(Cloud):
            raise InputError(
                f"cloud {name!r} is not one of {', '.join(get_args(Cloud))}",
                remedy=f"set {CLOUD_KEY} in stacks/Pulumi.{environment}.yaml, or pass --cloud sandbox",
            )
        return name  # type: ignore[return-value]

    def request(
        self,
        environment: str,
        cloud: Cloud,
        *,
        parallel: int = 16,
        targets: tuple[str, ...] = (),
        show_secrets: bool = False,
        while_starting: WhileStarting = contextlib.nullcontext,
    ) -> StackRequest:
        """Return what an engine needs to run this environment; start the emulated AWS for the sandbox.

        A start takes seconds, during which the context `while_starting()` is active.
        """
        request = self.offline_request(
            environment, cloud, parallel=parallel, targets=targets, show_secrets=show_secrets
        )
        if cloud != "sandbox":
            return request
        from gpufleet.lab_extra import with_sandbox

        return with_sandbox(request, self.sandbox_root, while_starting)

    def offline_request(
        self,
        environment: str,
        cloud: Cloud,
        *,
        parallel: int = 16,
        targets: tuple[str, ...] = (),
        show_secrets: bool = False,
    ) -> StackRequest:
        """Return the request for commands that only read the state: no provider and no cloud."""
        from gpufleet.engine.api import StackRequest

        # The Pulumi CLI reads encrypted and structured settings itself; the embedded engine cannot.
        config = self.stack_config(environment, plain_only=True) | {CLOUD_KEY: cloud}
        if self.target != environment:
            config[FLEET_FILE_KEY] = self.target
        return StackRequest(
            project=PROJECT,
            stack=environment,
            project_root=self.root,
            program_dir=self.root / "stacks",
            state_file=self.state_file(environment, cloud),
            config=config,
            env={
                **({GIVEN_FLEET_FILE: self.target} if self.target != environment else {}),
                **(self._own_backend() if cloud == "sandbox" else {}),
            },
            parallel=parallel,
            targets=targets,
            show_secrets=show_secrets,
        )

    def _own_backend(self) -> dict[str, str]:
        """Return the sandbox's own backend of the Pulumi CLI if the project names one: that has the stacks of
        real accounts, by the same names."""
        project = self.root / "Pulumi.yaml"
        named = project.is_file() and re.search(
            r"^backend:", project.read_text(encoding="utf-8"), re.MULTILINE
        )
        if not named or os.environ.get("PULUMI_BACKEND_URL"):
            return {}
        folder = self.local / "pulumi"
        folder.mkdir(parents=True, exist_ok=True)
        return {"PULUMI_BACKEND_URL": f"file://{folder}"}


def _settings_file(path: Path, shown: str, root: Path) -> dict[str, Any]:
    """Return the mapping in a stack's settings file, every value as text; empty for an empty file."""
    from gpufleet.spec.document import read_document

    try:
        entry, _ = read_document(path, shown, within=root)
    except SpecError as error:
        first = error.findings[0]
        if first.rule == "file-empty":
            return {}
        message = first.message.replace("a fleet file", "a file of stack settings")
        raise InputError(
            f"{shown}:{first.line}: {message}", remedy="see `pulumi config` for what such a file holds"
        ) from None
    settings: dict[str, Any] = entry.node.plain()
    return settings
