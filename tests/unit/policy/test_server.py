"""The pack as Pulumi's engine starts it: a process that speaks the Analyzer protocol over gRPC."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

from gpufleet.policy import wire
from gpufleet.policy.examples import DAY
from gpufleet.policy.fleet import NOW
from gpufleet.policy.pack import load_rules
from gpufleet.policy.report import REPORT, read_report
from gpufleet.resources.resource import Resource
from tests.bench.policies import request_of, stack_resource_of, struct
from tests.collected import ROOT, collect, judge_of
from tests.conftest import make_checkout

TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
RULE = "imdsv2-required"


@contextmanager
def pack(root: Path, report: Path | None = None) -> Iterator[Any]:
    """A stub of the checkout's pack, started as the CLI's language host does, and stopped by its id."""
    # The day on which the judge of `tests.collected` judges as well.
    environ = os.environ | {NOW: DAY.isoformat()} | ({REPORT: str(report)} if report else {})
    environ.pop("PULUMI_CONFIG", None)
    with subprocess.Popen(
        [sys.executable, "-m", "pulumi.policy", "127.0.0.1:1", str(root / "policies")],
        cwd=root,
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            with grpc.insecure_channel(
                f"127.0.0.1:{port}", options=[("grpc.max_send_message_length", 1 << 28)]
            ) as channel:
                yield analyzer_pb2_grpc.AnalyzerStub(channel)
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Path]]:
    """This checkout's pack, and where it writes its report."""
    report = tmp_path_factory.mktemp("pack") / "report.json"
    with pack(ROOT, report) as stub:
        yield stub, report


def configure_stack(stub: Any, stack: str = "prod") -> None:
    stub.ConfigureStack(
        analyzer_pb2.AnalyzerStackConfigureRequest(
            project="gpufleet", stack=stack, dry_run=True, config={"aws:region": "us-east-1"}
        )
    )


def configure_rules(stub: Any, **levels: Any) -> None:
    stub.Configure(
        analyzer_pb2.ConfigureAnalyzerRequest(
            policyConfig={
                name.replace("_", "-"): analyzer_pb2.PolicyConfig(enforcementLevel=level)
                for name, level in levels.items()
            }
        )
    )


def template(**props: Any) -> Any:
    return analyzer_pb2.AnalyzeRequest(type=TEMPLATE, name="t", urn="urn:t", properties=struct(props))


def shown(response: Any, rule: str = RULE) -> list[Any]:
    return [each for each in response.diagnostics if each.policyName == rule]


def test_pack_lists_every_rule_except_change_rules(ours: tuple[Any, Path]) -> None:
    stub, _ = ours
    configure_stack(stub)
    info = stub.GetAnalyzerInfo(empty_pb2.Empty())
    rules = {rule.name: rule for rule in load_rules(ROOT)}
    reported = {each.name: each for each in info.policies}
    assert reported.keys() == {name for name, rule in rules.items() if rule.scope != "change"}
    for name, each in reported.items():
        assert each.description, name
        assert each.remediation_steps, name
        assert each.severity, name
        assert set(each.configSchema.properties) == set(rules[name].settings.model_fields), name
    assert info.supportsConfig
    assert reported.keys() <= info.initialConfig.keys()


def test_fleet_file_gives_the_initial_configuration(ours: tuple[Any, Path]) -> None:
    stub, _ = ours
    configure_stack(stub, "prod")
    spot = stub.GetAnalyzerInfo(empty_pb2.Empty()).initialConfig["spot-only-in-dev"].properties
    assert list(spot["workloads"]) == ["batch"]
    configure_stack(stub, "no-such-environment")
    spot = stub.GetAnalyzerInfo(empty_pb2.Empty()).initialConfig["spot-only-in-dev"].properties
    assert list(spot["workloads"]) == []


def test_violation_is_sent_with_rule_level_severity_and_resource(ours: tuple[Any, Path]) -> None:
    stub, _ = ours
    configure_stack(stub)
    configure_rules(stub)
    found = shown(
        stub.Analyze(template(metadataOptions={"httpTokens": "optional", "httpPutResponseHopLimit": 1}))
    )
    (one,) = found
    assert one.enforcementLevel == analyzer_pb2.MANDATORY
    assert one.severity == analyzer_pb2.POLICY_SEVERITY_HIGH
    assert (one.urn, one.policyPackName) == ("urn:t", "gpufleet")
    assert "httpTokens is 'optional'" in one.message


def test_engine_configuration_of_a_rule_has_precedence(ours: tuple[Any, Path]) -> None:
    stub, _ = ours
    configure_stack(stub)
    bad = template(metadataOptions={"httpTokens": "optional"})
    configure_rules(stub, imdsv2_required=analyzer_pb2.ADVISORY)
    assert {each.enforcementLevel for each in shown(stub.Analyze(bad))} == {analyzer_pb2.ADVISORY}
    configure_rules(stub, imdsv2_required=analyzer_pb2.DISABLED)
    assert shown(stub.Analyze(bad)) == []
    configure_rules(stub)
    assert {each.enforcementLevel for each in shown(stub.Analyze(bad))} == {analyzer_pb2.MANDATORY}


def test_settings_of_the_wrong_type_stop_the_run_and_are_named(ours: tuple[Any, Path]) -> None:
    stub, _ = ours
    configure_stack(stub)
    wrong = analyzer_pb2.PolicyConfig(enforcementLevel=analyzer_pb2.MANDATORY)
    wrong.properties.update({"hop_limit": "far"})
    stub.Configure(analyzer_pb2.ConfigureAnalyzerRequest(policyConfig={RULE: wrong}))
    with pytest.raises(grpc.RpcError) as caught:
        stub.Analyze(template())
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert f"policies.{RULE}.settings.hop_limit" in caught.value.details()
    configure_rules(stub)
    stub.Analyze(template())


@pytest.fixture
def broken_checkout(tmp_path: Path) -> Path:
    """A checkout whose sandbox sets a rule that does not exist, and a setting of the wrong type."""
    make_checkout(tmp_path)
    fleet = tmp_path / "stacks" / "sandbox" / "fleet.yaml"
    text = fleet.read_text(encoding="utf-8")
    wrong = "{rule: imdsv3-required, resource: web-node, reason: r, approver: a, expires: 2031-01-01}"
    lines = f"\nexemptions:\n  - {wrong}\n"
    fleet.write_text(text + lines, encoding="utf-8")
    return tmp_path


def test_invalid_fleet_file_stops_the_run_with_file_and_line(broken_checkout: Path) -> None:
    fleet = broken_checkout / "stacks/sandbox/fleet.yaml"
    line = len(fleet.read_text(encoding="utf-8").splitlines())
    with pack(broken_checkout) as stub:
        configure_stack(stub, "sandbox")
        assert not stub.GetAnalyzerInfo(empty_pb2.Empty()).initialConfig
        for call in (
            lambda: stub.Analyze(template()),
            lambda: stub.AnalyzeStack(analyzer_pb2.AnalyzeStackRequest()),
            lambda: stub.Remediate(template()),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                call()
            assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert f"stacks/sandbox/fleet.yaml:{line}: exemptions[0].rule" in caught.value.details()
            assert "did you mean 'imdsv2-required'" in caught.value.details()


def test_stack_settings_cannot_name_a_fleet_file_outside_the_checkout(
    broken_checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    foreign = tmp_path_factory.mktemp("foreign") / "fleet.yaml"
    foreign.write_text("token: [hidden-in-a-file\n", encoding="utf-8")
    (broken_checkout / "stacks" / "linked.yaml").symlink_to(foreign)
    with pack(broken_checkout) as stub:
        for named in (str(foreign), str(broken_checkout / "stacks" / "linked.yaml"), "../../etc/fleet.yaml"):
            stub.ConfigureStack(
                analyzer_pb2.AnalyzerStackConfigureRequest(
                    project="gpufleet", stack="dev", dry_run=True, config={"gpufleet:fleetFile": named}
                )
            )
            with pytest.raises(grpc.RpcError, match="leads out") as caught:
                stub.Analyze(template())
            assert "hidden" not in caught.value.details()


def judged_over_the_wire(stub: Any, environment: str) -> set[tuple[str, str, str, int]]:
    stack = collect(environment)
    configure_stack(stub, environment)
    configure_rules(stub)
    found = [each for resource in stack for each in stub.Analyze(request_of(resource)).diagnostics]
    everything = analyzer_pb2.AnalyzeStackRequest(resources=[stack_resource_of(each) for each in stack])
    found += stub.AnalyzeStack(everything).diagnostics
    return {(each.policyName, each.urn, each.message, each.enforcementLevel) for each in found}


def judged_here(environment: str) -> set[tuple[str, str, str, int]]:
    stack = collect(environment)
    judge = judge_of(environment)
    found = [each for resource in stack for each in judge.resource(resource)] + judge.stack(stack)
    levels = {"advisory": analyzer_pb2.ADVISORY, "mandatory": analyzer_pb2.MANDATORY}
    return {(each.rule.name, each.urn, each.message, levels[each.level]) for each in found}


def test_protocol_gives_the_same_violations_as_this_process(ours: tuple[Any, Path]) -> None:
    stub, report = ours
    for environment in ("prod", "sandbox"):
        assert judged_over_the_wire(stub, environment) == judged_here(environment)
    written = read_report(report)
    assert {each.urn for each in written.stack} == {each.urn for each in collect("sandbox")}
    assert stat.S_IMODE(report.stat().st_mode) == 0o600


def test_protocol_gives_the_same_violations_for_weakened_resources(ours: tuple[Any, Path]) -> None:
    stub, _ = ours
    configure_stack(stub, "prod")
    configure_rules(stub)
    judge = judge_of("prod")
    wrong = 0
    for resource in collect("prod").of_type(TEMPLATE):
        bad = Resource(
            resource.type,
            resource.name,
            resource.urn,
            {**resource.props, "metadataOptions": {}},
            {"metadataOptions": {}},
        )
        request = request_of(bad)
        here = {each.message for each in judge.resource(wire.resource(request))}
        there = {each.message for each in stub.Analyze(request).diagnostics}
        assert here == there
        wrong += len(here)
    assert wrong
