"""Recovery of the operations of an interrupted run, by reading the cloud before the next run starts."""

from gpufleet.engine.embedded.recovery.finders import FINDERS
from gpufleet.engine.embedded.recovery.pending import Recovery

__all__ = ["FINDERS", "Recovery"]
