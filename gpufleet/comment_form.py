"""The form of a verdict's comment, which its writer and the job that posts it share.

The file of a verdict may come from a job that ran a change's own code, so the posting job accepts only the
lines that are listed here, and shows everything else as text. Standard library only.
"""

from __future__ import annotations

import re

from gpufleet.visible import visible_line

FAILS, ADVICE = "#### Fails", "#### Advice"
EDITS = "**The change edits files that decide its verdict:**"
JUDGED = "**Judging code:**"
SENTENCES = (EDITS, JUDGED)
"""Beginnings of paragraphs, in bold type."""

FOLDED = (
    "Cost, line by line",
    "Resources",
    "On-premises: power, space, licences",
    "Rules",
    "Exemptions",
)
"""Beginnings of the titles of folded sections."""

_BREAK = "\u200b"
_MARKUP = re.compile(r"([\\`*_\[\]|~$])")
_ENTITIES = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"))
# Mentions, issues and other references of GitHub and GitLab, also of trackers that a project adds (ABC-1);
# protocols and hosts that become links; GitLab's references in brackets and its marks of inline differences.
_LINKS = re.compile(
    r"""[@#!~%$&^](?=[\w"'{*]) | :(?=//) | [Ww]{3}(?=\.) | [Gg][Hh](?=-\d) | \b[A-Z][A-Z0-9_]+(?=-\d)
    | [\[{](?=\S)""",
    re.VERBOSE,
)
# What starts a block at the beginning of a line or of an item, and a command of a bot or of GitLab.
_START = re.compile(r"[#+\-=:/]|\d{1,9}[.)](?=\s|$)")


def marker(environment: str) -> str:
    """Return the hidden first line, which identifies the comment of an environment."""
    return f"<!-- gpufleet check {environment} -->"


def heading(environment: str, *, passed: bool) -> str:
    """Return the first visible line."""
    return f"### gpufleet check {escaped(environment)}: {'pass' if passed else '**fail**'}"


def escaped(text: str) -> str:
    r"""Return one line of Markdown that shows `text` and has no effect, in GitHub and in GitLab.

    No HTML, link, image, mention, reference, fence, heading, list or command. An invisible break separates
    what would start one, since both hosts also search the text that they have rendered.

    >>> escaped("a <b> [c](d)")
    'a &lt;b&gt; \\[\u200bc\\](d)'
    """
    clean = visible_line(" ".join(text.split())).replace(_BREAK, "")
    clean = _LINKS.sub(lambda match: f"{match[0]}{_BREAK}", clean)
    for character, entity in _ENTITIES:
        clean = clean.replace(character, entity)
    clean = _MARKUP.sub(r"\\\1", clean)
    return f"{_BREAK}{clean}" if _START.match(clean) else clean


def unescaped(markdown: str) -> str:
    """Return the text of which `escaped` makes `markdown`; any other line is returned as text, too."""
    text = re.sub(r"\\([\\`*_\[\]|~$])", r"\1", markdown.replace(_BREAK, ""))
    for character, entity in reversed(_ENTITIES):
        text = text.replace(entity, character)
    return text


def inert(markdown: str) -> str:
    """Return a line of `escaped` unchanged, and any other one as its text."""
    return escaped(unescaped(markdown))
