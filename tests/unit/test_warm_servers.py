"""Commands of tests have a fork server that has imported pulumi_aws already, and is otherwise as theirs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests import forked, warm_servers

# Like a command: it asks for a fork server and lets it run a program.
COMMAND = """
import json, os, sys
from pathlib import Path
from gpufleet.engine.forks import prepare
server = prepare(os.environ)
code = "import json, os, sys; print(json.dumps([len(sys.modules), os.getppid(), sorted(sys.modules)]))"
process = server.start([sys.executable, "-c", code], dict(os.environ), Path.cwd())
print(process.stdout.read())
assert process.wait(60) == 0
"""


def ran(folder: Path, **more: str) -> tuple[set[str], str]:
    """Return the modules already imported in the program, and the parent of its fork server."""
    code = f"{COMMAND}\nprint(os.environ.get({warm_servers.VARIABLE!r}))"
    done = forked.run([sys.executable, "-c", code], cwd=folder, env={**os.environ, **more}, timeout_s=120)
    assert done.returncode == 0, done.stderr
    first, address = done.stdout.split("\n", 1)
    return set(json.loads(first)[2]), address.strip()


def test_fork_server_of_commands_has_program_imports_and_no_gpufleet(
    tmp_path: Path,
) -> None:
    modules, address = ran(tmp_path)
    assert {"pulumi", "pulumi_aws", "pulumi_aws.eks"} <= modules
    assert not [name for name in modules if name.partition(".")[0] in ("gpufleet", "tests")]
    assert address == warm_servers.address_of(os.environ)


def test_different_environment_has_its_own_server(tmp_path: Path) -> None:
    _, address = ran(tmp_path, PYTHONHASHSEED="7")
    assert address == warm_servers.address_of({**os.environ, "PYTHONHASHSEED": "7"})
    assert address != warm_servers.address_of(os.environ)


def test_command_without_its_test_process_starts_its_own_server(tmp_path: Path) -> None:
    code = f"from tests import warm_servers\n{COMMAND}"
    gone = {**os.environ, warm_servers.VARIABLE: "gpufleet-test-nobody"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=gone, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "pulumi_aws" not in json.loads(done.stdout)[2]
