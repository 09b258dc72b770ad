"""The JSON contract of the runs: one object, with exactly these keys."""

from __future__ import annotations

import pytest

from gpufleet.engine.api import DiagnosticEvent, PolicyEvent

from .conftest import VPC, FakeEngine, Gpufleet, event, result

RUN_KEYS = [
    *("engine", "cloud", "verb", "ok", "changes", "duration_s"),
    *("outputs", "failures", "diagnostics", "violations"),
]


@pytest.mark.usefixtures("old_price")
@pytest.mark.parametrize("verb", ["preview", "up"])
def test_json_of_preview_and_up_is_one_object_with_the_stable_keys(
    gpufleet: Gpufleet, engine: FakeEngine, verb: str
) -> None:
    answer = gpufleet(verb, "dev", "--json", *(["--yes"] if verb == "up" else []))
    document = answer.json
    assert answer.code == 0
    assert list(document) == [*RUN_KEYS, "cost", "findings", "sites"]
    assert document["engine"] == "embedded"
    assert document["cloud"] == "aws"
    assert document["verb"] == verb
    assert document["changes"] == {"create": 3, "update": 0, "replace": 0, "delete": 0, "same": 0}
    assert document["duration_s"] == 1.25
    assert document["cost"]["monthly"]["currency"] == "USD"
    assert [finding["rule"] for finding in document["findings"]] == ["price-age"]
    assert [site["site"] for site in document["sites"]] == ["use1", None]
    (vpc,) = document["sites"][0]["resources"]
    assert vpc == {
        "urn": VPC,
        "type": "aws:ec2/vpc:Vpc",
        "name": "atlas-dev-use1-vpc",
        "op": "create",
        "diff": [],
        "replace_keys": [],
    }
    assert answer.err == ""


@pytest.mark.parametrize("verb", ["refresh", "destroy"])
def test_json_of_refresh_and_destroy_is_one_object_with_the_stable_keys(
    gpufleet: Gpufleet, engine: FakeEngine, verb: str
) -> None:
    answer = gpufleet(verb, "dev", "--json", "--yes")
    assert answer.code == 0
    assert list(answer.json) == RUN_KEYS
    assert answer.json["changes"][{"refresh": "same", "destroy": "delete"}[verb]] == 1


def test_json_has_failures_diagnostics_and_violations(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    failed = event(VPC, status="failed", error="quota")
    engine.runs["up"] = (
        [failed],
        result(
            "up",
            ok=False,
            failures=(failed,),
            diagnostics=(DiagnosticEvent("info", "hello"), DiagnosticEvent("warning", "beware", VPC)),
            violations=(PolicyEvent("gpu", "tags", "advisory", "no owner", VPC),),
        ),
    )
    answer = gpufleet("up", "dev", "--yes", "--json")
    assert answer.code == 4
    document = answer.json
    assert document["ok"] is False
    assert document["failures"] == [
        {"urn": VPC, "type": "aws:ec2/vpc:Vpc", "name": VPC.rpartition("::")[2], "status": "failed"}
        | {"error": "quota"}
    ]
    assert document["diagnostics"] == [{"severity": "warning", "message": "beware", "urn": VPC}]
    assert document["violations"] == [
        {"pack": "gpu", "policy": "tags", "enforcement": "advisory", "severity": ""}
        | {"message": "no owner", "urn": VPC}
    ]
