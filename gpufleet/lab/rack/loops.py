"""Removes the loop devices that hosts have made: the kernel keeps those when a namespace ends.

A host whose kit needs some writes the number of each that it makes into `loops`, in the folder that
it sees as /srv/hardware. The devices let go of their files by themselves when the host is gone.
"""

from __future__ import annotations

import errno
import fcntl
import time
from pathlib import Path

_REMOVE = 0x4C81  # LOOP_CTL_REMOVE of linux/loop.h
_BUSY_S = 60.0


def remove_loops(hardware: Path) -> None:
    """Removes the loop devices of all hosts whose hardware is in `hardware`; none of them runs."""
    numbers = [int(line) for file in hardware.glob("*/loops") for line in file.read_text().split()]
    if not numbers:
        return
    deadline = time.monotonic() + _BUSY_S
    with Path("/dev/loop-control").open("r+b", buffering=0) as control:
        for number in numbers:
            while True:
                try:
                    fcntl.ioctl(control, _REMOVE, number)
                except OSError as error:
                    # Busy until the kernel has closed it after the last process: a matter of moments.
                    if error.errno == errno.EBUSY and time.monotonic() < deadline:
                        time.sleep(0.02)
                        continue
                    # Not there any more, as after a reboot of the machine.
                    if error.errno not in (errno.ENODEV, errno.EBUSY):
                        raise
                break
