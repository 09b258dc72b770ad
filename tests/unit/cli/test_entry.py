"""An interruption while modules load."""

from __future__ import annotations

import subprocess
import sys


def test_an_interruption_in_the_middle_of_an_import_is_one_line_and_130() -> None:
    program = (
        "import sys, types, gpufleet.cli.entry as entry\n"
        "sys.argv = ['gpufleet', 'up', 'a b']\n"
        # A module whose import has begun and not ended has none of its names.
        "sys.modules['shlex'] = types.ModuleType('shlex')\n"
        "entry._end(2, None)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 130, ended.stderr
    assert ended.stderr == "interrupted; run the same command again: `gpufleet up 'a b'`\n"


def test_an_interruption_that_the_command_line_does_not_answer_is_one_line_and_130() -> None:
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
