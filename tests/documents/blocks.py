"""The fenced blocks of a document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md")))
_FENCE = re.compile(r"(\s*)```(\w*)")
GAP = "..."


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `line` is that of its first line in the file, `introduction` the text line above it."""

    file: Path
    line: int
    language: str
    lines: tuple[str, ...]
    introduction: str

    @property
    def place(self) -> str:
        """`README.md:53`."""
        return f"{self.file.relative_to(ROOT)}:{self.line}"

    @property
    def chunks(self) -> list[list[str]]:
        """The lines between `...`, without the command and blank lines at the ends."""
        found: list[list[str]] = [[]]
        for line in self.lines:
            if line == GAP:
                found.append([])
            elif not line.startswith("$ "):
                found[-1].append(line.rstrip())
        return [_trimmed(chunk) for chunk in found if _trimmed(chunk)]


def _trimmed(lines: list[str]) -> list[str]:
    lines = list(lines)
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def blocks_of(file: Path) -> Iterator[Block]:
    """The blocks of a Markdown file, in order."""
    lines = file.read_text(encoding="utf-8").splitlines()
    number, above = 0, ""
    while number < len(lines):
        fence = _FENCE.fullmatch(lines[number])
        if fence is None:
            above = lines[number] or above
            number += 1
            continue
        start = number + 1
        end = next(at for at in range(start, len(lines)) if lines[at].strip() == "```")
        body = tuple(line.removeprefix(fence[1]) for line in lines[start:end])
        yield Block(file, start + 1, fence[2], body, above)
        number = end + 1


_SHELL = ("", "console", "sh", "shell", "bash")
_COMMAND = re.compile(
    r"(?:\$ )?((?:gpufleet|pulumi|make|export|cd|mv|curl|git|ansible\S*|scontrol|sinfo|/)\b.*|/\S+.*)"
)


def commands_of(block: Block) -> list[str]:
    """The command lines of a shell block; output below a `$` line is skipped."""
    if block.language not in _SHELL:
        return []
    prompted = any(line.startswith("$ ") for line in block.lines)
    found = []
    for line in block.lines:
        command = _COMMAND.fullmatch(line)
        if command is not None and line.startswith("$ ") >= prompted:
            found.append(re.sub(r"\s{2,}#.*", "", command[1]).rstrip())
    return found
