"""The lines of a verdict's file, as they may be posted: known ones as they are, all others as text.

Whoever writes the file chooses every character of it. What is kept is what `gpufleet check --markdown`
writes: one heading, two lists, tables, and folded sections with known titles. Texts are escaped again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpufleet.comment_form import ADVICE, FAILS, FOLDED, SENTENCES, heading, inert

LONGEST_LINE = 4_000
"""Characters of a line; the rest is cut."""

_SEPARATOR = re.compile(r"\| --- \|(?: ---: \|){0,11}")
_CELLS = re.compile(r"(?<!\\)(?:\\\\)*\|")
_RULE = re.compile(r"(.*?) \*\*([a-z0-9](?:[a-z0-9-]|\u200b){0,98}) ?\*\*( .*|)")
_SUMMARY = re.compile(r"<summary>([A-Za-z0-9 ,:()-]{1,200})</summary>")
_SECTIONS = (FAILS, ADVICE)


class ContradictoryError(ValueError):
    """The file has no heading, or one that its own list of failures contradicts."""


def posted_lines(environment: str, lines: Sequence[str]) -> list[str]:
    """Return the lines of a file, without its first one, as they may be posted.

    Raises ContradictoryError for a file without the heading, or that lists failures and says that it passed.
    """
    headings = {heading(environment, passed=passed): passed for passed in (True, False)}
    first, rest = (lines[0], lines[1:]) if lines else ("", [])
    passed = headings.get(first)
    if passed is None:
        raise ContradictoryError("it has no heading of a verdict")
    body = list(_body(rest))
    if passed == (FAILS in body):
        raise ContradictoryError("its heading and its list of failures contradict each other")
    lines = [first, *body]
    return [line for number, line in enumerate(lines) if line or (number and lines[number - 1])]


def _body(lines: Sequence[str]) -> Iterator[str]:
    sections, folded, number = list(_SECTIONS), False, 0
    while number < len(lines):
        line = lines[number][:LONGEST_LINE]
        number += 1
        title = _title(lines[number][:LONGEST_LINE]) if number < len(lines) else ""
        if line in sections:
            sections.remove(line)
            yield line
        elif line == "<details>" and title and not folded:
            # An empty line ends the block of HTML, whatever follows.
            folded, number = True, number + 1
            yield from ("<details>", title, "")
        elif line == "</details>" and folded:
            folded = False
            yield from ("", "</details>", "")
        else:
            yield _line(line)
    if folded:
        yield from ("", "</details>", "")


def _title(line: str) -> str:
    found = _SUMMARY.fullmatch(line)
    return line if found and found[1].startswith(FOLDED) else ""


def _line(line: str) -> str:
    text = line.strip(" ")
    if not text or _SEPARATOR.fullmatch(text):
        return text
    if text.startswith("| ") and text.endswith(" |"):
        cells = [inert(cell) for cell in _split(text[1:-1])]
        return f"| {' | '.join(cells)} |"
    if text.startswith("- "):
        return f"- {_item(text[2:])}"
    for sentence in SENTENCES:
        if text.startswith(f"{sentence} "):
            return f"{sentence} {inert(text.removeprefix(sentence))}"
    return inert(text)


def _split(row: str) -> Iterator[str]:
    """Yield the cells of a row; a backslash before the bar belongs to the text."""
    start = 0
    for found in _CELLS.finditer(row):
        yield row[start : found.end() - 1]
        start = found.end()
    yield row[start:]


def _item(text: str) -> str:
    found = _RULE.fullmatch(text)
    if found is None:
        return inert(text)
    place, rule, rest = found.groups()
    more = inert(rest)
    return f"{inert(place)} **{inert(rule)}**{' ' if more else ''}{more}"
