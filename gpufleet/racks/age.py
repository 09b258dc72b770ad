"""Identities of age, which decrypt copies of backups.

age-encryption.org/v1, "The X25519 recipient type": Bech32 (BIP 173) of 32 random bytes. The
recipient is derived where it is needed, by the filter `gpufleet.rack.age_recipient`.
"""

from __future__ import annotations

import secrets

_PREFIX = "age-secret-key-"
_LETTERS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_CHECKSUM = 6
_BYTES = 32


def new_identity() -> str:
    """Return a new identity, `AGE-SECRET-KEY-1...`."""
    bits = "".join(f"{byte:08b}" for byte in secrets.token_bytes(_BYTES)) + "0" * 4
    values = [int(bits[at : at + 5], 2) for at in range(0, len(bits), 5)]
    check = _remainder([*values, *[0] * _CHECKSUM]) ^ 1
    sums = [check >> 5 * (_CHECKSUM - 1 - at) & 31 for at in range(_CHECKSUM)]
    return f"{_PREFIX}1{''.join(_LETTERS[value] for value in values + sums)}".upper()


def is_identity(text: str) -> bool:
    """Return whether a text is an identity, by its checksum."""
    prefix, _, letters = text.lower().rpartition("1")
    values = [_LETTERS.find(letter) for letter in letters]
    return prefix == _PREFIX and text.isupper() and min(values, default=-1) >= 0 and _remainder(values) == 1


def _remainder(values: list[int]) -> int:
    """Return the checksum of BIP 173 over the prefix and the values."""
    spread = [ord(letter) >> 5 for letter in _PREFIX] + [0] + [ord(letter) & 31 for letter in _PREFIX]
    found = 1
    for value in spread + values:
        top, found = found >> 25, (found & 0x1FFFFFF) << 5 ^ value
        for bit, part in enumerate(_GENERATOR):
            found ^= part if top >> bit & 1 else 0
    return found
