"""YAML's syntax errors in words: what is wrong on which line, and what to do about it."""

from __future__ import annotations

import yaml

from gpufleet.findings import Finding


def line_of(text: str, line: int) -> str:
    """The text of a line (from 1), cut to what a screen shows."""
    lines = text.splitlines()
    return lines[line - 1].strip()[:120] if 0 < line <= len(lines) else ""


_PROBLEMS = (
    (
        "mapping values are not allowed",
        "there is a ': ' inside a plain value, or the line is indented too far",
        "put the value in quotes, or line it up with the key above",
    ),
    (
        "did not find expected ',' or '",
        "a bracket or brace is not closed",
        "close it with ']' or '}', with commas between the values",
    ),
    ("unexpected end of stream", "a quote is not closed", "add the missing quote"),
    ("unexpected end of document", "a quote is not closed", "add the missing quote"),
    (
        "did not find expected key",
        "the indentation does not match the lines above, or a ':' is missing",
        "line it up with the keys it belongs to",
    ),
    (
        "could not find expected ':'",
        "the ':' after a key is missing",
        "write 'key: value', with a space after the ':'",
    ),
    (
        "did not find expected '-' indicator",
        "the indentation does not match the list above",
        "line the '-' up with the others",
    ),
    ("tab character", "a tab is used for indentation", "use spaces"),
    (
        "cannot start any token",
        "a value starts with a character that YAML keeps for itself (@, `, %, or a tab)",
        "put the value in quotes, and indent with spaces",
    ),
    (
        "unknown escape character",
        "an unknown '\\' escape in double quotes",
        "use single quotes, or write '\\\\'",
    ),
    (
        "did not find expected <document start>",
        "text follows where the document has ended",
        "check brackets and indentation of the lines above",
    ),
)


def syntax_finding(error: yaml.YAMLError, text: str, file: str) -> Finding:
    """A YAML syntax error in words, with its line and what to do about it."""
    mark = getattr(error, "problem_mark", None)
    context_mark = getattr(error, "context_mark", None)
    problem = str(getattr(error, "problem", "") or error)
    last = max(1, len(text.splitlines()))
    line = min(mark.line + 1, last) if mark is not None else 1
    message, remedy = f"not valid YAML ({problem})", "check indentation, quotes and brackets here"
    for part, words, advice in _PROBLEMS:
        if part in problem:
            message, remedy = f"not valid YAML: {words}", advice
            break
    if context_mark is not None and context_mark.line + 1 != line:
        message += f" (it began on line {context_mark.line + 1})"
    return Finding(
        file=file,
        line=line,
        field="",
        value=line_of(text, line),
        rule="yaml-syntax",
        message=message,
        remedy=remedy,
    )
