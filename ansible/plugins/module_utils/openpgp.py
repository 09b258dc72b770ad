"""OpenPGP keyrings of vendors: their keys by fingerprint (RFC 4880)."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator

# Tag of a primary key packet; the packets up to the next one belong to it.
PUBLIC_KEY = 6


def keys_in(data: bytes) -> dict[str, bytes]:
    """Primary keys of a keyring by fingerprint, each with its packets."""
    found: dict[str, bytes] = {}
    current = ""
    for tag, body, whole in split_packets(dearmor(data)):
        if tag == PUBLIC_KEY:
            current = fingerprint_of(body)
            found[current] = b""
        if current:
            found[current] += whole
    return found


def dearmor(data: bytes) -> bytes:
    """The packets of a key, armored or binary."""
    if b"-----BEGIN PGP PUBLIC KEY BLOCK-----" not in data:
        return data
    packets = b""
    pattern = rb"-----BEGIN PGP PUBLIC KEY BLOCK-----(.*?)-----END PGP PUBLIC KEY BLOCK-----"
    for block in re.findall(pattern, data, re.S):
        _, _, body = block.replace(b"\r", b"").partition(b"\n\n")
        lines = [line.strip() for line in body.split(b"\n") if line.strip() and line[:1] != b"="]
        packets += base64.b64decode(b"".join(lines), validate=True)
    return packets


def split_packets(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Tag, body and raw bytes of each packet. Raises ValueError for other data."""
    at = 0
    while at < len(data):
        first = data[at]
        if not first & 0x80:
            raise ValueError("not a series of OpenPGP packets")
        start = at
        if first & 0x40:
            tag, at = first & 0x3F, at + 1
            length, at = _new_length(data, at)
        else:
            tag, size = (first >> 2) & 0x0F, first & 0x03
            if size == 3:
                raise ValueError("a packet of no known length")
            width = 1 << size
            length = int.from_bytes(data[at + 1 : at + 1 + width], "big")
            at += 1 + width
        if at + length > len(data):
            raise ValueError("cut off in the middle of a packet")
        yield tag, data[at : at + length], data[start : at + length]
        at += length


def _new_length(data: bytes, at: int) -> tuple[int, int]:
    one = data[at] if at < len(data) else 255
    if one < 192:
        return one, at + 1
    if one < 224 and at + 1 < len(data):
        return ((one - 192) << 8) + data[at + 1] + 192, at + 2
    if one == 255 and at + 5 <= len(data):
        return int.from_bytes(data[at + 1 : at + 5], "big"), at + 5
    raise ValueError("a packet of no known length")


def fingerprint_of(body: bytes) -> str:
    """The fingerprint of a version 4 public key packet, in upper case."""
    if body[:1] != b"\x04":
        return f"(version {body[0] if body else '?'} key)"
    # Definition of the fingerprint (RFC 4880, 12.2).
    material = b"\x99" + len(body).to_bytes(2, "big") + body
    return hashlib.sha1(material, usedforsecurity=False).hexdigest().upper()
