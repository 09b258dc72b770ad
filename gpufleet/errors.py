"""Errors that reach a user, with their exit codes.

Exit codes are part of the stable contract: 0 done, 1 refused by policy or drift found, 2 bad
input, 3 internal error, 4 cloud or host failure with the state kept, 130 interrupted (Ctrl-C or SIGTERM).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpufleet.findings import Finding


class ExitCode(IntEnum):
    """The exit status of the process."""

    DONE = 0
    REFUSED = 1
    BAD_INPUT = 2
    INTERNAL = 3
    CLOUD_FAILURE = 4
    INTERRUPTED = 130


class GpufleetError(Exception):
    """An error that a user can act on: a message with value, rule and remedy, never a traceback."""

    exit_code = ExitCode.INTERNAL

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class InputError(GpufleetError):
    """The user's input is wrong (a file, an option, an environment name)."""

    exit_code = ExitCode.BAD_INPUT


class SpecError(InputError):
    """A fleet file with at least one error; carries all findings, warnings too."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        errors = sum(1 for finding in findings if finding.severity == "error")
        super().__init__(f"{errors} error{'s' if errors != 1 else ''} in the fleet file")
        self.findings = tuple(findings)


class RefusedError(GpufleetError):
    """A policy or a guard refused the change before anything was changed."""

    exit_code = ExitCode.REFUSED


class CloudError(GpufleetError):
    """The cloud or a host failed; the state is kept and the next run continues from it."""

    exit_code = ExitCode.CLOUD_FAILURE


class InterruptionError(KeyboardInterrupt):
    """An interruption with details: what is `kept`, and the options to continue with (`more`)."""

    def __init__(self, kept: str, more: Sequence[str] = ()) -> None:
        super().__init__(kept)
        self.kept = kept
        self.more = tuple(more)
