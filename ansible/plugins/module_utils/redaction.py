"""Remove secrets from text: known values, and text that looks like a secret."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable

REMOVED = "[removed]"
SHORTEST = 8
_WORD = (
    r"(?:pass(?:word|wd|phrase|code)?|secret|token|api[ _-]?key|access[ _-]?key|credentials?|auth[_-]?key)"
)
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.S
        ),
        REMOVED,
    ),
    (re.compile(r"(?i)\b(authorization\s*[:=]\s*)[^\r\n]+"), rf"\1{REMOVED}"),
    (re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{8,}"), rf"\1{REMOVED}"),
    # name = value, "name": "value", name='two words'
    (
        re.compile(
            rf"(?i)([\w.-]*{_WORD}[\w-]*[\"']?\s*(?:=>|:=|[=:])\s*)(\"[^\"\n]*\"|'[^'\n]*'|[^\s\"',;]+)"
        ),
        rf"\1{REMOVED}",
    ),
    (re.compile(rf"(?i)(--?{_WORD}\s+)(\"[^\"\n]*\"|'[^'\n]*'|\S+)"), rf"\1{REMOVED}"),
    # A password in an address may have a slash; digits before one are a port.
    (re.compile(r"([a-z][a-z0-9+.-]*://[^\s/:@\"']*:)(?!\d{1,5}/)[^\s@\"']+@"), rf"\1{REMOVED}@"),
    # Webhooks: whoever has the path may post.
    (
        re.compile(
            r"(://(?:hooks\.[\w.-]+|[\w.-]*webhook\.office\.com|[\w.-]*discord(?:app)?\.com/api/webhooks)/)"
            r"[^\s\"'<>,;)]+"
        ),
        rf"\1{REMOVED}",
    ),
    # netrc
    (
        re.compile(
            r"(\b(?:machine\s+\S+|default)\s+(?:(?:login|account)\s+\S+\s+)*password\s+)(\"[^\"\n]*\"|\S+)"
        ),
        rf"\1{REMOVED}",
    ),
    # curl -u user:password; 1000:1000 are numbers of a user and a group.
    (
        re.compile(r"(\s(?:-u|--user)[ \t=]*[\"']?[^\s:\"']+:)(?!//|\d+(?:\s|$))[^\s\"']+"),
        rf"\1{REMOVED}",
    ),
    # -p is a password only of some programs: elsewhere it is a port, a parent folder or a partition.
    (
        re.compile(
            r"(\b(?:mysql\w*|mariadb[\w-]*|sshpass|(?:docker|podman|registry|nerdctl|helm) login)\b"
            r"[^\n|;&]*?\s-p[ \t]*)(\"[^\"\n]*\"|'[^'\n]*'|\S+)"
        ),
        rf"\1{REMOVED}",
    ),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"), REMOVED),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"), REMOVED),
    (re.compile(r"\b(?:nvapi-|hf_|gh[opsu]_|glpat-|xox[abprs]-)[\w-]{16,}"), REMOVED),
    # Password hashes, as in /etc/shadow.
    (re.compile(r"\$(?:1|2[aby]|5|6|7|y|gy)\$[^\s:]{16,}"), REMOVED),
)


def forms(values: Iterable[str]) -> list[str]:
    """All encodings of secret values, the longest first, without values that are too common."""
    found: set[str] = set()
    for value in values:
        plain = value.strip()
        if len(plain) < SHORTEST:
            continue
        found |= {plain, plain.encode().hex()}
        # Base64 of a text inside a longer one depends on its offset: three variants without the mixed ends.
        for shift in range(3):
            text = base64.b64encode(b"\0" * shift + plain.encode()).decode().rstrip("=")
            inner = text[-(-shift * 8 // 6) :][:-1]
            if len(inner) >= 2 * SHORTEST:
                found.add(inner)
    return sorted(found, key=len, reverse=True)


def redact(text: str, known: Iterable[str] = ()) -> str:
    """The text without secrets; `known` are encodings from `forms`."""
    for value in known:
        text = text.replace(value, REMOVED)
    for rule, put in _RULES:
        text = rule.sub(put, text)
    return text
