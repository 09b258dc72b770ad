"""A machine without loopback: a message before anything starts."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.conftest import Checkout


def _may_unshare() -> bool:
    program = shutil.which("unshare")
    return program is not None and not subprocess.run([program, "-n", "true"], check=False).returncode


@pytest.mark.skipif(not _may_unshare(), reason="only root can take the network away")
@pytest.mark.parametrize("command", [("up", "sandbox", "--yes"), ("check", "dev"), ("sandbox", "start")])
def test_missing_loopback_is_reported_with_the_command_that_enables_it(
    checkout: Checkout, command: tuple[str, ...]
) -> None:
    done = checkout.run(*command, prefix=("unshare", "-n"))
    assert done.returncode == 2
    assert "does not reach itself at 127.0.0.1" in done.stderr
    assert "ip link set lo up" in done.stderr
    assert "Traceback" not in done.stderr
