"""`gpufleet preflight`, and the preflight before `up`."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.account.result import AccountCheck, AccountFinding, Preflight

from .conftest import FakeEngine, Gpufleet

REQUEST = "aws service-quotas request-service-quota-increase --quota-code L-1 --desired-value 8"


def finding(severity: Any = "error") -> AccountFinding:
    path = ("cloud", 0, "node_groups", 0)
    return AccountFinding("quota", path, 4.0, "the quota is 4", "request 8", REQUEST, severity)


def result(*findings: AccountFinding, unchecked: tuple[str, ...] = ()) -> Preflight:
    checks = (
        AccountCheck("zones", "us-east-1", facts=({"zone": "us-east-1a", "zone_id": "use1-az6"},)),
        AccountCheck("quotas", "us-east-1", findings, unchecked),
    )
    return Preflight("********9012", checks, ("policies of the organization are not simulated",))


@pytest.fixture
def found(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the result of every preflight."""
    del engine

    def prepare(preflight: Preflight) -> None:
        monkeypatch.setattr("gpufleet.cli.preflight.read_account", lambda *_: preflight)

    prepare(result())
    return prepare


def preflight(gpufleet: Gpufleet, *options: str) -> Any:
    return gpufleet("preflight", "dev", "--cloud", "aws", *options)


@pytest.mark.parametrize(
    ("prepared", "code", "status"),
    [
        (result(), 0, "pass"),
        (result(finding()), 1, "missing"),
        (result(finding("warning")), 1, "missing"),
        (result(unchecked=("refused",)), 4, "not-checked"),
        (result(finding(), unchecked=("refused",)), 1, "missing"),
    ],
)
def test_exit_code_and_status_say_what_was_found(
    gpufleet: Gpufleet, found: Any, prepared: Preflight, code: int, status: str
) -> None:
    found(prepared)
    assert preflight(gpufleet).code == code
    answer = preflight(gpufleet, "--json")
    assert (answer.code, answer.json["status"]) == (code, status)


def test_text_has_zones_lines_and_requests(gpufleet: Gpufleet, found: Any) -> None:
    found(result(finding(), unchecked=("iam: GetRole is refused",)))
    text = preflight(gpufleet).out
    assert "us-east-1a is use1-az6" in text
    assert "error: the quota is 4" in text
    assert text.count("stacks/dev/fleet.yaml:") == 1
    assert f"    {REQUEST}\n" in text
    assert "not checked: quotas in us-east-1: iam: GetRole is refused" in text
    assert "note: policies of the organization" in text


def test_json_has_findings_with_their_place_and_request(gpufleet: Gpufleet, found: Any) -> None:
    found(result(finding()))
    document = preflight(gpufleet, "--json").json
    (each,) = document["findings"]
    assert each["field"] == "cloud[0].node_groups[0]"
    assert each["line"] > 1
    assert each["request"] == REQUEST
    assert {"file", "value", "rule", "message", "remedy", "severity"} <= each.keys()
    assert document["account"] == "********9012"
    assert [check["status"] for check in document["checks"]] == ["pass", "missing"]


def up(gpufleet: Gpufleet, *options: str) -> Any:
    return gpufleet("up", "dev", "--yes", "--cloud", "aws", *options)


def test_up_stops_before_any_change_if_the_fleet_would_fail(
    gpufleet: Gpufleet, found: Any, engine: FakeEngine
) -> None:
    found(result(finding()))
    answer = up(gpufleet)
    assert answer.code == 1
    assert "the account lacks 1 thing" in answer.err
    assert "nothing has been changed" in answer.err
    assert REQUEST in answer.err
    assert "--skip-preflight" in answer.err
    assert "up" not in engine.verbs


def test_up_goes_on_with_warnings_and_unchecked_parts(
    gpufleet: Gpufleet, found: Any, engine: FakeEngine
) -> None:
    found(result(finding("warning"), unchecked=("refused",)))
    answer = up(gpufleet)
    assert answer.code == 0
    assert "warning: the quota is 4" in answer.err
    assert "not checked: quotas in us-east-1: refused" in answer.err
    assert "up" in engine.verbs


def test_up_in_json_prints_only_its_object(gpufleet: Gpufleet, found: Any) -> None:
    found(result(finding("warning")))
    answer = up(gpufleet, "--json")
    assert answer.json["ok"]
    assert "the quota is 4" not in answer.err


def test_skipped_preflight_is_not_made(
    gpufleet: Gpufleet, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> Preflight:
        raise AssertionError

    monkeypatch.setattr("gpufleet.cli.preflight.read_account", never)
    assert up(gpufleet, "--skip-preflight").code == 0
    assert "up" in engine.verbs


def test_other_commands_make_no_preflight(
    gpufleet: Gpufleet, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> Preflight:
        raise AssertionError

    monkeypatch.setattr("gpufleet.cli.preflight.read_account", never)
    for verb in ("refresh", "destroy"):
        gpufleet(
            verb, "dev", "--yes", "--cloud", "aws", *(["--allow-data-loss"] if verb == "destroy" else [])
        )
    gpufleet("preview", "dev", "--cloud", "aws")
    assert {"refresh", "preview"} <= set(engine.verbs)
