"""Escapes characters in foreign text that control a terminal or are invisible.

Values of a fleet file, file names, and answers of clouds and hosts appear in terminals, logs, comments and
XML. Escape sequences move a cursor or set a title, C1 codes do the same in one character, bidirectional
overrides make a line read differently, and XML cannot hold some of them.
"""

from __future__ import annotations

import re

# C0 without tab and line feed, DEL, C1; Unicode's invisible controls (line separators, bidirectional marks,
# overrides and isolates, invisible operators, the byte order mark, annotations, tags); surrogates and
# noncharacters. Joiners stay: some scripts are written with them.
_ACTING = (
    "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb"
    "\\ufffe\\uffff\\ud800-\\udfff\\U000e0000-\\U000e007f"
)
ACTING = re.compile(f"[{_ACTING}]")
"""A character that controls its display or is invisible, except tabs and line feeds in multi-line text."""
ACTING_IN_LINE = re.compile(f"[\\t\\n{_ACTING}]")
"""The same for single-line text, where a second line could imitate one of ours."""

_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def visible(text: str) -> str:
    r"""Return the text with such characters escaped, as `\x1b`; lines and tabs stay.

    >>> visible("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return ACTING.sub(_spelled, text)


def visible_line(text: str) -> str:
    r"""As `visible`, on one line: a line feed becomes `\n`."""
    return ACTING_IN_LINE.sub(_spelled, text)


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    if match[0] in _SHORT:
        return _SHORT[match[0]]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
