"""Makes Python sleep under faketime, in every process that has this folder on PYTHONPATH.

libfaketime 0.9.10 takes its offset off the absolute deadline of clock_nanosleep(CLOCK_MONOTONIC) even
when the monotonic clock is not faked, and the kernel then answers EINVAL; faking that clock as well
makes waits on conditions hang instead. select() takes a relative timeout and is left alone.
"""

import select
import time


def _sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


time.sleep = _sleep
