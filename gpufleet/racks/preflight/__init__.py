"""Preflight: measurements of hosts, compared with what the fleet file and the catalog lead to expect.

The role `preflight` measures, `judge` decides. A measurement that is missing is a failure.
"""

from gpufleet.racks.preflight.expectations import Expectations, expectations_for
from gpufleet.racks.preflight.judge import judge
from gpufleet.racks.preflight.verdict import PreflightVerdict, Status, failed, verdict_to_json

__all__ = [
    "Expectations",
    "PreflightVerdict",
    "Status",
    "expectations_for",
    "failed",
    "judge",
    "verdict_to_json",
]
