"""The Pulumi CLI as an `Engine`, through Pulumi's Automation API.

Backend and passphrase come from the environment, as for the CLI itself. The stack's own settings file is read
and never written: each run has its own configuration file (mode 0600, removed afterwards) with the request's
values, secrets encrypted as in Pulumi's own files.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from pulumi import automation
from pulumi.automation.errors import CommandError, ConcurrentUpdateError
from ruamel.yaml import YAML
from semver import VersionInfo

from gpufleet.engine.api import OnEvent, RunResult, StackRequest, Verb
from gpufleet.engine.cli_command import OwnSessionCommand
from gpufleet.engine.cli_config import own_settings, secrets_settings, write_config
from gpufleet.engine.cli_events import EventTranslator
from gpufleet.engine.errors import INSTALL_PULUMI, CliMissingError, StateLockedError
from gpufleet.engine.policy_config import check_policy_config
from gpufleet.engine.preview_first import up_after_preview
from gpufleet.engine.project_file import read_project_file
from gpufleet.engine.team_stack import stack_exists
from gpufleet.errors import CloudError, InputError
from gpufleet.interruption import interruptible, notify_in_thread

_REMEDY = (
    "the CLI needs a backend (`pulumi login --help`) and, for secrets, PULUMI_CONFIG_PASSPHRASE; "
    "--engine embedded, for the sandbox, needs neither"
)


# The name of the folder with the run's plugins, which the CLI's messages contain.
_SHIMS = "gpufleet-plugins"


class _Session(Struct, frozen=True):
    stack: automation.Stack
    command: OwnSessionCommand
    env: Mapping[str, str]
    config_file: Path
    root: Path
    scratch: Path

    def run(self, *args: str) -> str:
        """Return the output of a CLI command on this stack."""
        words = [*args, "--stack", self.stack.name]
        return str(self.command.run(words, str(self.root), dict(self.env)).stdout)


class PulumiCliEngine:
    """An `Engine` on top of the `pulumi` executable."""

    name: Literal["embedded", "pulumi"] = "pulumi"

    def preview(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        """Run `pulumi preview`."""
        return self._run("preview", request, on_event)

    def up(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        """Run `pulumi up --skip-preview --continue-on-error`: what does not need a failed resource completes.

        With policy packs a preview runs first.
        """
        return up_after_preview(self.preview, self._up, request, on_event)

    def _up(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        return self._run("up", request, on_event)

    def refresh(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        """Run `pulumi refresh --skip-preview`."""
        return self._run("refresh", request, on_event)

    def destroy(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        """Run `pulumi destroy --skip-preview`; the stack itself stays."""
        return self._run("destroy", request, on_event)

    def outputs(self, request: StackRequest) -> Mapping[str, Any]:
        """Return `pulumi stack output`; empty if the stack does not exist."""
        with _session(request, create=False) as session:
            return {} if session is None else _outputs(session, request)

    def export(self, request: StackRequest) -> dict[str, Any] | None:
        """Return `pulumi stack export`, secrets encrypted; None if the stack does not exist."""
        with _session(request, create=False) as session:
            return None if session is None else dict(json.loads(session.run("stack", "export")))

    def is_complete(self, request: StackRequest) -> bool:
        """Return whether `pulumi stack history` has a successful update."""
        with _session(request, create=False) as session:
            history = [] if session is None else json.loads(session.run("stack", "history", "--json"))
        return any(run["kind"] == "update" and run["result"] == "succeeded" for run in history)

    def _run(self, verb: Verb, request: StackRequest, on_event: OnEvent) -> RunResult:
        started = time.monotonic()
        if verb in ("preview", "up"):
            check_policy_config(request)
            _check_pip()
        events = EventTranslator(on_event, planning=verb == "preview", hidden=f"/{_SHIMS}/")
        with _session(request, create=True) as session:
            assert session is not None  # noqa: S101 - it was to be created
            command = session.command
            try:
                with (
                    notify_in_thread(events.interrupt) as notify,
                    interruptible(lambda signum: notify(command.interrupt(signum))),
                ):
                    _operation(verb, session, request)(
                        on_event=events.take,
                        parallel=request.parallel,
                        color="never",
                        target=list(request.targets) or None,
                        config_file=str(session.config_file),
                        **_special(verb, request, session.scratch),
                    )
                ok = True
            except ConcurrentUpdateError as error:
                raise StateLockedError(
                    f"the stack is locked: {_last_lines(error)}", remedy="wait until the other run ends"
                ) from error
            except CommandError as error:
                ok = False
                if not events.explained and not command.interruptions:
                    # Without events the CLI did not even start the operation.
                    raise CloudError(_last_lines(error), remedy=_REMEDY) from error
            interrupted = bool(command.interruptions)
            asked = verb in ("up", "refresh") and not interrupted
            outputs = _outputs(session, request) if asked else {}
        return RunResult(
            engine="pulumi",
            verb=verb,
            ok=ok and not events.failures and not interrupted,
            changes=events.changes,
            duration_s=time.monotonic() - started,
            outputs=outputs,
            resources=events.resources,
            failures=tuple(events.failures),
            diagnostics=tuple(events.diagnostics),
            violations=tuple(events.violations),
            interrupted=interrupted,
        )


def _operation(verb: Verb, session: _Session, request: StackRequest) -> Callable[..., Any]:
    operations: dict[Verb, Callable[..., Any]] = {
        "preview": session.stack.preview,
        "up": session.stack.up,
        "refresh": session.stack.refresh,
        "destroy": session.stack.destroy,
    }
    return operations[verb]


def _special(verb: Verb, request: StackRequest, scratch: Path) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if verb in ("up", "destroy"):
        options["continue_on_error"] = True
    if verb != "preview":
        options["show_secrets"] = False
    if verb in ("up", "preview") and request.policy_packs:
        options["policy_packs"] = [str(path.resolve()) for path in request.policy_packs]
        if request.policy_config:
            options["policy_pack_configs"] = _policy_configs(request, scratch)
    return options


def _policy_configs(request: StackRequest, scratch: Path) -> list[str]:
    """Write one file for each pack, as the CLI requires; empty without configuration."""
    files = {folder.resolve(): file.resolve() for folder, file in request.policy_config.items()}
    empty = scratch / "no-policy-config.json"
    empty.touch()
    return [str(files.get(folder.resolve(), empty)) for folder in request.policy_packs]


def _outputs(session: _Session, request: StackRequest) -> Mapping[str, Any]:
    shown = ("--show-secrets",) if request.show_secrets else ()
    return dict(json.loads(session.run("stack", "output", "--json", *shown)))


@contextlib.contextmanager
def _session(request: StackRequest, *, create: bool) -> Iterator[_Session | None]:
    """Return the stack, ready to run; None if it does not exist and must not be created."""
    root = request.project_root
    if not (root / "Pulumi.yaml").is_file():
        raise InputError(f"{root}: there is no Pulumi.yaml", remedy="run from the checkout of the project")
    with tempfile.TemporaryDirectory(prefix="gpufleet-pulumi-") as folder:
        scratch = Path(folder)
        env = {**os.environ, **request.env}
        # The CLI uses the first Python on PATH, also for dynamic resources: ours has the SDK.
        own = str(Path(sys.executable).parent)
        env["PATH"] = os.pathsep.join([str(_shims(scratch, request)), own, env.get("PATH", "")])
        env["PULUMI_SKIP_UPDATE_CHECK"] = "true"
        command = _command(env)
        try:
            exists = stack_exists(root, request.stack, env, _REMEDY)
            if not exists and not create:
                yield None
                return
            config_file = write_config(scratch, request, command, env, exists=exists)
            if not exists:
                _create_stack(scratch, request, command, env)
        except CommandError as error:
            raise CloudError(_last_lines(error), remedy=_REMEDY) from error
        options = automation.LocalWorkspaceOptions(work_dir=str(root), env_vars=env, pulumi_command=command)
        workspace = automation.LocalWorkspace(
            work_dir=str(root), env_vars=env, pulumi_command=options.pulumi_command
        )
        stack = automation.Stack.select(request.stack, workspace)
        yield _Session(stack, command, env, config_file, root, scratch)


def _command(env: Mapping[str, str]) -> OwnSessionCommand:
    found = shutil.which("pulumi", path=env.get("PATH"))
    if found is None:
        raise CliMissingError
    path = Path(found)
    root = str(path.parent.parent) if path.parent.name == "bin" else None
    try:
        command = OwnSessionCommand(root)
    except (OSError, subprocess.CalledProcessError) as error:
        raise InputError(
            f"{found} is not a working Pulumi CLI: `pulumi version` fails ({_why(error)})",
            remedy=f"run `{found} version` to see why, or install the CLI again: {INSTALL_PULUMI}",
        ) from error
    if command.version is None:
        # A development build reports no version; it counts as new as the SDK.
        command.version = VersionInfo.parse(version("pulumi"))
    return command


def _check_pip() -> None:
    """Refuse an environment without pip, as uv makes it: the CLI calls pip before it runs a program."""
    if find_spec("pip") is None:
        raise InputError(
            f"{sys.executable} has no pip, with which the Pulumi CLI lists the packages of a program",
            remedy=f"run `{sys.executable} -m ensurepip`, or `uv pip install pip`",
        )


def _why(error: OSError | subprocess.CalledProcessError) -> str:
    return (
        f"exit code {error.returncode}"
        if isinstance(error, subprocess.CalledProcessError)
        else str(error.strerror)
    )


def _shims(scratch: Path, request: StackRequest) -> Path:
    """Create a folder with one `pulumi-resource-<package>` for each provider of the request."""
    folder = scratch / _SHIMS
    folder.mkdir()
    for package, words in request.providers.items():
        shim = folder / f"pulumi-resource-{package}"
        shim.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        shim.chmod(0o700)
    return folder


def _create_stack(
    scratch: Path, request: StackRequest, command: automation.PulumiCommand, env: Mapping[str, str]
) -> None:
    # In its own folder, because `stack init` writes a settings file beside Pulumi.yaml.
    folder = scratch / "project"
    folder.mkdir()
    yaml = YAML(typ="safe")
    project: dict[str, Any] = {"name": request.project, "runtime": "python"}
    root = request.project_root
    backend = read_project_file(root / "Pulumi.yaml", remedy="write `runtime: python`", within=root).get(
        "backend"
    )
    if backend:
        project["backend"] = backend
    with (folder / "Pulumi.yaml").open("w", encoding="utf-8") as out:
        yaml.dump(project, out)
    words = ["stack", "init", request.stack, "--no-select"]
    secrets = secrets_settings(own_settings(request))
    if secrets.get("secretsprovider"):
        # With the stack's own key, so that the values in its settings file stay readable.
        with (folder / f"Pulumi.{request.stack}.yaml").open("w", encoding="utf-8") as out:
            yaml.dump(secrets, out)
        words += ["--secrets-provider", str(secrets["secretsprovider"])]
    command.run(words, str(folder), dict(env))


def _last_lines(error: CommandError) -> str:
    """Return the CLI's last message, without the wrapping of the Automation API."""
    text = str(error)
    output = text.partition("\n stderr: ")[2] or text
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    wanted = [line for line in lines if line.startswith("error:")] or lines[-3:]
    return "; ".join(line.removeprefix("error:").strip() for line in wanted) or "the Pulumi CLI failed"
