"""Rules over 2,000 resources: ours in process and over the protocol, on the policy SDK's server, checkov.

All judge the same resources: what the prod environment registers, repeated under other names until
there are enough. A check is one rule asked about one resource (checkov: one check with a verdict on
one resource), so that a pack with more rules is not the slower for it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import struct_pb2
from msgspec.structs import replace
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc
from rich.console import Console
from rich.table import Table

from gpufleet.policy import wire
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack
from tests.bench.measure import seconds
from tests.collected import ROOT, collect, judge_of
from tests.judges.checkov import DRIVER, PYTHON
from tests.judges.terraform_plan import terraform_plan

RESOURCES = 2000
BIG = 1 << 29


@dataclass(frozen=True)
class PolicyTiming:
    """One judge: name, seconds of each run, and number of checks of a run."""

    what: str
    runs: list[float]
    checks: int


def table(rounds: int) -> Table:
    """Compare the judges: seconds per run and checks per second; the first column is the median."""
    made = Table(
        "judge", "s", "checks", "checks / s", "us / check", title=f"rules over {RESOURCES} resources, medians"
    )
    for judged in measure(rounds):
        took = statistics.median(judged.runs)
        made.add_row(
            judged.what,
            f"{took:.2f}",
            f"{judged.checks}",
            f"{judged.checks / took:.0f}",
            f"{took / judged.checks * 1e6:.0f}",
        )
    return made


def measure(rounds: int) -> list[PolicyTiming]:
    """Each judge in turn, round by round."""
    stack = of_size(RESOURCES)
    ours = checks_of(stack)
    judge = judge_of("prod")

    def here() -> None:
        for resource in stack:
            judge.resource(resource)
        # A new stack each time: its cost is computed once for all rules and cached with it.
        judge.stack(Stack(stack))

    judges: list[tuple[str, Any, int]] = [("our rules, in process", here, ours)]
    with (
        _served(ROOT / "policies") as own,
        _served(ROOT / "tests" / "bench" / "sdk_pack") as sdk,
        tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder,
    ):
        requests = [request_of(each) for each in stack]
        whole = analyzer_pb2.AnalyzeStackRequest(resources=[stack_resource_of(each) for each in stack])
        for stub in (own, sdk):
            stub.ConfigureStack(
                analyzer_pb2.AnalyzerStackConfigureRequest(project="gpufleet", stack="prod", dry_run=True)
            )
        judges.append(("our rules, over the Analyzer protocol", lambda: _over(own, requests, whole), ours))
        judges.append(
            ("the same rules on the policy SDK's server", lambda: _over(sdk, requests, whole), ours)
        )
        plan = Path(folder) / "plan.json"
        plan.write_text(json.dumps(terraform_plan(stack), indent=1), encoding="utf-8")
        checks = 0

        def checkov() -> None:
            nonlocal checks
            checks = _checkov(plan)

        judges.append(("checkov, all its checks, with its start", checkov, 0))
        runs: list[list[float]] = [[] for _ in judges]
        for _ in range(rounds):
            for index, (_, call, _) in enumerate(judges):
                runs[index].append(seconds(call))
    return [
        PolicyTiming(what, runs[index], number or checks) for index, (what, _, number) in enumerate(judges)
    ]


def of_size(wanted: int) -> Stack:
    """Prod's AWS resources, repeated under other names and URNs, including references."""
    prod = [each for each in collect("prod") if each.type.startswith("aws:")]
    made: list[Resource] = []
    for copy in count():
        for each in prod:
            if len(made) == wanted:
                return Stack(made)
            made.append(_renamed(each, f"-{copy}") if copy else each)
    raise AssertionError("there is no end to copies")


def _renamed(resource: Resource, suffix: str) -> Resource:
    return replace(
        resource,
        name=f"{resource.name}{suffix}",
        urn=f"{resource.urn}{suffix}",
        property_dependencies={
            prop: tuple(f"{urn}{suffix}" for urn in urns)
            for prop, urns in resource.property_dependencies.items()
        },
    )


def checks_of(stack: Stack) -> int:
    """How often one rule runs on one resource: by type; a stack rule reads its types."""
    from gpufleet.policy.pack import load_rules

    rules = [rule for rule in load_rules(ROOT) if rule.scope != "change"]
    return sum(not rule.types or resource.type in rule.types for rule in rules for resource in stack)


def _over(stub: Any, requests: list[Any], whole: Any) -> None:
    for request in requests:
        stub.Analyze(request)
    stub.AnalyzeStack(whole)


@contextmanager
def _served(pack: Path) -> Iterator[Any]:
    """A pack's server, started as Pulumi's language host does and stopped by its id."""
    environ = os.environ | {
        "PYTHONPATH": str(ROOT),
        "PULUMI_PROJECT": "gpufleet",
        "PULUMI_STACK": "prod",
        "PULUMI_DRY_RUN": "true",
    }
    with subprocess.Popen(
        [sys.executable, "-m", "pulumi.policy", "127.0.0.1:1", str(pack)],
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            address = f"127.0.0.1:{int(process.stdout.readline())}"
            options = [("grpc.max_send_message_length", BIG), ("grpc.max_receive_message_length", BIG)]
            with grpc.insecure_channel(address, options=options) as channel:
                yield analyzer_pb2_grpc.AnalyzerStub(channel)
        finally:
            process.terminate()
            process.wait(30)


def _checkov(plan: Path) -> int:
    done = subprocess.run(
        [str(PYTHON), "-I", str(DRIVER)],
        input=json.dumps([str(plan)]),
        capture_output=True,
        text=True,
        check=True,
    )
    (answer,) = json.loads(done.stdout.splitlines()[-1])
    return len(answer["failed"]) + len(answer["passed"])


def struct(values: Mapping[str, Any], secrets: frozenset[str] = frozenset()) -> struct_pb2.Struct:
    """Plain values as the protocol carries them."""
    made = struct_pb2.Struct()
    for key, value in values.items():
        wire.write(made, key, value, secrets)
    return made


def request_of(resource: Resource) -> Any:
    """The resource as the engine sends it for a resource rule."""
    made = analyzer_pb2.AnalyzeRequest(
        type=resource.type,
        name=resource.name,
        urn=resource.urn,
        properties=struct(resource.inputs or {}, resource.secrets),
        options=analyzer_pb2.AnalyzerResourceOptions(
            protect=resource.options.protect,
            ignoreChanges=resource.options.ignore_changes,
            parent=resource.parent,
        ),
    )
    _set_provider(made, resource)
    return made


def stack_resource_of(resource: Resource) -> Any:
    """The resource as the engine sends it with the whole stack: with outputs and dependencies."""
    made = analyzer_pb2.AnalyzerResource(
        type=resource.type,
        name=resource.name,
        urn=resource.urn,
        properties=struct(resource.props, resource.secrets),
        parent=resource.parent,
        dependencies=resource.dependencies,
        options=analyzer_pb2.AnalyzerResourceOptions(
            protect=resource.options.protect, ignoreChanges=resource.options.ignore_changes
        ),
    )
    for prop, urns in resource.property_dependencies.items():
        made.propertyDependencies[prop].urns.extend(urns)
    _set_provider(made, resource)
    return made


def _set_provider(made: Any, resource: Resource) -> None:
    if resource.provider is not None:
        provider = resource.provider
        made.provider.type, made.provider.name, made.provider.urn = provider.type, provider.name, provider.urn
        made.provider.properties.CopyFrom(struct(provider.props))


if __name__ == "__main__":
    Console(width=120).print(table(rounds=1))
