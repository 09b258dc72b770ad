"""Remediation over the Analyzer protocol: changed and unchanged properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import struct_pb2
from pulumi.runtime.proto import analyzer_pb2

from gpufleet.policy import wire
from gpufleet.policy.context import RuleContext
from gpufleet.policy.server import AnalyzerService
from gpufleet.resources.resource import UNKNOWN, Resource
from tests.collected import ROOT
from tests.unit.policy.samples import BOX, Size, small_boxes


def shrink(resource: Resource, context: RuleContext[Size]) -> Mapping[str, Any] | None:
    """Reduce the size, and add a label to the existing ones."""
    most = context.settings.most
    if resource.get("size", 0) <= most:
        return None
    return {"size": most, "labels": {**resource.get("labels", {}), "shrunk": "true"}}


def remediated(level: int = analyzer_pb2.REMEDIATE, **props: Any) -> list[Any]:
    """The server's response for a box with the properties."""
    server = AnalyzerService(ROOT, [small_boxes(remediate=shrink)])
    server.ConfigureStack(analyzer_pb2.AnalyzerStackConfigureRequest(project="p", stack="no-fleet"), None)
    config = {"small-boxes": analyzer_pb2.PolicyConfig(enforcementLevel=level)}
    server.Configure(analyzer_pb2.ConfigureAnalyzerRequest(policyConfig=config), None)
    fields = struct_pb2.Struct()
    fields.update(props)
    request = analyzer_pb2.AnalyzeRequest(type=BOX, name="box", urn="urn:box", properties=fields)
    answer = list(server.Remediate(request, None).remediations)
    assert wire.properties(request.properties) == wire.properties(fields), "the request is not ours to change"
    return answer


def secret(value: Any) -> dict[str, Any]:
    return {wire.SIGNATURE: wire.SECRET, "value": value}


def test_complete_resource_is_returned_with_the_remediation() -> None:
    (one,) = remediated(size=99, other={"a": [1]})
    assert one.policyName == "small-boxes"
    assert wire.properties(one.properties) == {"size": 10, "labels": {"shrunk": "true"}, "other": {"a": [1]}}


def test_correct_resource_is_unchanged() -> None:
    assert remediated(size=9) == []


def test_rule_at_another_level_remediates_nothing() -> None:
    for level in (analyzer_pb2.ADVISORY, analyzer_pb2.MANDATORY, analyzer_pb2.DISABLED):
        assert remediated(level, size=99) == []


def test_secrets_stay_secret_with_or_without_remediation() -> None:
    (one,) = remediated(size=secret(99), labels={"token": secret("t0ken")}, password=secret("hunter2"))
    secrets: set[str] = set()
    mended = wire.properties(one.properties, secrets)
    assert mended == {"size": 10, "labels": {"token": "t0ken", "shrunk": "true"}, "password": "hunter2"}
    assert secrets == {"size", "labels.token", "password"}


def test_unknown_values_stay_unknown() -> None:
    (one,) = remediated(size=99, labels={"later": wire.UNKNOWN_STRING}, id=wire.UNKNOWN_STRING)
    mended = wire.properties(one.properties)
    assert mended["labels"] == {"later": UNKNOWN, "shrunk": "true"}
    assert mended["id"] is UNKNOWN
