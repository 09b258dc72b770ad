"""Known host keys, read with the rules of ssh before a run starts.

Ansible refuses a host whose key is unknown anyway. Asking first turns a hundred unreachable hosts
into one finding with its remedy.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

SSH_PORT = 22


class HostKey(Struct, frozen=True):
    """A line of a known_hosts file. `names` are patterns or one hashed name; `kind` and `key` the key."""

    marker: str
    names: str
    kind: str
    key: str


def read_known_hosts(paths: Iterable[Path]) -> list[HostKey]:
    """The keys of all files that exist; lines that are no keys are passed over, as ssh does."""
    keys = []
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        for line in text.splitlines():
            fields = line.split()
            if not fields or fields[0].startswith("#"):
                continue
            marker = fields.pop(0) if fields[0].startswith("@") else ""
            if len(fields) >= 3:
                keys.append(HostKey(marker, fields[0], fields[1], fields[2]))
    return keys


def is_known(address: str, port: int, keys: Iterable[HostKey]) -> bool:
    """Return whether a key or certificate authority is trusted for the address. Revoked keys do not count."""
    name = known_name(address, port)
    return any(key.marker != "@revoked" and _matches(name, key.names) for key in keys)


def known_name(address: str, port: int) -> str:
    """The name under which ssh keeps the key: with the port in brackets unless it is 22."""
    return address.lower() if port == SSH_PORT else f"[{address.lower()}]:{port}"


def fingerprint(key: str) -> str:
    """The SHA256 fingerprint of a key's base64 text, as `ssh-keygen -l` shows it; empty if it is none."""
    try:
        digest = hashlib.sha256(base64.b64decode(key, validate=True)).digest()
    except binascii.Error:
        return ""
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def _matches(name: str, names: str) -> bool:
    if names.startswith("|1|"):
        return _matches_hash(name, names)
    found = False
    for pattern in names.lower().split(","):
        # A bracket is literal in known_hosts and a set in fnmatch.
        literal = pattern.lstrip("!").replace("[", "[[]")
        if fnmatchcase(name, literal):
            if pattern.startswith("!"):
                return False
            found = True
    return found


def _matches_hash(name: str, names: str) -> bool:
    try:
        _, _, salt, wanted = names.split("|")
        found = hmac.new(base64.b64decode(salt), name.encode(), hashlib.sha1).digest()
        return hmac.compare_digest(found, base64.b64decode(wanted))
    except (ValueError, binascii.Error):
        return False
