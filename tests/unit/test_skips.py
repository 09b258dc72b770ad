"""A test is skipped for a listed reason, or the run fails."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import programs, skips

LISTED = "the Pulumi CLI is not on PATH"
UNLISTED = "no frobnicator on PATH"


def run_suite(folder: Path, text: str, *options: str) -> tuple[int, str]:
    """Exit code and output of a run of one test file with the plugin."""
    (folder / "test_it.py").write_text(f"import pytest\n{text}")
    words = [sys.executable, "-m", "pytest", "-p", "tests.skips", "-c", "/dev/null", *options, str(folder)]
    done = subprocess.run(
        words, cwd=skips.README.parent, capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("options", [(), ("-n", "1")])
def test_unlisted_skip_fails_the_run_and_is_named(tmp_path: Path, options: tuple[str, ...]) -> None:
    text = f"def test_one(): pytest.skip({UNLISTED!r})\ndef test_two(): pass\n"
    code, reported = run_suite(tmp_path, text, *options)
    assert code == pytest.ExitCode.TESTS_FAILED, reported
    errors = [line for line in reported.splitlines() if line.startswith("ERROR")]
    assert len(errors) == 1 and errors[0].endswith(f"does not list this skip: {UNLISTED}")


def test_skipped_module_counts(tmp_path: Path) -> None:
    code, reported = run_suite(tmp_path, f"pytest.skip({UNLISTED!r}, allow_module_level=True)\n")
    assert code != 0 and f"does not list this skip: {UNLISTED}" in reported


def test_listed_skips_and_expected_failures_pass_and_are_counted_by_reason(
    tmp_path: Path,
) -> None:
    text = f"""
@pytest.mark.skipif(True, reason={LISTED!r})
def test_one(): pass
def test_two(): pytest.skip({f"{LISTED}, so there is nothing to compare with"!r})
def test_three(): pytest.skip({LISTED!r})
def test_four(): pass
@pytest.mark.xfail
def test_five(): assert False
"""
    code, reported = run_suite(tmp_path, text)
    assert code == 0 and "ERROR" not in reported, reported
    assert f"skipped 2: {LISTED}\nskipped 1: {LISTED}, so" in reported
    assert "tests: 1 passed, 0 failed, 3 skipped" in reported


def test_every_listed_reason_is_used_by_a_test() -> None:
    tests = "".join(
        path.read_text() for path in skips.README.parent.glob("tests/**/*.py") if path != Path(__file__)
    )
    reasons = skips.listed_reasons(skips.README.read_text())
    assert LISTED in reasons
    # Of a reason that is put together, its beginning is in the source.
    unused = [reason for reason in reasons if not re.search(re.escape(reason.partition(": ")[0]), tests)]
    assert unused == []


def test_nothing_is_listed_without_the_section() -> None:
    assert skips.listed_reasons("# a\n| `x` | y |\n") == ()
    assert skips.listed_reasons(f"{skips.HEADING}\n| `x` | y |\n\n## Next\n| `z` | y |\n") == ("x",)


def test_missing_program_fails_the_test_with_the_install_command() -> None:
    with pytest.raises(
        pytest.fail.Exception, match="frobnicator is not installed: run `scripts/setup system`"
    ):
        programs.find_program("frobnicator")
