"""Preflight: comparison of host measurements with the fleet file and the catalog.

The role `preflight` measures, `evaluate` returns the verdicts. A missing measurement is a failure.
"""

from gpufleet.racks.preflight.evaluation import evaluate
from gpufleet.racks.preflight.expectations import Expectations, expectations_for
from gpufleet.racks.preflight.verdict import PreflightVerdict, Status, failed, verdict_to_json

__all__ = [
    "Expectations",
    "PreflightVerdict",
    "Status",
    "evaluate",
    "expectations_for",
    "failed",
    "verdict_to_json",
]
