"""Previews for a verdict: the resources of a fleet's program as the policy pack receives them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gpufleet.containment import GIVEN_FLEET_FILE
from gpufleet.engine import forks
from gpufleet.engine.api import (
    Engine,
    Event,
    ResourceEvent,
    RunResult,
    StackRequest,
)
from gpufleet.errors import GpufleetError, InputError
from gpufleet.findings import FINDINGS_SHOWN
from gpufleet.lab_extra import THROWAWAY_PROVIDERS
from gpufleet.policy.report import REPORT, Report, read_report
from gpufleet.preload import LIBRARIES, PROGRAMS
from gpufleet.preload import THROWAWAY_PROVIDERS as PRELOADED_PROVIDERS
from gpufleet.verdict.own_code import PACKAGES
from gpufleet.workspace import CLOUD_KEY, FLEET_FILE_KEY, PROJECT, Workspace

if TYPE_CHECKING:
    from gpufleet.lab_extra import ThrowawayAccount

PACK = "policies"
STARTED_BLOCKS = "GPUFLEET_STARTED_BLOCKS"
"""Same value as `STARTED` of gpufleet/components/capacity_block_offering.py, which must not be imported
here."""

PROTECT_KEY = "gpufleet:protect"
_SHOWN_ERRORS = 5


class PolicyPreview(Struct, frozen=True):
    """A preview: the engine's result, and the report of the policy pack."""

    result: RunResult
    events: tuple[ResourceEvent, ...]
    report: Report


def stack_settings(workspace: Workspace, environment: str) -> dict[str, str]:
    """Return the stack's settings without secrets for a temporary account.

    Protection is on, as in an account; the sandbox's default is off.
    """
    config = {PROTECT_KEY: "true", **workspace.stack_config(environment, plain_only=True)}
    config[CLOUD_KEY] = "sandbox"
    if workspace.target != environment:
        config[FLEET_FILE_KEY] = workspace.target
    return config


def sandbox_request(
    workspace: Workspace, account: ThrowawayAccount, state_file: Path, *, own_code: bool
) -> StackRequest:
    """Return a request that runs the workspace's program in the temporary account.

    The program uses modules of the workspace, unless they are those of the running gpufleet (`own_code`).
    Providers and emulated AWS belong to the running gpufleet. Resources that they lack are assumed.
    """
    name = workspace.environment()
    return StackRequest(
        project=PROJECT,
        stack=name,
        project_root=workspace.root,
        program_dir=workspace.root / "stacks",
        state_file=state_file,
        config=stack_settings(workspace, name),
        providers={name: _own(module) for name, module in THROWAWAY_PROVIDERS.items()},
        env={
            **account.env,
            FINDINGS_SHOWN: "1",
            GIVEN_FLEET_FILE: workspace.target,
            STARTED_BLOCKS: "1",
            **({} if own_code else {"PYTHONPATH": str(workspace.root)}),
        },
        preload=LIBRARIES,
        random_passphrase=True,
        assumes=True,
    )


def prepare(*, own_code: bool) -> None:
    """Import the modules for the processes of a verdict, in a background process.

    This includes gpufleet if all programs run with the running one (`own_code`).
    """
    forks.prepare(os.environ, (*LIBRARIES, *PROGRAMS, *PRELOADED_PROVIDERS) if own_code else LIBRARIES)


def _own(module: str) -> tuple[str, ...]:
    """Return a command that runs a module of this gpufleet regardless of PYTHONPATH."""
    code = (
        f"import runpy, sys; sys.path.insert(0, {str(PACKAGES)!r}); "
        f"runpy.run_module({module!r}, run_name='__main__')"
    )
    return sys.executable, "-c", code


def recording_pack(folder: Path, root: Path) -> Path:
    """Create a policy pack that serves the rules of `root` with this gpufleet, for programs of other commits.

    Such a commit may have no policy pack, or one that writes no report.
    """
    folder.mkdir()
    (folder / "PulumiPolicy.yaml").write_text("runtime: python\n", encoding="utf-8")
    lines = (
        "import sys",
        "from pathlib import Path",
        f"sys.path.insert(0, {str(PACKAGES)!r})",
        "from gpufleet.policy.server import serve",
        f"serve(Path({str(root)!r}))",
    )
    (folder / "__main__.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def preview_with_policies(
    engine: Engine, request: StackRequest, pack: Path, report: Path, *, about: str = ""
) -> PolicyPreview:
    """Preview with the policy pack, which writes the file `report`.

    `about` is the program's name in messages. Raises InputError with the program's errors if it fails, since
    the rules have then not received all resources.
    """
    events: list[ResourceEvent] = []

    def take(event: Event) -> None:
        if isinstance(event, ResourceEvent):
            events.append(event)

    env = {**request.env, REPORT: str(report)}
    result = engine.preview(replace(request, policy_packs=(pack,), env=env), take)
    stop_if_interrupted(result)
    refused = any(violation.enforcement == "mandatory" for violation in result.violations)
    name = about or f"the program of {request.stack}"
    if result.failures or not (result.ok or refused):
        raise InputError(
            f"{name} cannot be previewed: {why(result, request.project_root)}",
            remedy="fix the error and check again",
        )
    try:
        return PolicyPreview(result, tuple(events), read_report(report))
    except (FileNotFoundError, json.JSONDecodeError) as error:
        raise GpufleetError(f"the policy pack wrote no report on {name} ({error})") from None


def stop_if_interrupted(result: RunResult) -> None:
    """Raise the interruption that the engine caught to end its run."""
    if result.interrupted:
        raise KeyboardInterrupt


def why(result: RunResult, root: Path) -> str:
    """Return the errors of a failed run as the program, a provider or the engine reported them, without
    `root`."""
    errors = [f"{failure.name}: {failure.error}" for failure in result.failures if failure.status == "failed"]
    errors += [item.message for item in result.diagnostics if item.severity == "error"]
    more = f"\n(and {len(errors) - _SHOWN_ERRORS} more)" if len(errors) > _SHOWN_ERRORS else ""
    text = "\n".join(dict.fromkeys(errors[:_SHOWN_ERRORS])) + more or "no reason was given"
    return text.replace(f"{root}{os.sep}", "")
