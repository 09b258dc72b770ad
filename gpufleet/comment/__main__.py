"""`python3 -m gpufleet.comment ENVIRONMENT FILE`: like `gpufleet comment`, without installation."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from gpufleet.comment.command import NOT_ALLOWED, comment
from gpufleet.errors import ExitCode, GpufleetError


def main(arguments: list[str] | None = None) -> int:
    """Post or update the comment. Return the exit code of `gpufleet.errors.ExitCode`."""
    parser = argparse.ArgumentParser(prog="python3 -m gpufleet.comment", description=__doc__)
    parser.add_argument("environment", help="the environment that was checked")
    parser.add_argument("file", type=Path, help="the file of `gpufleet check --markdown`")
    parser.add_argument("--pr", type=int, help="the pull request; default: that of this CI run")
    parser.add_argument("--author", default="", help="our user name, if the token cannot read it (GitHub)")
    options = parser.parse_args(arguments)
    try:
        name, outcome = comment(options.environment, options.file, os.environ, options.pr, options.author)
    except GpufleetError as error:
        sys.stderr.write(f"error: {error.message}\n")
        if error.remedy:
            sys.stderr.write(f"  fix: {error.remedy}\n")
        return int(error.exit_code)
    sys.stdout.write(f"{name}: comment {outcome}\n")
    if outcome == "not allowed":
        sys.stderr.write(f"warning: {NOT_ALLOWED}\n")
    return int(ExitCode.DONE)


if __name__ == "__main__":
    sys.exit(main())
