"""The command line: help, usage errors, JSON errors, pipes, signals and start time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

import gpufleet as package
from gpufleet.cli import console
from gpufleet.cli.commands import LazyCommands, LazyGroup
from gpufleet.cli.main import main
from gpufleet.errors import CloudError

from .conftest import FakeEngine, Gpufleet

PARTS = {
    "The fleet file": ["new", "init", "adopt", "validate", "plan", "schema", "catalog"],
    "Preview and check changes": ["check", "preview", "rules", "comment", "report"],
    "The cloud half": [
        "preflight", "up", "refresh", "destroy", "outputs", "eks-token", "state", "backend", "budget",
        "image",
    ],
    "The racks": ["inventory", "configure", "verify", "operate", "hostkeys", "secrets", "mirror"],
    "Cost and size": ["cost", "advise", "size", "spot", "tco", "usage"],
    "Try it on this machine": ["sandbox", "rack"],
}  # fmt: skip
VERBS = [verb for verbs in PARTS.values() for verb in verbs]


def test_help_lists_every_verb_in_order_of_use(gpufleet: Gpufleet) -> None:
    answer = gpufleet("--help")
    assert answer.code == 0
    parts: dict[str, list[str]] = {}
    for line in answer.out[answer.out.index(next(iter(PARTS))) :].splitlines():
        if line.endswith(":") and not line.startswith(" "):
            parts[line.removesuffix(":")] = []
        elif line.startswith("  ") and not line.startswith("   "):
            next(reversed(parts.values())).append(line.split()[0])
    assert parts == PARTS


@pytest.mark.parametrize("group", [(), ("state",), ("catalog",), ("sandbox",), ("rack",), ("secrets",)])
def test_each_command_is_described_in_full_sentences(gpufleet: Gpufleet, group: tuple[str, ...]) -> None:
    command = LazyGroup() if not group else LazyCommands()[group[0]]
    for name in command.commands:
        text = " ".join((command.commands[name].help or "").partition("\n\n")[0].split())
        assert text.endswith("."), name
        assert text[0].isupper(), name
        assert text in " ".join(gpufleet(*group, "-h").out.split()), name


@pytest.mark.parametrize("arguments", [(), ("up",), ("state", "list"), ("catalog",), ("catalog", "prices")])
def test_short_option_shows_the_same_help(gpufleet: Gpufleet, arguments: tuple[str, ...]) -> None:
    short, long = gpufleet(*arguments, "-h"), gpufleet(*arguments, "--help")
    assert (short.code, short.out) == (0, long.out)
    assert short.out.startswith("Usage: gpufleet")


def complete(workplace: Path, *words: str) -> list[str]:
    """Completions of the last word in bash."""
    env = os.environ | {
        "_GPUFLEET_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("gpufleet", *words)),
        "COMP_CWORD": str(len(words)),
    }
    command = [sys.executable, "-m", "gpufleet.cli.main"]
    done = subprocess.run(command, cwd=workplace, env=env, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.split()


def test_shell_completes_commands_environments_and_values(workplace: Path) -> None:
    assert complete(workplace, "previ") == ["preview"]
    assert complete(workplace, "up", "") == ["dev", "prod", "sandbox"]
    assert complete(workplace, "state", "list", "p") == ["prod"]
    assert complete(workplace, "up", "dev", "--cloud", "s") == ["sandbox"]
    assert complete(workplace, "init", "x", "--template", "h") == ["hybrid"]
    (workplace / "stacks" / "prod" / "fleet.yaml").unlink()
    assert complete(workplace, "up", "") == ["dev", "sandbox"]


def test_completion_script_is_printed() -> None:
    env = os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-m", "gpufleet.cli.main", "--show-completion", "bash"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "_GPUFLEET_COMPLETE=complete_bash" in done.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(gpufleet: Gpufleet, verb: str) -> None:
    answer = gpufleet(verb, "--help")
    assert answer.code == 0
    assert f"Usage: gpufleet {verb}" in answer.out
    assert "completion" not in answer.out


def test_version_equals_that_of_the_package(gpufleet: Gpufleet) -> None:
    answer = gpufleet("--version")
    assert (answer.code, answer.out) == (0, f"gpufleet {package.__version__}\n")


@pytest.mark.parametrize("arguments", [(), ("state",), ("sandbox",)])
def test_group_without_a_command_shows_its_help_and_exits_2(
    gpufleet: Gpufleet, arguments: tuple[str, ...]
) -> None:
    answer = gpufleet(*arguments)
    assert answer.code == 2
    assert answer.err.startswith("Usage: gpufleet")
    assert "error:" not in answer.err


@pytest.mark.parametrize(
    ("arguments", "message", "remedy"),
    [
        (("valdate",), "Did you mean 'validate'?", "see `gpufleet --help`"),
        (("state", "lst"), "Did you mean 'list'?", "see `gpufleet state --help`"),
        (("validate",), "Missing argument 'environment'", "see `gpufleet validate --help`"),
        (("validate", "--jsn", "dev"), "--json", "see `gpufleet validate --help`"),
        (("up", "dev", "--parallel", "0"), "'--parallel'", "see `gpufleet up --help`"),
        (("init", "x", "--template", "foo"), "'foo' is not one of 'sandbox'", "see `gpufleet init --help`"),
    ],
)
def test_invalid_command_line_is_bad_input_with_a_remedy(
    gpufleet: Gpufleet, arguments: tuple[str, ...], message: str, remedy: str
) -> None:
    answer = gpufleet(*arguments)
    assert answer.code == 2
    assert message in answer.err
    assert f"  fix: {remedy}" in answer.err
    assert "Value error" not in answer.err
    assert answer.out == ""


def test_invalid_command_line_is_an_object_with_json(gpufleet: Gpufleet) -> None:
    answer = gpufleet("up", "dev", "--parallel", "x", "--json")
    assert answer.code == 2
    assert list(answer.json) == ["error", "remedy", "exit_code"]
    assert answer.json["exit_code"] == 2
    assert answer.err == ""


def test_name_with_invalid_bytes_is_reported(gpufleet: Gpufleet) -> None:
    answer = gpufleet("validate", os.fsdecode(b"\xff"), "--json")
    assert answer.code == 2
    assert "no environment" in answer.json["error"]


def test_name_that_no_file_system_accepts_is_bad_input(gpufleet: Gpufleet) -> None:
    answer = gpufleet("outputs", "a" * 400)
    assert answer.code == 2
    assert "File name too long" in answer.err
    assert len(answer.err) < 300


def test_commands_are_imported_when_they_run() -> None:
    commands = LazyCommands()
    assert list(commands) == VERBS
    assert len(commands) == len(VERBS)
    with pytest.raises(KeyError):
        commands["nonsense"]


def last_line_of(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.splitlines()[-1]


def test_version_loads_neither_catalog_nor_models() -> None:
    code = (
        "import sys; from gpufleet.cli.main import main; main(['--version']);"
        "print(sorted({'pydantic', 'ruamel.yaml', 'grpc', 'pulumi', 'boto3'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_validate_loads_no_engine_and_no_cloud_library(workplace: Path) -> None:
    code = (
        "import sys; from gpufleet.cli.main import main; assert main(['validate', 'dev']) == 0;"
        "print(sorted({'grpc', 'pulumi', 'boto3', 'moto'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_closed_output_pipe_is_not_a_failure(workplace: Path) -> None:
    for arguments in (["plan", "prod"], ["schema"], ["plan", "prod", "--json"]):
        # The reader is gone before the first line: every write fails with EPIPE.
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [sys.executable, "-m", "gpufleet.cli.main", *arguments],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
            check=False,
        )
        os.close(writing)
        assert done.returncode == 0, (arguments, done.stderr)
        assert "Traceback" not in done.stderr
        assert "Broken" not in done.stderr


def test_sigterm_interrupts_and_the_previous_handler_is_restored(
    gpufleet: Gpufleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.sigtimedwait([], 0.2)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("gpufleet.checks.validate", killed)
    answer = gpufleet("validate", "dev")
    assert answer.code == 130
    assert answer.err.splitlines() == ["interrupted; run the same command again: `gpufleet validate dev`"]
    assert signal.getsignal(signal.SIGTERM) is before


def interrupts(swallow: Callable[[], object]) -> Callable[..., object]:
    """A part of a command during which a signal arrives, and which replaces the exception."""

    def part(*_: object, **__: object) -> object:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.sigtimedwait([], 0.2)
        except BaseException:
            return swallow()
        raise AssertionError("the signal has raised nothing")

    return part


def fails() -> object:
    raise RuntimeError("grpc: cancelled")


def ends() -> object:
    raise typer.Abort


def goes_on() -> object:
    return ()


@pytest.mark.parametrize("swallow", [goes_on, fails, ends])
def test_swallowed_interruption_exception_still_exits_130(
    gpufleet: Gpufleet, monkeypatch: pytest.MonkeyPatch, swallow: Callable[[], object]
) -> None:
    # The command would print the list, and end with 0.
    monkeypatch.setattr("gpufleet.policy.pack.load_rules", interrupts(swallow))
    answer = gpufleet("rules")
    assert answer.code == 130
    assert answer.err.splitlines() == ["interrupted; run the same command again: `gpufleet rules`"]
    answer = gpufleet("rules", "--json")
    assert answer.code == 130
    last = json.loads(answer.out.splitlines()[-1])
    assert (last["error"], last["exit_code"]) == ("interrupted", 130)


def test_unsaved_work_is_reported_after_an_interruption(
    gpufleet: Gpufleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> object:
        raise CloudError("the state cannot be written: no space left")

    monkeypatch.setattr("gpufleet.policy.pack.load_rules", interrupts(full))
    answer = gpufleet("rules")
    assert answer.code == 130
    assert answer.err.splitlines() == [
        "error: the state cannot be written: no space left",
        "interrupted; run the same command again: `gpufleet rules`",
    ]


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("-q", "up", "dev", "--yes"), "interrupted; the state is kept; run the same command to continue"),
        (("check", "dev"), "interrupted; nothing was changed; run the same command again"),
        (("catalog", "refresh"), "interrupted; the catalog is unchanged; run the same command again"),
        (("rack", "up"), "interrupted; downloads are kept; run the same command again"),
    ],
)
def test_interruption_reports_what_is_kept(
    gpufleet: Gpufleet, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], reported: str
) -> None:
    monkeypatch.setattr("gpufleet.cli.main.get_command", interrupts(fails))
    answer = gpufleet(*arguments)
    assert answer.code == 130
    assert answer.err == f"{reported}: `{' '.join(('gpufleet', *arguments))}`\n"


def test_internal_error_shows_no_traceback(
    workplace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("[red]not markup[/red] :x:")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("gpufleet.checks.validate", broken)
    assert main(["plan", "dev"]) == 3
    shown = capsys.readouterr().err
    assert "internal error (RuntimeError: [red]not markup[/red] :x:)" in shown
    assert "Traceback" not in shown


def test_run_continues_to_its_end_when_the_output_pipe_closes(
    workplace: Path, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.out, "quiet", False)
    reading, writing = os.pipe()
    os.close(reading)
    kept = os.dup(1)
    os.dup2(writing, 1)
    os.close(writing)
    try:
        with open(1, "w", closefd=False, encoding="utf-8") as stdout:
            before, sys.stdout = sys.stdout, stdout
            try:
                code = main(["up", "dev", "--yes"])
            finally:
                sys.stdout = before
    finally:
        os.dup2(kept, 1)
        os.close(kept)
    assert code == 0
    assert engine.verbs == ["export", "up"]
    assert console.out.quiet
