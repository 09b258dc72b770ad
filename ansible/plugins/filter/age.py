"""The recipient of an age identity: what encrypts, from what decrypts.

age-encryption.org/v1, "The X25519 recipient type": both are Bech32 (BIP 173) of 32 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ansible.errors import AnsibleFilterError
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

_LETTERS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_CHECKSUM = 6


def _remainder(values: Iterable[int]) -> int:
    found = 1
    for value in values:
        top, found = found >> 25, (found & 0x1FFFFFF) << 5 ^ value
        for bit, part in enumerate(_GENERATOR):
            found ^= part if top >> bit & 1 else 0
    return found


def _spread(prefix: str) -> list[int]:
    return [ord(letter) >> 5 for letter in prefix] + [0] + [ord(letter) & 31 for letter in prefix]


def _groups(data: Sequence[int], before: int, after: int) -> list[int]:
    """Values of `before` bits as values of `after` bits, filled with zeros at the end."""
    bits = "".join(f"{value:0{before}b}" for value in data)
    if after < before:
        bits += "0" * (-len(bits) % after)
    return [int(bits[at : at + after], 2) for at in range(0, len(bits) - after + 1, after)]


def encode(prefix: str, data: bytes) -> str:
    """Bech32 of bytes in lower case."""
    values = _groups(data, 8, 5)
    check = _remainder([*_spread(prefix), *values, *[0] * _CHECKSUM]) ^ 1
    sums = [check >> 5 * (_CHECKSUM - 1 - at) & 31 for at in range(_CHECKSUM)]
    return f"{prefix}1{''.join(_LETTERS[value] for value in values + sums)}"


def decode(text: str) -> bytes:
    """The bytes of a Bech32 text. Raises ValueError if it is none."""
    prefix, _, letters = text.strip().lower().rpartition("1")
    values = [_LETTERS.index(letter) for letter in letters]
    if _remainder([*_spread(prefix), *values]) != 1:
        raise ValueError("the checksum differs")
    return bytes(_groups(values[:-_CHECKSUM], 5, 8))


def age_recipient(identity: str) -> str:
    """The recipient (`age1...`) of an identity (`AGE-SECRET-KEY-1...`)."""
    try:
        private = X25519PrivateKey.from_private_bytes(decode(identity))
    except ValueError:
        # Without the value, and without the cause, which may have it.
        raise AnsibleFilterError(
            "GPUFLEET_SECRET_BACKUP_KEY is no age identity (AGE-SECRET-KEY-1...);"
            " `gpufleet secrets new` makes one"
        ) from None
    return encode("age", private.public_key().public_bytes_raw())


class FilterModule:
    """For Ansible."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """The filters by name."""
        return {"age_recipient": age_recipient}
