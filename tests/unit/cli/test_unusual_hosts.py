"""A read-only checkout, no HOME, unusual screens and locales: the result or one message."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpufleet.errors import ExitCode

# Root can write everywhere, except without these capabilities.
AS_ANYBODY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


def gpufleet(folder: Path, *arguments: str, **env: str | None) -> subprocess.CompletedProcess[str]:
    """Run `gpufleet <arguments>` in `folder` without root's capabilities; None unsets a variable."""
    full = {**os.environ, "HOME": str(folder.parent), "GPUFLEET_ROOT": "", "PYTHONUTF8": None, **env}
    return subprocess.run(
        [*AS_ANYBODY, sys.executable, "-m", "gpufleet.cli.main", *arguments],
        cwd=folder,
        env={key: value for key, value in full.items() if value is not None},
        capture_output=True,
        timeout=300,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture
def unwritable(workplace: Path) -> Path:
    """The checkout, without permission to write in it."""
    for folder, _, names in os.walk(workplace):
        for name in names:
            (Path(folder) / name).chmod(0o444)
        Path(folder).chmod(0o555)
    return workplace


@pytest.mark.parametrize("words", ["validate dev", "plan dev", "inventory prod", "state list dev"])
def test_read_only_commands_work_in_a_read_only_checkout(unwritable: Path, words: str) -> None:
    done = gpufleet(unwritable, *words.split())
    assert "Permission denied" not in done.stderr
    assert done.returncode == (ExitCode.BAD_INPUT if words.startswith("state") else ExitCode.DONE), (
        done.stderr
    )
    assert not (unwritable / ".gpufleet").exists()


@pytest.mark.parametrize(
    "words",
    [
        "up dev --cloud sandbox --yes",
        "preview dev --cloud sandbox",
        "destroy dev --cloud sandbox --yes",
        "init fresh --template sandbox",
        "sandbox start",
        "sandbox faults --late 1",
        "inventory prod --output racks.yaml",
        "report dev --html fleet.html",
        "verify prod",
    ],
)
def test_writing_commands_report_a_read_only_checkout(unwritable: Path, words: str) -> None:
    done = gpufleet(unwritable, *words.split())
    assert done.returncode == ExitCode.BAD_INPUT, done.stderr
    (message,) = re.findall(r"^error: .*", done.stderr, re.M)
    assert "Permission denied" in message or "not a writable folder" in message
    assert done.stderr.count("\n  fix: ") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", ["validate dev", "plan dev", "rules", "sandbox status"])
def test_result_is_the_same_without_a_home_folder(workplace: Path, words: str) -> None:
    done = gpufleet(workplace, *words.split(), HOME=None)
    assert done.returncode == ExitCode.DONE, done.stderr
    assert done.stdout == gpufleet(workplace, *words.split()).stdout


@pytest.mark.parametrize("locale", ["C", "POSIX", "xx_YY"])
@pytest.mark.parametrize("words", ["validate übung", "init übung --template sandbox", "rules übung"])
def test_non_ascii_values_are_printed_unchanged_in_any_locale(
    workplace: Path, words: str, locale: str
) -> None:
    done = gpufleet(workplace, *words.split(), LC_ALL=locale, LANG=locale)
    expected = gpufleet(workplace, *words.split(), LC_ALL="C.UTF-8")
    assert (done.returncode, done.stdout, done.stderr) == (
        expected.returncode,
        expected.stdout,
        expected.stderr,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode in (ExitCode.DONE, ExitCode.BAD_INPUT)


def on_screen(folder: Path, *arguments: str, columns: str) -> str:
    """Output on a terminal of unknown size."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": columns, "TERM": "xterm", "GPUFLEET_ROOT": ""}
    process = subprocess.Popen(
        [sys.executable, "-m", "gpufleet.cli.main", *arguments],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other side of the terminal is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait(timeout=300) == ExitCode.DONE
    return shown.decode()


@pytest.mark.parametrize("columns", ["abc", "-3", "0", "999999999", "", "²"])
def test_invalid_columns_are_ignored(workplace: Path, columns: str) -> None:
    shown = on_screen(workplace, "validate", "prod", columns=columns)
    assert "valid" in shown
    assert max(map(len, shown.splitlines())) < 1000
    piped = gpufleet(workplace, "validate", "prod", COLUMNS=columns)
    assert (piped.returncode, piped.stdout) == (ExitCode.DONE, gpufleet(workplace, "validate", "prod").stdout)
