"""Texts of others, made harmless for whoever reads them: what acts on a terminal or hides is spelled out.

Values of a fleet file, names of files, and what clouds and hosts answer end up in terminals, logs, comments
and XML. Escape sequences move a cursor or set a title, C1 codes do the same in one character, bidirectional
overrides make a line read as another, and XML has no way to hold some of them.
"""

from __future__ import annotations

import re

# C0 without tab and line feed, DEL, C1; the controls of Unicode that have no picture (line separators,
# bidirectional marks, overrides and isolates, invisible operators, the byte order mark, annotations, tags);
# surrogates and what is no character. Joiners stay: some scripts are written with them.
_ACTING = (
    "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb"
    "\\ufffe\\uffff\\ud800-\\udfff\\U000e0000-\\U000e007f"
)
ACTING = re.compile(f"[{_ACTING}]")
"""A character that acts on what shows it, or hides; in a text of many lines tabs and line feeds do not."""
ACTING_IN_LINE = re.compile(f"[\\t\\n{_ACTING}]")
"""The same where a text has one line, and another would pass for one of ours."""

_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def visible(text: str) -> str:
    r"""The text with such characters spelled out, as `\x1b`; lines and tabs stay.

    >>> visible("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return ACTING.sub(_spelled, text)


def visible_line(text: str) -> str:
    r"""As `visible`, on one line: a line feed is `\n`."""
    return ACTING_IN_LINE.sub(_spelled, text)


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    if match[0] in _SHORT:
        return _SHORT[match[0]]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
