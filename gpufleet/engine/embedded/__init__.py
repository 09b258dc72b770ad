"""The embedded deployment engine: Pulumi programs and providers without the Pulumi CLI.

It serves Pulumi's own gRPC protocol, so programs, providers and states are those of the CLI. It
does what this project's programs need and refuses anything else by name.
"""

from gpufleet.engine.embedded.engine import EmbeddedEngine

__all__ = ["EmbeddedEngine"]
