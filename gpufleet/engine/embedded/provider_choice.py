"""Default providers of packages, and the effect of a change of provider on resources."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pulumi.runtime.proto import resource_pb2

from gpufleet.engine.embedded.deployment import Deployment
from gpufleet.engine.embedded.goal import Goal
from gpufleet.engine.embedded.operations import OperationOutcome
from gpufleet.engine.embedded.urns import PROVIDER_PREFIX, default_provider_name, split_reference
from gpufleet.engine.embedded.values import Properties
from gpufleet.engine.errors import StepFailedError

_Key = tuple[str, str, str]


def set_plugin(inputs: Properties, version: str, url: str) -> None:
    """Set the plugin in a provider's inputs, as Pulumi does: with a version `__internal` is always set."""
    if version:
        inputs["version"] = version
    if version or url:
        inputs["__internal"] = {"pluginDownloadURL": url} if url else {}


class ProviderChoice:
    """The default providers of a run, and its known effects of provider changes."""

    def __init__(self, deployment: Deployment, register: Callable[[Goal], OperationOutcome]) -> None:
        self._deployment = deployment
        self._register_goal = register
        self._lock = threading.Lock()
        self._guards: dict[_Key, threading.Lock] = {}
        self._references: dict[_Key, str] = {}
        self._replaces: dict[tuple[str, str], bool] = {}

    def default(self, package: str, version: str, url: str) -> str:
        """Return the reference of the package's default provider, registered at the first call."""
        key = (package, version, url)
        if self._deployment.context.default_provider_disabled(package):
            raise StepFailedError(
                f"the default provider of '{package}' is disabled by pulumi:disable-default-providers: "
                f"pass an explicit one with the option provider"
            )
        with self._lock:
            guard = self._guards.setdefault(key, threading.Lock())
        with guard:
            if key not in self._references:
                self._references[key] = self._register(package, version, url)
            return self._references[key]

    def _register(self, package: str, version: str, url: str) -> str:
        inputs = self._deployment.context.package_config(package)
        set_plugin(inputs, version, url)
        goal = Goal(
            type=PROVIDER_PREFIX + package,
            name=default_provider_name(version, url),
            custom=True,
            inputs=inputs,
        )
        outcome = self._register_goal(goal)
        if outcome.result != resource_pb2.Result.SUCCESS:
            # Resources that need it are skipped, with this reason.
            return f"{outcome.urn}::"
        return f"{outcome.urn}::{outcome.id}"

    def replaces(self, old: str, new: str) -> bool:
        """Return whether a change of provider replaces the resources that it manages."""
        deployment = self._deployment
        old_urn, new_urn = split_reference(old)[0], split_reference(new)[0]
        if old_urn != new_urn and deployment.former_urn(new_urn) == old_urn:
            return False
        if (old, new) not in self._replaces:
            before = next((state for state in deployment.store.olds if state.urn == old_urn), None)
            after = deployment.store.find(new_urn)
            if before is None or after is None:
                return True
            provider = deployment.providers.get(new)
            diff = provider.diff_config(new_urn, before.inputs, before.outputs, after.inputs)
            self._replaces[old, new] = diff.replaces
        return self._replaces[old, new]
