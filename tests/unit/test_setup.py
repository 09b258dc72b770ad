"""What scripts/setup does: everything once, nothing twice, all again for a checkout that was copied or moved.

The programs that it calls are stand-ins that write down how they were called.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.programs import ROOT

# Stand-ins for Python and uv: an environment is a folder with both.
PYTHON = """\
#!/bin/bash
echo "$0 $*" >>"$CALLS"
case "$*" in
  "-m venv"*) mkdir -p .venv/bin; cp "$0" .venv/bin/python; cp "$0" .venv/bin/uv;;
  "venv "*) mkdir -p "${@: -1}/bin"; cp "$0" "${@: -1}/bin/python";;
esac
"""
APT = """\
#!/bin/bash
echo "apt-get $*" >>"$CALLS"
printf '%s\\n' "$@" >>"$CALLS.packages"
"""
DPKG = """\
#!/bin/bash
grep -qx -e "${@: -1}" "$CALLS.packages" 2>/dev/null && echo "install ok installed"
"""


class Machine:
    """A checkout with the files of scripts/setup, and stand-ins for its programs."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.calls, self.bin = folder / "checkout", folder / "calls", folder / "bin"
        self.bin.mkdir(parents=True)
        for name, text in {"python": PYTHON, "apt-get": APT, "dpkg-query": DPKG}.items():
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)
        (self.checkout / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts" / "setup", self.checkout / "scripts")
        shutil.copytree(ROOT / "requirements", self.checkout / "requirements")
        shutil.copy(ROOT / "pyproject.toml", self.checkout)

    def setup(self, *arguments: str) -> list[str]:
        """Run it; returns its output by line."""
        env = {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "CALLS": str(self.calls),
            "PYTHON": str(self.bin / "python"),
        }
        words = [self.checkout / "scripts" / "setup", *arguments]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        return [line.removeprefix("setup: ").partition(" with")[0] for line in done.stdout.splitlines()]


BOTH = ["creating .venv", "installing the locked dependencies"]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_second_run_does_nothing_and_a_new_lock_file_only_installs(machine: Machine) -> None:
    assert machine.setup() == BOTH
    calls = machine.calls.read_text()
    assert machine.setup() == [] and machine.calls.read_text() == calls
    (machine.checkout / "requirements" / "lock.txt").write_text("other\n")
    assert machine.setup() == BOTH[1:]


@pytest.mark.parametrize("how", [shutil.move, shutil.copytree])
def test_moved_or_copied_checkout_is_set_up_again(machine: Machine, how, tmp_path: Path) -> None:
    machine.setup("system")
    # Its path ends in the other's, which is no proof that the environment was made for it.
    there = tmp_path / "elsewhere" / str(machine.checkout).lstrip("/")
    there.parent.mkdir(parents=True)
    how(machine.checkout, there)
    machine.checkout = there
    assert machine.setup("system") == [
        *BOTH,
        "installing checkov into .venv-checkov",
        "installing go into .venv-go",
    ]
    assert machine.setup("system") == []


def test_test_programs_are_installed_once_and_named(machine: Machine) -> None:
    (reported,) = [line for line in machine.setup("system") if "g++" in line]
    assert reported.startswith("installing ")
    assert {"g++", "gpg", "gpg-agent", "systemd-container", "etcd-server", "procps"} <= set(reported.split())
    assert machine.setup("system") == []
