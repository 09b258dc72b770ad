"""Run README and guides in a terminal: each command that they print runs, and no table breaks a word.

One checkout and one sandbox serve all commands, in the order of the documents. Commands with an engine run
once, at 80 columns; the others at 80 and 120 columns, and once so wide that nothing wraps, for the words.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpufleet.cli.commands import LazyCommands
from tests.conftest import ROOT, Checkout, make_checkout
from tests.documents.blocks import DOCUMENTS, Block, blocks_of, commands_of
from tests.documents.examples import EXAMPLES
from tests.documents.terminal import TerminalOutput, in_terminal
from tests.unit.verdict.conftest import Git

pytestmark = pytest.mark.xdist_group("e2e-documents")

ELSEWHERE = {
    r"make (up|test)\b": "sets up the checkout and runs this test; `make test-fresh` runs both",
    r"(export PATH=.*)?pulumi (login|preview|up|stack|config)\b": "the Pulumi CLI: tests/engine/against_cli",
    r"export PATH=": "only for the Pulumi CLI",
    r"gpufleet state export prod --cloud aws|mv \.gpufleet/state/aws": "needs a state of a real account",
    r"gpufleet (preflight|backend create|budget show|budget resume) prod": "needs an account",
    r"gpufleet adopt (found|dc)|gpufleet (preview|up) found": "needs an account: tests/unit/cli",
    r"gpufleet image build prod": "needs an account: tests/unit/cli and tests/rack",
    r"git add Pulumi.yaml": "commits what a command wrote that needs an account",
    r"gpufleet up prod$|gpufleet refresh prod && gpufleet up prod": "needs the Pulumi CLI and an account",
    r"gpufleet backend print": "prints documents that are copied, and never wraps them: tests/unit/account",
    r"gpufleet state repair dev --(adopt|forget)": "needs an interrupted creation: tests/engine",
    r"gpufleet (operate|configure|verify|hostkeys) prod": "needs prod's racks: tests/rack has containers",
    r"(cd ansible && )?ansible-playbook": "needs prod's racks: tests/rack",
    r"scontrol|sinfo|/usr/lib/gpufleet": "runs on a rack host: tests/rack",
    r"gpufleet mirror (images|check) prod|skopeo ": "needs racks with Kubernetes: tests/unit/racks/mirror",
}
"""Pattern of commands that do not run here -> reason, and the test that runs them."""

FIRST = ("gpufleet init walk --template sandbox --yes", "gpufleet preview dev", "gpufleet up dev --yes")
"""Assumption of the guides: dev is deployed. Its cloud is the sandbox here."""

BEYOND = (
    *("gpufleet --help", "gpufleet validate dev", "gpufleet plan sandbox", "gpufleet plan prod"),
    *("gpufleet catalog", "gpufleet catalog prices --gpu H100", "gpufleet catalog systems"),
    *(
        "gpufleet catalog storage",
        "gpufleet catalog software",
        "gpufleet rules",
        "gpufleet rules imdsv2-required",
    ),
    *("gpufleet outputs dev", "gpufleet sandbox status", "gpufleet sandbox faults"),
    *("gpufleet refresh dev --yes", "gpufleet destroy dev --yes --allow-data-loss", "gpufleet sandbox reset"),
)
"""Commands with tables that are in text and not in blocks."""

_SLOW = re.compile(
    r"gpufleet (init|preview|up|check|refresh|destroy|state (import|repair)|secrets|sandbox reset)\b"
)
# Output for programs: never wrapped.
_RAW = re.compile(r"gpufleet (schema|inventory|state (show|export))\b|--json\b|ansible-inventory")
# Headings of first columns: a table that becomes lists has none.
_HEADINGS = {
    "rank",
    "supply",
    "┃",
    "type",
    "name",
    "site",
    "node",
    "group",
    "storage",
    "rule",
    "what",
    "system",
    "key",
    "channel",
}


def printed_commands() -> list[tuple[str, str]]:
    """(place, command) of all shell blocks."""
    return [
        (block.place, command)
        for file in DOCUMENTS
        for block in blocks_of(file)
        for command in commands_of(block)
    ]


def elsewhere(command: str) -> str:
    """Why the command does not run here; "" for one that does."""
    return next((pattern for pattern in ELSEWHERE if re.match(pattern, command)), "")


@dataclass
class Walk:
    """A checkout with dev in the sandbox, its repository, and the environment of a user's shell."""

    checkout: Checkout
    env: dict[str, str]

    def at(self, width: int, command: str) -> TerminalOutput:
        return in_terminal(command, width=width, cwd=self.checkout.root, env=self.env, timeout_s=600)


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """The checkout of the walk, as the guides assume it."""
    made = make_checkout(tmp_path_factory.mktemp("walk"))
    (made.root / "stacks" / "Pulumi.dev.yaml").write_text(
        'config:\n  gpufleet:cloud: sandbox\n  gpufleet:protect: "false"\n'
    )
    (made.root / "policy-config.json").write_text(_json_of("policies.md", "hop_limit"))
    # What Python and the commands write is no change.
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8")
    (made.root / ".gitignore").write_text(f"{ignored}plots/\n*.html\n", encoding="utf-8")
    Git(made.root).commit()
    env = os.environ | made.env
    env |= {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "GPUFLEET_VAULT_PASSWORD": "walk",
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    yield Walk(made, env)
    made.run("sandbox", "stop")


def _json_of(guide: str, text: str) -> str:
    file = ROOT / "docs" / "guide" / guide
    (block,) = (each for each in blocks_of(file) if each.language == "json" and text in "".join(each.lines))
    return "\n".join(block.lines)


def words_broken(narrow: TerminalOutput, wide: TerminalOutput, width: int) -> set[str]:
    """Words of the wide screen that are broken on the narrow one; longer ones than its width are skipped."""
    headings = _HEADINGS | {each.capitalize() for each in _HEADINGS}
    return {word for word in wide.words - narrow.words - headings if len(word) <= width - 8}


def faults_of(walk: Walk, place: str, command: str) -> list[str]:
    """Errors of a command in a terminal: exit code, too long lines, broken words."""
    widths = (80,) if _SLOW.search(command) else (80, 120)
    found = []
    wide = walk.at(1000, command) if len(widths) > 1 and not _RAW.search(command) else None
    for width in widths:
        shown = walk.at(width, command)
        where = f"{place}: {command}: at {width} columns"
        if shown.code != 0:
            found.append(f"{where}: exit code {shown.code}:\n{shown.text[-2000:]}")
        elif not _RAW.search(command):
            found += [f"{where}: too long: {line}" for line in shown.lines if len(line) > width]
            broken = words_broken(shown, wide, width) if wide is not None else set()
            found += [f"{where}: broken: {sorted(broken)}"] if broken else []
    return found


def test_every_command_of_readme_and_guides_runs_and_fits_the_screen(walk: Walk) -> None:
    found: list[str] = []
    # Commands whose output the README shows run for that, with their prerequisites.
    printed = [each for each in printed_commands() if not elsewhere(each[1]) and each[1] not in EXAMPLES]
    for place, command in [
        *(("before", each) for each in FIRST),
        *printed,
        *(("text", each) for each in BEYOND),
    ]:
        found += faults_of(walk, place, command)
    assert not found, "\n".join(found)


def test_each_reason_not_to_run_a_command_is_needed() -> None:
    commands = [command for _, command in printed_commands()]
    unused = [pattern for pattern in ELSEWHERE if not any(elsewhere(each) == pattern for each in commands)]
    assert unused == []


_INLINE = re.compile(r"`gpufleet ([a-z][^`\n]*)`")


@pytest.mark.fresh
def test_every_command_in_a_text_exists_with_its_options() -> None:
    unknown = []
    for file in DOCUMENTS:
        for words in _INLINE.findall(file.read_text(encoding="utf-8")):
            # Two required checks on GitHub.
            checks = ("verdict", "own code")
            fault = _unknown(words.replace("\\|", "|").split()) if words not in checks else ""
            if fault:
                unknown.append(f"{file.name}: gpufleet {words}: {fault}")
    assert unknown == []


def _unknown(words: list[str]) -> str:
    commands: object = LazyCommands()
    while True:
        names = words[0].split("|")
        absent = [name for name in names if name not in commands]  # type: ignore[operator]
        if absent:
            return f"no command {absent[0]}"
        command, words = commands[names[0]], words[1:]  # type: ignore[index]
        commands = getattr(command, "commands", None)
        if not commands or not words or not re.fullmatch(r"[a-z|]+", words[0]):
            break
    known = {option for parameter in command.params for option in parameter.opts} | {"-h", "--help"}
    if commands:
        known |= {option for each in commands.values() for p in each.params for option in p.opts}
    options = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    return f"no option {sorted(options - known)}" if options - known else ""


# -- the walk finds errors


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (("one two three",), set()),
        (("one tw", "o three"), {"two"}),
        (("one two,", "three"), set()),
    ],
)
def test_changed_word_is_found(lines: tuple[str, ...], found: set[str]) -> None:
    assert words_broken(TerminalOutput(0, lines), TerminalOutput(0, ("one two three",)), 80) == found


def test_emulated_terminal_has_a_width_and_answers_prompts(tmp_path: Path) -> None:
    ask = (
        "stty size; printf 'Go on? [y/N]: '; read answer; printf '\\033[31mgot %s\\033[0m\\n' $answer; exit 3"
    )
    shown = in_terminal(ask, width=93, cwd=tmp_path, env=dict(os.environ), timeout_s=30)
    assert shown.code == 3
    assert shown.lines[0] == "40 93"
    assert "got y" in shown.lines


def test_commands_are_read_from_blocks_without_comments_and_output() -> None:
    def block(*lines: str, language: str = "") -> Block:
        return Block(ROOT / "README.md", 1, language, lines, "")

    assert commands_of(block("$ gpufleet plan x  # why", "error: no", "gpufleet is")) == ["gpufleet plan x"]
    assert commands_of(block("gpufleet plan x", "pulumi up", "words")) == ["gpufleet plan x", "pulumi up"]
    assert commands_of(block("gpufleet: 1", language="yaml")) == []
