"""Posts a verdict as the comment of a pull request or merge request, and keeps it up to date.

Standard library only, and nothing of the rest of gpufleet but its errors: the job that holds the
write token then runs `python3 -m gpufleet.comment` in a checkout of the target branch and installs nothing.
"""

from gpufleet.comment.body import MARKER, marker, verdict_body
from gpufleet.comment.publish import Outcome, host_from_environment, publish

__all__ = ["MARKER", "Outcome", "host_from_environment", "marker", "publish", "verdict_body"]
