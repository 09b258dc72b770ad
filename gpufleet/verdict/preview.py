"""Previews for a verdict: what a fleet's program would register, as the rules of the policy pack see it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from gpufleet.cli.context import CLOUD_KEY, FLEET_FILE_KEY, PROJECT, Workspace
from gpufleet.engine.api import Engine, OnEvent, RunResult, StackRequest
from gpufleet.errors import CloudError
from gpufleet.findings import FINDINGS_SHOWN
from gpufleet.policy.report import REPORT, Report, read_report
from gpufleet.verdict.account import ThrowawayAccount, throwaway_account

PACK = "policies"
PROTECT_KEY = "gpufleet:protect"


@dataclass(frozen=True, slots=True)
class Previewed:
    """A preview: what the engine says of it, and what the policy pack saw and found."""

    result: RunResult
    report: Report


def preview_environment(root: Path, environment: str) -> Report:
    """What the environment of the checkout `root` comes to from nothing, judged by the checkout's rules.

    `environment` is a name or the path of a fleet file. Raises InputError for one that does not exist
    or does not hold, CloudError when the preview fails for another reason.
    """
    from gpufleet.engine.embedded.engine import EmbeddedEngine

    workspace = Workspace(root, environment)
    with throwaway_account() as account:
        request = sandbox_request(workspace, account, account.folder / "state.json")
        return judged_preview(EmbeddedEngine(), request, root / PACK, account.folder, _silent).report


def _silent(_event: object) -> None:
    return


def sandbox_request(workspace: Workspace, account: ThrowawayAccount, state_file: Path) -> StackRequest:
    """The environment's program against the throwaway account, with the settings that it really has.

    The sandbox protects nothing by default, an account everything: what is judged is the latter.
    """
    name = workspace.environment()
    config = workspace.stack_config(name, plain_only=True)
    config = {PROTECT_KEY: "true", **config, CLOUD_KEY: "sandbox"}
    if workspace.target != name:
        config[FLEET_FILE_KEY] = workspace.target
    return StackRequest(
        project=PROJECT,
        stack=name,
        project_root=workspace.root,
        program_dir=workspace.root / "stacks",
        state_file=state_file,
        config=config,
        providers={
            "aws": (sys.executable, "-m", "gpufleet.sandbox.provider"),
            "kubernetes": (sys.executable, "-m", "gpufleet.sandbox.kubernetes"),
        },
        env={**account.env, FINDINGS_SHOWN: "1"},
    )


def judged_preview(
    engine: Engine, request: StackRequest, pack: Path, folder: Path, on_event: OnEvent
) -> Previewed:
    """Preview with the policy pack. Raises CloudError where the run did not come to its end."""
    file = folder / "report.json"
    file.unlink(missing_ok=True)
    result = engine.preview(
        replace(request, policy_packs=(pack,), env={**request.env, REPORT: str(file)}), on_event
    )
    try:
        return Previewed(result, read_report(file))
    except FileNotFoundError:
        raise CloudError(_why(result)) from None


def _why(result: RunResult) -> str:
    said = [failure.error for failure in result.failures]
    said += [item.message for item in result.diagnostics if item.severity == "error"]
    return "the preview failed: " + ("\n".join(said) or "no reason given")
