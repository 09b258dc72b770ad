"""A provider that serves nothing: its resources are taken as the program declares them.

A program may use packages whose plugin this machine lacks. A preview then still shows their resources to
rules and prices: inputs as written, every output unknown. Nothing is created.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.engine.embedded.connection import CheckResult
from gpufleet.engine.embedded.diffs import ResourceDiff
from gpufleet.engine.embedded.provider import Provider, ReadResult
from gpufleet.engine.embedded.values import UNKNOWN_WIRE, Properties
from gpufleet.engine.errors import ProviderError


class AssumedProvider(Provider):
    """The provider of a package without a plugin. It has no process and accepts every configuration."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.config_known = True
        self.configured = False

    def check_config(self, urn: str, olds: Properties, news: Properties) -> CheckResult:
        """Accept the configuration."""
        return CheckResult(news)

    def diff_config(
        self, urn: str, old_inputs: Properties, old_outputs: Properties, news: Properties
    ) -> ResourceDiff:
        """Leave the comparison to the engine."""
        return ResourceDiff(changes=None)

    def configure(self, urn: str, identifier: str, inputs: Properties) -> None:
        """Do nothing."""
        self.configured = True

    def check(self, urn: str, olds: Properties, news: Properties) -> CheckResult:
        """Accept the inputs."""
        return CheckResult(news)

    def diff(
        self,
        urn: str,
        identifier: str,
        old_inputs: Properties,
        old_outputs: Properties,
        news: Properties,
        ignore: Sequence[str],
    ) -> ResourceDiff:
        """Leave the comparison to the engine. Whether a change replaces the resource is not known."""
        return ResourceDiff(changes=None)

    def create(
        self, urn: str, inputs: Properties, timeout: float, *, preview: bool
    ) -> tuple[str, Properties]:
        """Return the inputs; all else is unknown."""
        return "" if preview else UNKNOWN_WIRE, dict(inputs)

    def update(
        self,
        urn: str,
        identifier: str,
        old_inputs: Properties,
        old_outputs: Properties,
        inputs: Properties,
        timeout: float,
        ignore: Sequence[str],
        *,
        preview: bool,
    ) -> Properties:
        """Return the inputs."""
        return dict(inputs)

    def delete(
        self, urn: str, identifier: str, inputs: Properties, outputs: Properties, timeout: float
    ) -> None:
        """Do nothing: it was never created."""

    def read(
        self, urn: str, identifier: str, inputs: Properties, outputs: Properties, timeout: float = 0.0
    ) -> ReadResult:
        """Return what is known of it."""
        return ReadResult(identifier, inputs, outputs)

    def invoke(
        self, token: str, args: Properties, *, preview: bool
    ) -> tuple[Properties, tuple[tuple[str, str], ...]]:
        """Raise ProviderError: no result can be assumed."""
        raise ProviderError(
            f"the function {token} needs the plugin of package '{self.package}', which is not installed"
        )

    def version(self) -> str:
        """Return no version."""
        return ""

    def cancel(self) -> None:
        """Do nothing."""

    def disconnect(self) -> None:
        """Do nothing."""
