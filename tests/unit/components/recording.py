"""Run a Pulumi program on recording mocks: every registration, with its inputs and options."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi.runtime import resource
from pulumi.runtime.mocks import MockCallArgs, MockMonitor, MockResourceArgs, Mocks, set_mocks
from pulumi.runtime.proto import source_pb2

# The SDK looks up the position of each resource in the source, a tenth of a run. No mock uses it.
resource._get_stack_trace = source_pb2.StackTrace

ACCOUNT = "123456789012"
REGION = "us-east-1"


@dataclass(frozen=True)
class Registration:
    """A resource as the program registered it. Inputs have pulumi_aws' property names in camel case."""

    type: str
    name: str
    urn: str
    parent: str
    custom: bool
    inputs: Mapping[str, Any]
    provider: str = ""
    protect: bool = False
    retain_on_delete: bool = False
    delete_before_replace: bool = False
    ignore_changes: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    import_id: str = ""


@dataclass
class Recording:
    """All resources of one run, in the order of registration."""

    resources: list[Registration] = field(default_factory=list)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def of(self, type_: str) -> list[Registration]:
        """Resources of a type; the part after the last colon suffices (`LaunchTemplate`)."""
        return [r for r in self.resources if r.type == type_ or r.type.rpartition(":")[2] == type_]

    def one(self, type_: str, name: str | None = None) -> Registration:
        """The only resource of the type (and name); fails if there is none or several."""
        found = [r for r in self.of(type_) if name is None or r.name == name]
        assert len(found) == 1, f"{len(found)} of {type_} {name or ''}: {[r.name for r in found]}"
        return found[0]

    def __iter__(self) -> Iterator[Registration]:
        return iter(self.resources)


class EchoMocks(Mocks):
    """Return the inputs and the few outputs that the components read."""

    def call(self, args: MockCallArgs) -> Any:
        answers: dict[str, dict[str, Any]] = {
            "aws:index/getCallerIdentity:getCallerIdentity": {
                "accountId": ACCOUNT,
                "arn": "x",
                "userId": "x",
            },
            "aws:index/getPartition:getPartition": {"partition": "aws"},
            "aws:index/getRegion:getRegion": {"region": REGION},
            "aws:ec2/getInstances:getInstances": {"privateIps": ["10.0.1.6", "10.0.1.5"]},
            "aws:ec2/getAmi:getAmi": {"id": "ami-by-name"},
            "aws:ssm/getParameter:getParameter": {"value": "ami-0123456789abcdef0"},
            "aws:ssm/getParametersByPath:getParametersByPath": {"names": [], "values": []},
        }
        return answers[args.token]

    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        state = dict(args.inputs)
        kind = args.typ.rpartition(":")[2]
        if args.custom:
            state.setdefault("arn", f"arn:aws:mock:{REGION}:{ACCOUNT}:{kind}/{args.name}")
            state.setdefault("name", f"{args.name}-1234567")
        state.update(_OUTPUTS.get(kind, {}))
        if kind == "ResolverEndpoint":
            state["ipAddresses"] = [
                {**each, "ip": f"10.40.0.{number}"} for number, each in enumerate(state["ipAddresses"], 5)
            ]
        if kind == "NodeGroup" and args.custom:
            state.setdefault("nodeGroupName", f"{args.name}-1234567")
            state["resources"] = [{"autoscalingGroups": [{"name": f"eks-{args.name}"}]}]
        return (f"{args.name}-id" if args.custom else ""), state


_OUTPUTS: dict[str, dict[str, Any]] = {
    "LaunchTemplate": {"latestVersion": 1},
    "Cluster": {
        "endpoint": "https://1234.eks.test",
        "certificateAuthority": {"data": "Q0E="},
        "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16"},
        "vpcConfig": {"clusterSecurityGroupId": "sg-cluster", "subnetIds": []},
    },
    "CapacityBlockOffering": {
        "offering_id": "cb-0123456789abcdef0",
        "zone": "us-east-1a",
        "start_date": "2030-01-15T11:30:00Z",
        "end_date": "2030-01-29T11:30:00Z",
        "upfront_fee": "9600.00",
        "currency": "USD",
    },
    "CapacityBlockExtension": {
        "end_date": "2030-02-05T11:30:00Z",
        "upfront_fee": "4800.00",
        "currency": "USD",
    },
    "LustreFileSystem": {"dnsName": "fs-1.fsx.test", "mountName": "abcdefgh"},
    "GatewayAssociation": {"dxGatewayAssociationId": "5a1b2c3d-association"},
}


class RecordingMonitor(MockMonitor):
    """A mock monitor that also keeps the options of each registration, and its outputs."""

    def __init__(self, mocks: Mocks, recording: Recording) -> None:
        super().__init__(mocks)
        self._recording = recording
        self._lock = threading.Lock()

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        response = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        if request.type != "pulumi:pulumi:Stack":
            inputs = pulumi.runtime.rpc.deserialize_properties(request.object)
            with self._lock:
                self._recording.resources.append(
                    Registration(
                        type=request.type,
                        name=request.name,
                        urn=response.urn,
                        parent=request.parent,
                        custom=request.custom,
                        inputs=_comparable(unsecret(inputs)),
                        provider=request.provider,
                        protect=request.protect,
                        retain_on_delete=request.retainOnDelete,
                        delete_before_replace=request.deleteBeforeReplace,
                        ignore_changes=tuple(request.ignoreChanges),
                        dependencies=tuple(request.dependencies),
                        import_id=request.importId,
                    )
                )
        return response

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        self._recording.outputs[request.urn] = pulumi.runtime.rpc.deserialize_properties(request.outputs)
        return super().RegisterResourceOutputs(request)  # type: ignore[no-untyped-call]


def unsecret(value: Any) -> Any:
    """The value with Pulumi's secret wrappers taken off."""
    if isinstance(value, Mapping):
        if "4dabf18193072939515e22adb298388d" in value:
            return unsecret(value["value"])
        return {key: unsecret(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unsecret(item) for item in value]
    return value


def _comparable(value: Any) -> Any:
    """The value with archives of texts as texts by name: two equal archives are not equal."""
    if isinstance(value, pulumi.AssetArchive):
        return {name: getattr(asset, "text", asset) for name, asset in value.assets.items()}
    if isinstance(value, Mapping):
        return {key: _comparable(item) for key, item in value.items()}
    return [_comparable(item) for item in value] if isinstance(value, list) else value


def record(program: Callable[[], Any], mocks: Mocks | None = None, *, preview: bool = False) -> Recording:
    """Run the program to its end and return its registrations. Raises what the program raises."""
    recording = Recording()
    mocks = mocks or EchoMocks()
    set_mocks(
        mocks,
        project="gpufleet",
        stack="unit",
        preview=preview,
        monitor=RecordingMonitor(mocks, recording),
    )

    @pulumi.runtime.test
    def run() -> None:
        program()

    run()  # type: ignore[no-untyped-call]
    return recording
