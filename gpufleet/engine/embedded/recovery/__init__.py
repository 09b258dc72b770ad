"""What a dead run was doing when it died: found out by reading the cloud, before anything else is done."""

from gpufleet.engine.embedded.recovery.finders import FINDERS
from gpufleet.engine.embedded.recovery.pending import Recovery

__all__ = ["FINDERS", "Recovery"]
