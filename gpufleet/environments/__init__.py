"""New environments: questions of `gpufleet init`, their defaults, and a fleet file that passes all rules."""

from gpufleet.environments.choices import Choices, fill
from gpufleet.environments.draft import Draft, draft_environment
from gpufleet.environments.expiry import last_day

__all__ = ["Choices", "Draft", "draft_environment", "fill", "last_day"]
