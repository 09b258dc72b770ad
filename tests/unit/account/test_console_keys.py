"""Host keys of instances, from their console output as cloud-init writes it."""

from __future__ import annotations

from typing import Any

from gpufleet.account.console_keys import console_keys

BOOT = """\
[   12.345678] cloud-init[700]: ci-info: no authorized SSH keys fingerprints found for user ubuntu.
<14>Nov 27 12:00:00 cloud-init: -----BEGIN SSH HOST KEY FINGERPRINTS-----
<14>Nov 27 12:00:00 cloud-init: 256 SHA256:0000 root@use1-ctl1 (ED25519)
<14>Nov 27 12:00:00 cloud-init: -----END SSH HOST KEY FINGERPRINTS-----
-----BEGIN SSH HOST KEY KEYS-----
{keys}
-----END SSH HOST KEY KEYS-----
[   13.000000] cloud-init[700]: Cloud-init v. 24.1 finished
"""
FIRST = "ecdsa-sha2-nistp256 AAAAE2VjZHNh root@use1-ctl1\nssh-ed25519 AAAAC3Nz root@use1-ctl1"
SECOND = "ssh-ed25519 AAAAother root@use1-ctl1"


class Ec2:
    """A client with one console output."""

    def __init__(self, output: str | None) -> None:
        self.output = output
        self.asked: dict[str, Any] = {}

    def get_console_output(self, **parameters: Any) -> dict[str, Any]:
        self.asked = parameters
        return {"InstanceId": "i-1"} if self.output is None else {"Output": self.output}


def test_keys_are_those_between_the_marks() -> None:
    ec2 = Ec2(BOOT.format(keys=FIRST))
    assert console_keys(ec2, "i-1") == (("ecdsa-sha2-nistp256", "AAAAE2VjZHNh"), ("ssh-ed25519", "AAAAC3Nz"))
    assert ec2.asked == {"InstanceId": "i-1", "Latest": True}


def test_last_block_counts() -> None:
    ec2 = Ec2(BOOT.format(keys=FIRST) + BOOT.format(keys=SECOND))
    assert console_keys(ec2, "i-1") == (("ssh-ed25519", "AAAAother"),)


def test_instance_that_still_starts_has_none() -> None:
    assert console_keys(Ec2(None), "i-1") == ()
    assert console_keys(Ec2("Linux version 6.8"), "i-1") == ()
