"""Provider instances: one plugin process per provider resource, started when first needed.

A provider resource (`pulumi:providers:aws`) goes through check, diff, create and update like any other. Here
these mean: start the plugin, check its configuration, configure it.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import Future

from gpufleet.engine.api import ASSUMES
from gpufleet.engine.embedded.assumed import AssumedProvider
from gpufleet.engine.embedded.connection import CheckResult
from gpufleet.engine.embedded.context import RunContext
from gpufleet.engine.embedded.diffs import ResourceDiff
from gpufleet.engine.embedded.provider import Provider, ReadResult
from gpufleet.engine.embedded.resource import ResourceState
from gpufleet.engine.embedded.urns import PROVIDER_PREFIX, split_reference, urn_type
from gpufleet.engine.embedded.values import UNKNOWN_WIRE, Properties
from gpufleet.engine.errors import PluginError, ProviderError, StepFailedError, UnsupportedError
from gpufleet.engine.plugins import PluginProcess, plugin_command

# The engine's own settings in a provider's inputs, which the plugin does not get.
_INTERNAL = "__internal"


class ProviderRegistry:
    """The providers of one run, by reference (`urn::id`). Thread-safe."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._unconfigured: dict[str, Provider] = {}
        self._ready: dict[str, Future[Provider]] = {}
        self._all: list[Provider] = []

    # -- lookup

    def get(self, reference: str) -> Provider:
        """Return the provider of a reference; start it from the old state if this run did not register it."""
        with self._lock:
            future = self._ready.get(reference)
            mine = future is None
            if future is None:
                future = self._ready[reference] = Future()
        if mine:
            try:
                future.set_result(self._from_state(reference))
            except BaseException as error:
                with self._lock:
                    # The program may have registered it meanwhile.
                    if self._ready.get(reference) is future:
                        del self._ready[reference]
                future.set_exception(error)
        return future.result()

    def _from_state(self, reference: str) -> Provider:
        urn, identifier = split_reference(reference)
        matching = [
            state for state in self._context.store.olds if state.urn == urn and state.id == identifier
        ]
        if not matching:
            raise StepFailedError(f"the provider {urn} is neither registered by the program nor in the state")
        provider = self._start(matching[0].urn, matching[0].inputs)
        provider.configure(urn, identifier, _external(matching[0].inputs))
        return provider

    def _start(self, urn: str, inputs: Properties) -> Provider:
        context = self._context
        package = urn_type(urn).removeprefix(PROVIDER_PREFIX)
        if (inputs.get(_INTERNAL) or {}).get("parameterization"):
            raise UnsupportedError(f"provider '{package}' is parameterized")
        version = inputs.get("version", "")
        try:
            command = plugin_command(package, str(version or ""), context.request.providers, context.env)
        except PluginError:
            if not context.request.assumes:
                raise
            return AssumedProvider(package)
        plugin = PluginProcess(
            f"provider '{package}'",
            command,
            context.engine_address,
            context.processes,
            env={
                **context.env,
                **({ASSUMES: "1"} if context.request.assumes else {}),
                "PULUMI_PROJECT": context.request.project,
            },
            cwd=context.request.program_dir,
            on_line=lambda line: context.reporter.log("info", line, urn),
        )
        try:
            provider = Provider(package, f"127.0.0.1:{plugin.port}", context.engine_address, plugin)
        except ProviderError:
            plugin.stop()
            raise
        with self._lock:
            self._all.append(provider)
        return provider

    def _publish(self, urn: str, identifier: str, provider: Provider) -> None:
        future: Future[Provider] = Future()
        future.set_result(provider)
        with self._lock:
            self._ready[f"{urn}::{identifier}"] = future

    def _take_unconfigured(self, urn: str, inputs: Properties) -> Provider:
        with self._lock:
            provider = self._unconfigured.pop(urn, None)
        return provider or self._start(urn, inputs)

    # -- operations on a provider resource

    def check(self, urn: str, olds: Properties, news: Properties) -> CheckResult:
        """Start the plugin and check the configuration."""
        with self._lock:
            provider = self._unconfigured.get(urn)
        if provider is None:
            try:
                provider = self._start(urn, news)
            except PluginError as error:
                raise StepFailedError(
                    f"{error.message}; {error.remedy}" if error.remedy else error.message
                ) from error
            with self._lock:
                self._unconfigured[urn] = provider
        result = provider.check_config(urn, _external(olds), _external(news))
        inputs = dict(result.inputs)
        for kept in ("version", _INTERNAL):
            if kept in news:
                inputs.setdefault(kept, news[kept])
        return CheckResult(inputs, result.failures)

    def diff(
        self,
        urn: str,
        identifier: str,
        old_inputs: Properties,
        old_outputs: Properties,
        news: Properties,
        ignore: Sequence[str],
    ) -> ResourceDiff:
        """Return whether the configuration changed, and whether that makes it another provider."""
        with self._lock:
            provider = self._unconfigured.get(urn)
        provider = provider or self.get(f"{urn}::{identifier}")
        inputs = _external(news)
        diff = provider.diff_config(urn, _external(old_inputs), old_outputs, inputs)
        if diff.changes is None:
            changed = old_outputs != inputs
            keys = {key for key in {*old_outputs, *inputs} if old_outputs.get(key) != inputs.get(key)}
            return ResourceDiff(
                changes=changed, replace_keys=diff.replace_keys, changed_keys=tuple(sorted(keys))
            )
        return diff

    def create(
        self, urn: str, inputs: Properties, timeout: float, *, preview: bool
    ) -> tuple[str, Properties]:
        """Configure the plugin under a new id."""
        provider = self._take_unconfigured(urn, inputs)
        identifier = UNKNOWN_WIRE if preview else str(uuid.uuid4())
        provider.configure(urn, identifier, _external(inputs))
        self._publish(urn, identifier, provider)
        return identifier, _external(inputs)

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
        """Configure the plugin again under its id."""
        provider = self._take_unconfigured(urn, inputs)
        provider.configure(urn, identifier, _external(inputs))
        self._publish(urn, identifier, provider)
        return _external(inputs)

    def same(self, state: ResourceState) -> None:
        """Configure the plugin unchanged."""
        provider = self._take_unconfigured(state.urn, state.inputs)
        provider.configure(state.urn, state.id, _external(state.inputs))
        self._publish(state.urn, state.id, provider)

    def delete(
        self, urn: str, identifier: str, inputs: Properties, outputs: Properties, timeout: float
    ) -> None:
        """Do nothing: the plugin ends with the run."""

    def read(
        self, urn: str, identifier: str, inputs: Properties, outputs: Properties, timeout: float = 0.0
    ) -> ReadResult:
        """Return the provider from the state."""
        return ReadResult(identifier, inputs, outputs)

    # -- the end of the run

    def cancel(self) -> None:
        """Request every provider to abandon what it is doing."""
        with self._lock:
            providers = list(self._all)
        for provider in providers:
            provider.cancel()

    def close(self) -> None:
        """Close the connections; the processes end with their group."""
        with self._lock:
            providers, self._all = self._all, []
        for provider in providers:
            provider.disconnect()


def _external(inputs: Properties) -> Properties:
    return (
        {key: value for key, value in inputs.items() if key != _INTERNAL} if _INTERNAL in inputs else inputs
    )
