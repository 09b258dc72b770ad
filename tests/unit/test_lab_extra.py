"""The optional extra: the message if it is missing, and that nothing else loads it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpufleet import lab_extra
from gpufleet.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
# Packages that an installation without the extra lacks.
WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "gpufleet.lab" or name.split(".")[0] in ("moto", "flask"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from gpufleet.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def without_the_extra(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *arguments], capture_output=True, text=True, check=False, cwd=ROOT
    )


def test_missing_extra_is_bad_input_with_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lab_extra, "find_spec", lambda name: None)
    with pytest.raises(InputError) as refused:
        lab_extra.require_lab()
    assert "moto" in refused.value.message
    assert "pip install 'gpufleet[lab]'" in refused.value.remedy


@pytest.mark.parametrize(
    "command",
    [("preview", "sandbox", "--engine", "embedded"), ("check", "sandbox"), ("sandbox", "start")],
    ids=" ".join,
)
def test_commands_that_need_the_sandbox_exit_2_without_the_extra(command: tuple[str, ...]) -> None:
    done = without_the_extra(*command)
    assert done.returncode == 2, done.stderr
    assert "pip install 'gpufleet[lab]'" in done.stderr


@pytest.mark.parametrize(
    "command",
    [("plan", "prod"), ("validate", "prod"), ("inventory", "prod"), ("rules",), ("state", "list", "dev")],
    ids=" ".join,
)
def test_commands_that_need_no_sandbox_work_without_the_extra(command: tuple[str, ...]) -> None:
    done = without_the_extra(*command)
    assert "gpufleet[lab]" not in done.stderr
    assert "ModuleNotFound" not in done.stderr
    assert done.returncode in (0, 2), done.stderr
