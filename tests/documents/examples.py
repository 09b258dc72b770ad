"""Output of the README's commands, in a separate checkout; `make readme` writes it into the README."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.conftest import ROOT, Checkout, make_checkout
from tests.documents.blocks import GAP, Block, blocks_of

README = ROOT / "README.md"
_LINE = re.compile(r":\d+:")
_COMMIT = re.compile(r"\((?=[0-9a-f]{12}\))[0-9a-f]{12}\)")


def _edit(checkout: Checkout, environment: str, *changes: tuple[str, str]) -> None:
    path = checkout.root / "stacks" / environment / "fleet.yaml"
    text = path.read_text(encoding="utf-8")
    for before, after in changes:
        assert text.count(before) == 1, f"{path} has {before!r} {text.count(before)} times"
        text = text.replace(before, after)
    path.write_text(text, encoding="utf-8")


def _commit(checkout: Checkout) -> None:
    from tests.unit.verdict.conftest import Git

    shutil.copy(ROOT / ".gitignore", checkout.root)
    Git(checkout.root).commit()


def _plan(checkout: Checkout) -> str:
    return str(checkout.run("plan", "sandbox").stdout)


def _validate(checkout: Checkout) -> str:
    _edit(checkout, "prod", ("capacity: 48000 GiB", "capacity: 3600 GiB"))
    return str(checkout.run("validate", "prod").stderr)


def _check(checkout: Checkout) -> str:
    _commit(checkout)
    _edit(
        checkout,
        "dev",
        ("on_demand: { min: 0, max: 4, desired: 1 }", "on_demand: { min: 0, max: 40, desired: 1 }"),
        ("spot: { min: 0, max: 4,", "spot: { min: 0, max: 8,"),
    )
    return str(checkout.run("check", "dev", "--base", "HEAD").stdout)


EXAMPLES: dict[str, Callable[[Checkout], str]] = {
    "gpufleet plan sandbox": _plan,
    "gpufleet validate prod": _validate,
    "gpufleet check dev --base HEAD": _check,
}
"""Command -> its function. The command is in the block after `$`, or in the text line above it."""


def example_of(block: Block) -> str:
    """The command whose output a block shows; "" for a block of something else."""
    first = block.lines[0].removeprefix("$ ") if block.lines else ""
    for command in EXAMPLES:
        if first == command or (not block.language and f"`{command}`" in block.introduction):
            return command
    return ""


def printed_lines(text: str) -> list[str]:
    """Normalize output for blocks: no trailing spaces, and one commit for all."""
    return [_COMMIT.sub("(0123456789ab)", line.rstrip()) for line in text.splitlines()]


def missing(block: Block, printed: list[str]) -> list[str]:
    """The first chunk of the block that is missing in the output after the previous ones; [] if none is."""
    at = 0
    for chunk in block.chunks:
        wanted = printed_lines("\n".join(chunk))
        places = range(at, len(printed) - len(wanted) + 1)
        found = next((place for place in places if printed[place : place + len(wanted)] == wanted), None)
        if found is None:
            return wanted
        at = found + len(wanted)
    return []


def rewritten(block: Block, printed: list[str]) -> list[str]:
    """The block's lines with each chunk as printed now, from its first line's words to its last line's."""
    lines = [line for line in block.lines[:1] if line.startswith("$ ")]
    at = 0
    for number, chunk in enumerate(block.chunks):
        start = _find(chunk[0], printed, at, block)
        end = _find(chunk[-1], printed, start, block)
        lines += [GAP] if number else []
        lines += printed[start : end + 1]
        at = end + 1
    return lines


def _find(line: str, printed: list[str], at: int, block: Block) -> int:
    """The next printed line with the longest common prefix of words with `line`, apart from line numbers."""
    words = _LINE.sub(":", line).split()
    for count in (3, 2, 1):
        for place in range(at, len(printed)):
            if words and _LINE.sub(":", printed[place]).split()[:count] == words[:count]:
                return place
    raise SystemExit(f"{block.place}: nothing printed begins as {line!r}: change the block by hand")


def main() -> int:
    """Write the README's output again."""
    for command, run in EXAMPLES.items():
        with tempfile.TemporaryDirectory() as folder:
            checkout = make_checkout(Path(folder))
            printed = printed_lines(run(checkout))
            checkout.run("sandbox", "stop")
        lines = README.read_text(encoding="utf-8").splitlines()
        block = next(block for block in blocks_of(README) if example_of(block) == command)
        lines[block.line - 1 : block.line - 1 + len(block.lines)] = rewritten(block, printed)
        README.write_text("\n".join(lines) + "\n", encoding="utf-8")
        sys.stdout.write(f"{block.place}: {command}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
