"""Commands without a login run as with one."""

from __future__ import annotations

import shlex
import subprocess

from tests.rack.entering import enter_command
from tests.rack.lab import Lab

TELL = """
hostname; id -un; echo $HOME $PATH; ulimit -n; umask
grep -E '^Cap(Prm|Eff|Bnd)' /proc/self/status
"""


def test_command_runs_with_the_host_user_and_limits_of_a_login(rack: Lab) -> None:
    entered = enter_command(rack.rack, "login01", "bash", "-c", TELL)
    assert entered is not None, "the host runs"
    without = subprocess.run(entered, capture_output=True, text=True, check=True).stdout
    assert without.startswith("login01\nroot\n/root ")
    assert without == rack.rack.ssh("login01", f"sudo bash -c {shlex.quote(TELL)}").stdout
