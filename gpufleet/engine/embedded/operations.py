"""The operations on a resource, and their results for the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct
from pulumi.runtime.proto import resource_pb2

from gpufleet.engine.embedded.connection import CheckResult
from gpufleet.engine.embedded.diffs import ResourceDiff
from gpufleet.engine.embedded.provider import ReadResult
from gpufleet.engine.embedded.values import Properties


class ResourceOperations(Protocol):
    """Operations on a custom resource: of a provider, or of the registry for provider resources."""

    def check(self, urn: str, olds: Properties, news: Properties) -> CheckResult: ...  # noqa: D102

    def diff(  # noqa: D102
        self,
        urn: str,
        identifier: str,
        old_inputs: Properties,
        old_outputs: Properties,
        news: Properties,
        ignore: Sequence[str],
    ) -> ResourceDiff: ...

    def create(  # noqa: D102
        self, urn: str, inputs: Properties, timeout: float, *, preview: bool
    ) -> tuple[str, Properties]: ...

    def update(  # noqa: D102
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
    ) -> Properties: ...

    def delete(  # noqa: D102
        self, urn: str, identifier: str, inputs: Properties, outputs: Properties, timeout: float
    ) -> None: ...

    def read(  # noqa: D102
        self, urn: str, identifier: str, inputs: Properties, outputs: Properties, timeout: float = 0.0
    ) -> ReadResult: ...


class OperationOutcome(Struct, frozen=True):
    """The result for the program. `unknown`: the resource was skipped, so its outputs are unknown."""

    urn: str
    id: str
    outputs: Properties
    result: resource_pb2.Result.ValueType = resource_pb2.Result.SUCCESS
    unknown: bool = False
