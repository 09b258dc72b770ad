"""Resource handlers: the facts of one Pulumi type, and its operations as AWS calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from msgspec import Struct, field

from gpufleet.lab.aws.provider import schema
from gpufleet.lab.aws.provider.clients import Clients
from gpufleet.lab.aws.provider.mapper import Names, from_response, to_request
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.wire import Props

Defaults = Mapping[str, Any]
PARTITION = "aws"


class Aws(Struct, frozen=True):
    """The AWS of one request: clients, region and caller.

    `made` has descriptions of new resources, by id, that their creation has returned completely.
    """

    clients: Clients
    region: str
    made: dict[str, Props] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        """Return the client of a service in this region."""
        return self.clients.get(service, self.region)

    @property
    def account(self) -> str:
        """The account number."""
        return self.clients.account(self.region)

    def arn(self, service: str, resource: str, *, region: str | None = None) -> str:
        """Return an ARN in this account; `region` overrides this region ('' for global services)."""
        where = self.region if region is None else region
        return f"arn:{PARTITION}:{service}:{where}:{self.account}:{resource}"

    def send(
        self,
        service: str,
        operation: str,
        values: Mapping[str, Any],
        names: Names | None = None,
        **fixed: Any,
    ) -> dict[str, Any]:
        """Call an operation with properties mapped to parameters; `fixed` parameters are unchanged."""
        client = self.client(service)
        shape = client.meta.service_model.operation_model(operation).input_shape
        parameters = to_request(shape, values, names or Names()) | fixed
        result: dict[str, Any] = client._make_api_call(operation, parameters)
        return result


class AutoName(Struct, frozen=True):
    """The form of generated names: `<prefix><name>-<7 hex digits>`."""

    prop: str = "name"
    max_length: int = 255
    prefix: str = ""
    lower: bool = False


class Handler(ABC):
    """One resource type. Class variables are facts of the type, the methods its AWS calls.

    Inputs are plain values under pulumi_aws' names; `read` returns outputs under the same names. A property
    that `read` omits keeps the value of the state (AWS does not return it); one that it returns as None is
    removed. Paths are dotted, without list indices.
    """

    pulumi_type: ClassVar[str]
    force_new: ClassVar[Collection[str]] = frozenset()
    """Paths whose change needs a replacement; a path includes everything below it."""
    computed: ClassVar[Collection[str]] = frozenset()
    """Inputs that AWS sets if the program does not: their absence is not a change."""
    defaults: ClassVar[Defaults] = {}
    """Inputs that the real provider sets: they appear among the inputs."""
    ordered: ClassVar[Collection[str]] = frozenset()
    """Paths of string lists whose order matters; every other list of strings is a set."""
    sets: ClassVar[Collection[str]] = frozenset()
    """Paths of block lists that are sets; every other list of blocks is ordered."""
    documents: ClassVar[Collection[str]] = frozenset()
    """Paths of JSON documents, compared by meaning."""
    secrets: ClassVar[frozenset[str]] = frozenset()
    """Properties that the real provider marks secret."""
    auto_name: ClassVar[AutoName | None] = None
    delete_before_replace: ClassVar[bool] = False
    """True if the old and the new resource cannot exist at the same time."""
    takes_default_tags: ClassVar[bool] = True

    @property
    def schema(self) -> schema.ResourceSchema:
        """The declared properties of the type."""
        return schema.resource(self.pulumi_type)

    def check(self, inputs: Props) -> list[Problem]:
        """Check rules that the schema cannot express; inputs may contain unknown values."""
        del inputs
        return []

    def replaces(self, old: Props, new: Props, changed: frozenset[str]) -> frozenset[str]:
        """Return further top-level properties whose change needs a replacement, by their values."""
        del old, new, changed
        return frozenset()

    def unsettled(self, new: Props, changed: frozenset[str]) -> frozenset[str]:
        """Return outputs that this update will change to values that only AWS knows."""
        del new, changed
        return frozenset()

    @abstractmethod
    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the resource, wait until it is usable, return its id."""

    @abstractmethod
    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the outputs as AWS has them now, or None if the resource does not exist."""

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change the resource in place. `changed` are the top-level inputs that differ.

        `changed` is empty if a failed creation turns out to be complete. The default rejects every change: a
        type whose properties all force a replacement has no updates.
        """
        if changed:
            raise NotImplementedError(
                f"{self.pulumi_type} {rid} cannot change {', '.join(sorted(changed))} in place"
            )

    @abstractmethod
    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the resource and wait until it is gone; an error that it does not exist is fine."""

    def decode(self, data: Mapping[str, Any], names: Names | None = None) -> Props:
        """Outputs of this type from AWS' description of it."""
        return from_response(self.schema.outputs, data, names or Names())


def only(inputs: Mapping[str, Any], *keys: str) -> Props:
    """Return the given properties that are present."""
    return {key: inputs[key] for key in keys if inputs.get(key) is not None}


def without(inputs: Mapping[str, Any], *keys: str) -> Props:
    """Return everything except the given properties, `region`, `tags` and the engine's own."""
    skip = {*keys, "region", "tags", "tagsAll"}
    return {key: value for key, value in inputs.items() if key not in skip and not key.startswith("__")}
