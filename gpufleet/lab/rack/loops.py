"""Removes the loop devices of hosts, which the kernel keeps when a namespace ends.

A host whose kit needs loop devices writes the number of each into `loops`, in the folder that it has as
/srv/hardware. The devices close their files when the host has ended.
"""

from __future__ import annotations

import errno
import fcntl
import time
from pathlib import Path

_REMOVE = 0x4C81  # LOOP_CTL_REMOVE of linux/loop.h
_BUSY_S = 60.0


def remove_loops(hardware: Path) -> None:
    """Remove the loop devices of all hosts with hardware in `hardware`; none of them may be running."""
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
                    # Busy until the kernel has closed it after the last process, within moments.
                    if error.errno == errno.EBUSY and time.monotonic() < deadline:
                        time.sleep(0.02)
                        continue
                    # It no longer exists, for example after a reboot of the machine.
                    if error.errno not in (errno.ENODEV, errno.EBUSY):
                        raise
                break
