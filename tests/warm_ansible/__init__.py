"""ansible-playbook as a fork of a process that has imported Ansible, for tests of what playbooks do.

A start of ansible-playbook over mitogen takes more processor time than most of the plays that tests run: it
imports Ansible, and reads and compiles again what mitogen sends to hosts. Here one process of each test
process does that once for each configuration, and is forked for each playbook (`server.py`).

A folder on PATH has a script `ansible-playbook`, which is what ansible-runner starts. It gives its arguments,
environment, folder and streams to the server, and ends as the fork ends. Without a server, and where a
configuration cannot be forked, it runs the program itself.

Tests that stop or kill a run need the program itself: they do not call `environment`.
"""

from __future__ import annotations

import atexit
import os
import secrets
import socket
import subprocess
import sys
from pathlib import Path

from gpufleet.racks import runner

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "GPUFLEET_TEST_ANSIBLE"
_COMMAND = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import tests.warm_ansible
from gpufleet.cli.entry import main
sys.exit(main())
"""
GPUFLEET = (sys.executable, "-c", _COMMAND)
"""The words of `gpufleet` as a process of its own that has Ansible forked, if asked by `environment`."""
CLIENTS = Path(__file__).parent / "bin"
_own_environment = runner._environment
# Its address and the pipe that ends it.
_started: list[tuple[str, int, subprocess.Popen[bytes]]] = []


def environment() -> dict[str, str]:
    """Return the variables with which `run_playbook`, here and in gpufleet's processes, asks the server.

    The server is started if need be; it ends with the process that calls this.
    """
    if not _started:
        address = f"gpufleet-test-{secrets.token_hex(8)}"
        theirs, ours = os.pipe()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(f"\0{address}")
            listener.listen(64)
            script = str(Path(__file__).with_name("server.py"))
            process = subprocess.Popen(
                [sys.executable, script, str(listener.fileno()), str(theirs)],
                stdin=subprocess.DEVNULL,
                # Nothing is written to them: streams of /dev/null take what they become for files.
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=(listener.fileno(), theirs),
            )
        os.close(theirs)
        _started.append((address, ours, process))
    return {VARIABLE: _started[0][0]}


@atexit.register
def end() -> None:
    """End the server of `environment`."""
    for _, pipe, process in _started:
        os.close(pipe)
        process.wait()
    _started.clear()


def _with_client(run: runner.PlaybookRun, private: Path) -> dict[str, str]:
    """What Ansible gets; with the script before the program on PATH, if the test process has a server."""
    values = _own_environment(run, private)
    if VARIABLE in os.environ | dict(run.environment):
        values["PATH"] = os.pathsep.join((str(CLIENTS), values["PATH"]))
    return values


runner._environment = _with_client
