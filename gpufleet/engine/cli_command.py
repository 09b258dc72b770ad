"""The `pulumi` executable as a process that only gpufleet interrupts, not the terminal."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from pulumi import automation
from pulumi.automation import CommandResult, OnOutput
from pulumi.automation.errors import create_command_error

from gpufleet.interruption import TERMINATION_GRACE_S

_WAIT_S = 1.0


class OwnSessionCommand(automation.PulumiCommand):
    """Runs the CLI in its own session: a Ctrl-C at the terminal reaches it only through `interrupt`.

    The CLI counts interruptions: it completes running operations after the first and ends after the second.
    """

    def __init__(self, root: str | None) -> None:
        super().__init__(root=root, skip_version_check=True)
        self.interruptions = 0
        self._process: subprocess.Popen[str] | None = None
        self._ending: threading.Timer | None = None

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: OnOutput | None = None,
        on_error: OnOutput | None = None,
    ) -> CommandResult:
        """Run a command of the CLI to its end and return its output. Raises CommandError if it fails."""
        env = {**os.environ, **additional_env, "PULUMI_AUTOMATION_API": "true"}
        if Path(self.command).is_absolute():
            env["PATH"] = os.pathsep.join([str(Path(self.command).parent), env.get("PATH", "")])
        self._process = process = subprocess.Popen(  # noqa: S603 - no shell is involved
            [self.command, "--non-interactive", *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=env,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        try:
            if self.interruptions:
                process.terminate()
            stdout, stderr = _output(process)
        except BaseException:
            _end(process)
            raise
        finally:
            self._process = None
            if self._ending is not None:
                self._ending.cancel()
        result = CommandResult(stdout=stdout.rstrip(), stderr=stderr.rstrip(), code=process.returncode)
        for lines, take in ((result.stdout, on_output), (result.stderr, on_error)):
            if take is not None:
                for line in lines.splitlines():
                    take(line)
        if result.code:
            raise create_command_error(result)
        return result

    def interrupt(self, signum: int) -> bool:
        """Pass on a signal; one too many kills the CLI. Return whether running operations are abandoned."""
        self.interruptions += 1
        process = self._process
        if process is not None:
            process.send_signal(signal.SIGKILL if self.interruptions > 2 else signum)
            if signum == signal.SIGTERM and self._ending is None:
                self._ending = threading.Timer(TERMINATION_GRACE_S, process.send_signal, (signum,))
                self._ending.daemon = True
                self._ending.start()
        return self.interruptions > 1


def _output(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Wait for the end of a process and return its output.

    A signal that arrives just before the wait begins does not end the wait, and its handler would run only
    after the process: waits are short.
    """
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=_WAIT_S)


def _end(process: subprocess.Popen[str]) -> None:
    """End a command that only reads."""
    process.terminate()
    try:
        process.communicate(timeout=TERMINATION_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
