"""gpufleet: infrastructure as code for hybrid GPU fleets."""

__version__ = "0.1.0"
