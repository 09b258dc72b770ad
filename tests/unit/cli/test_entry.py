"""Before a command runs: interruptions while modules load, and imports that begin first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from gpufleet.cli import entry
from gpufleet.engine import forks
from gpufleet.preload import ACCOUNT


def test_interruption_during_an_import_prints_one_line_and_exits_130() -> None:
    program = (
        "import sys, types, gpufleet.cli.entry as entry\n"
        "sys.argv = ['gpufleet', 'up', 'a b']\n"
        # A module that is still being imported has none of its names.
        "sys.modules['shlex'] = types.ModuleType('shlex')\n"
        "entry._end(2, None)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 130, ended.stderr
    assert ended.stderr == "interrupted; run the same command again: `gpufleet up 'a b'`\n"


def test_uncaught_interruption_prints_one_line_and_exits_130() -> None:
    program = (
        "import sys, gpufleet.cli.entry as entry, gpufleet.cli.main as main\n"
        "sys.argv = ['gpufleet', 'plan', 'dev']\n"
        "def run():\n    raise KeyboardInterrupt\n"
        "main.main = run\n"
        "sys.exit(entry.main())\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 130, ended.stderr
    assert ended.stderr == "interrupted; run the same command again: `gpufleet plan dev`\n"


def test_interruption_in_executed_text_exits_with_a_code_and_not_a_signal(
    tmp_path: Path,
) -> None:
    (tmp_path / "program.py").write_text(
        "import os, signal, sys, gpufleet.cli.entry as entry, gpufleet.policy.pack as pack\n"
        "sys.argv = ['gpufleet', 'rules']\n"
        "def load(*_):\n    exec('os.kill(os.getpid(), signal.SIGTERM); signal.pause()')\n"
        "pack.load_rules = load\n"
        "sys.exit(entry.main())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "program"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    assert ended.returncode == 130, ended.stderr
    assert ended.stderr == "interrupted; run the same command again: `gpufleet rules`\n"


def test_running_thread_does_not_block_an_interrupted_command() -> None:
    program = (
        "import os, signal, sys, threading, gpufleet.cli.entry as entry, gpufleet.policy.pack as pack\n"
        "sys.argv = ['gpufleet', 'rules', '--json']\n"
        "threading.Thread(target=threading.Event().wait, args=(600,)).start()\n"
        "def load(*_):\n    os.kill(os.getpid(), signal.SIGTERM); signal.pause()\n"
        "pack.load_rules = load\n"
        "sys.exit(entry.main())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == 130, ended.stderr
    assert json.loads(ended.stdout)["exit_code"] == 130


@pytest.mark.parametrize(
    ("arguments", "begins"),
    [
        (["check", "prod", "--base", "HEAD"], True),
        (["check", "--help"], False),
        (["plan", "check"], False),
        ([], False),
    ],
)
def test_only_a_check_begins_imports_first(
    arguments: list[str], begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = Mock()
    monkeypatch.setattr(forks, "prepare", prepare)
    entry._prepare(arguments)
    assert [call.args for call in prepare.call_args_list] == ([(os.environ, ACCOUNT)] if begins else [])
