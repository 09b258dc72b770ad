"""Make Python sleep correctly under faketime, in every process with this folder on PYTHONPATH.

libfaketime 0.9.10 subtracts its offset from the absolute deadline of clock_nanosleep(CLOCK_MONOTONIC) even
when the monotonic clock is not faked, and the kernel then answers EINVAL; faking that clock as well
makes waits on conditions hang instead. select() takes a relative timeout and needs no change.
"""

import select
import time


def _sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


time.sleep = _sleep
