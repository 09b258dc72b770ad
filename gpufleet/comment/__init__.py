"""Posts a verdict as a comment of a pull request or merge request, and updates it.

It uses only the standard library and gpufleet's errors, so that the job with the write token runs
`python3 -m gpufleet.comment` in a checkout of the target branch and installs nothing.
"""

from gpufleet.comment.body import MARKER, verdict_body
from gpufleet.comment.publish import Outcome, host_from_environment, publish
from gpufleet.comment_form import marker

__all__ = ["MARKER", "Outcome", "host_from_environment", "marker", "publish", "verdict_body"]
