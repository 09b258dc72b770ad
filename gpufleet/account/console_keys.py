"""The SSH host keys of instances, from their console output: AWS says whose it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_BEGIN, _END = "-----BEGIN SSH HOST KEY KEYS-----", "-----END SSH HOST KEY KEYS-----"
"""What cloud-init writes around the public keys of a new host (cloud-init, modules "SSH" and "Keys to
console")."""


def console_keys(ec2: Any, instance: str) -> tuple[tuple[str, str], ...]:
    """Return the (kind, key) pairs of an instance; empty as long as EC2 has no console output with keys.

    Takes the last block: an instance that was made again from its disk has written another one.
    """
    found = ec2.get_console_output(InstanceId=instance, Latest=True)
    return tuple(_keys(str(found.get("Output", ""))))


def _keys(text: str) -> Iterator[tuple[str, str]]:
    block = text.rpartition(_BEGIN)[2] if _BEGIN in text else ""
    for line in block.partition(_END)[0].splitlines():
        words = line.split()
        if len(words) >= 2 and words[0].startswith(("ssh-", "ecdsa-")):
            yield words[0], words[1]
