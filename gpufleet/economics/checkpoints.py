"""The interval between checkpoints, and what checkpoints and failures cost a job.

Formulas: J. W. Young, "A first order approximation to the optimum checkpoint interval" (CACM, 1974), and
J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps" (FGCS, 2006).
"""

from __future__ import annotations

import math

from msgspec import Struct

from gpufleet.errors import InputError

FIRST_ORDER_LIMIT = 0.1
"""Young's formula neglects terms of the order of write time / time between failures: above this ratio the
result says so."""


class CheckpointPlan(Struct, frozen=True):
    """Seconds between checkpoints, and the fraction of time that is lost to writing, rework and restarts.

    `interval_s` is the computing time between two checkpoints by Young's first-order formula,
    `daly_interval_s` by Daly's higher-order one. `waste_fraction` follows Young: delta/tau + tau/2M + R/M.
    `expected_slowdown` is Daly's exact ratio of elapsed to computing time with `interval_s` and exponential
    failures; it is at least 1.
    """

    checkpoint_s: float
    mtbf_s: float
    restart_s: float
    interval_s: float
    daly_interval_s: float
    waste_fraction: float
    expected_slowdown: float
    first_order_holds: bool


def checkpoint_plan(
    checkpoint_s: float, mtbf_s: float, *, restart_s: float = 0.0, interval_s: float | None = None
) -> CheckpointPlan:
    """Return the plan for checkpoints of `checkpoint_s` seconds and failures every `mtbf_s` seconds.

    `restart_s` is the time from a failure until the job computes again. With `interval_s` the waste of that
    interval is returned instead of the optimum.

    Example: `checkpoint_plan(60, 3.093 * 3600).interval_s` is 1156 (19.3 minutes).

    Raises InputError if a checkpoint takes as long as the time between failures: nothing would be computed.
    """
    for name, value in (("checkpoint", checkpoint_s), ("mtbf", mtbf_s)):
        if not (math.isfinite(value) and value > 0):
            raise InputError(
                f"{name} is {value:g} s; it must be above 0", remedy="write a time such as '60s'"
            )
    if not (math.isfinite(restart_s) and restart_s >= 0):
        raise InputError(f"restart is {restart_s:g} s; it must not be negative", remedy="write '5 min'")
    if interval_s is not None and not (math.isfinite(interval_s) and interval_s > 0):
        raise InputError(f"interval is {interval_s:g} s; it must be above 0", remedy="leave it out")
    if checkpoint_s + restart_s >= mtbf_s:
        raise InputError(
            f"a checkpoint of {checkpoint_s:g} s and a restart of {restart_s:g} s take as long as the"
            f" {mtbf_s:g} s between failures: the job would compute nothing",
            remedy="use faster storage, or fewer GPUs",
        )
    interval = interval_s or math.sqrt(2 * checkpoint_s * mtbf_s)
    waste = checkpoint_s / interval + interval / (2 * mtbf_s) + restart_s / mtbf_s
    return CheckpointPlan(
        checkpoint_s=checkpoint_s,
        mtbf_s=mtbf_s,
        restart_s=restart_s,
        interval_s=interval,
        daly_interval_s=_daly(checkpoint_s, mtbf_s),
        waste_fraction=waste,
        expected_slowdown=slowdown(interval, checkpoint_s, mtbf_s, restart_s),
        first_order_holds=checkpoint_s / mtbf_s <= FIRST_ORDER_LIMIT and waste < 1,
    )


def slowdown(interval_s: float, checkpoint_s: float, mtbf_s: float, restart_s: float = 0.0) -> float:
    """Return elapsed time / computing time with exponential failures: Daly's complete expression.

    M e^(R/M) (e^((tau + delta)/M) - 1) / tau. Failures during checkpoints and restarts count. Infinite if the
    exponent is too large for a number.
    """
    exponent = (interval_s + checkpoint_s) / mtbf_s
    if exponent + restart_s / mtbf_s > 700:
        return math.inf
    return mtbf_s * math.exp(restart_s / mtbf_s) * math.expm1(exponent) / interval_s


def _daly(checkpoint_s: float, mtbf_s: float) -> float:
    """Return Daly's estimate, equation 37: valid for checkpoints shorter than twice the MTBF."""
    ratio = checkpoint_s / (2 * mtbf_s)
    if ratio >= 1:
        return mtbf_s
    return math.sqrt(2 * checkpoint_s * mtbf_s) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - checkpoint_s
