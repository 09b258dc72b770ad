"""Output of failed runs: message, remedy and exit code, and never a traceback."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpufleet.engine.api import Changes, InterruptEvent, OnEvent, PolicyEvent, RunResult, StackRequest
from gpufleet.engine.errors import StateLockedError
from gpufleet.policy.report import REPORT
from gpufleet.resources.types import LUSTRE

from .conftest import ROOT, STACK, TOPIC, VPC, FakeEngine, Gpufleet, event, result


def test_failure_lists_skipped_resources_and_exits_4(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    failed = event(VPC, status="failed", error=f"quota of {TOPIC} is used up")
    left_out = [
        event(f"{VPC}-{number}", status="skipped", error=f"because {VPC} failed") for number in range(9)
    ]
    engine.runs["up"] = (
        [failed, *left_out],
        result("up", ok=False, failures=(failed, *left_out), changes=Changes(same=5)),
    )
    answer = gpufleet("up", "dev", "--yes")
    assert answer.code == 4
    assert "failed atlas-dev-use1-vpc (aws:ec2/vpc:Vpc): quota of atlas-dev-budget is used up" in answer.err
    assert "skipped 9 that need what failed: atlas-dev-use1-vpc-0, " in answer.err
    assert answer.err.rstrip().endswith("atlas-dev-use1-vpc-7 and 1 more")
    assert answer.out.count("skipped") == 1
    assert "up: 5 unchanged, 1 failed, 9 skipped in 1.2 s" in answer.out
    assert answer.out.splitlines()[-1].startswith("nothing is lost")
    assert "outputs:" not in answer.out


def test_mandatory_violation_exits_1_and_an_advisory_one_does_not(
    gpufleet: Gpufleet, engine: FakeEngine
) -> None:
    mandatory = PolicyEvent("gpu", "budget", "mandatory", "over budget")
    engine.runs["preview"] = ([mandatory], result("preview", ok=False, violations=(mandatory,)))
    answer = gpufleet("preview", "dev")
    assert answer.code == 1
    assert answer.out.splitlines()[-4:] == [
        "nothing was changed",
        "",
        "1 violation of 1 rule forbids this:",
        "error: budget: stack: over budget",
    ]
    advisory = PolicyEvent("gpu", "budget", "advisory", "near the budget")
    engine.runs["preview"] = ([advisory], result("preview", violations=(advisory,)))
    assert gpufleet("preview", "dev").code == 0


def test_refused_up_ends_with_file_line_and_remedy(
    gpufleet: Gpufleet, engine: FakeEngine, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "policies", workplace / "policies", ignore=shutil.ignore_patterns("__pycache__"))
    text = "at its maximum size the stack costs 9 USD; lower `max` of node groups"
    found = {
        **{"rule": "budget-at-maximum", "enforcement": "mandatory", "level": "mandatory", "urn": STACK},
        **{"message": text, "remedy": "lower `max` of node groups", "prop": ""},
        **{"fleet_field": "budget.monthly", "unknown": False, "exempted": False},
    }
    engine.state = {"version": 3, "deployment": {"resources": []}}
    mandatory = PolicyEvent("gpu", "budget-at-maximum", "mandatory", text, urn=STACK)
    outcome = result("preview", ok=False, violations=(mandatory,))

    def preview(request: StackRequest, on_event: OnEvent) -> RunResult:
        Path(request.env[REPORT]).write_text(json.dumps({"resources": [], "found": [found]}))
        on_event(mandatory)
        return outcome

    monkeypatch.setattr(engine, "preview", preview)
    answer = gpufleet("up", "dev", "--yes")
    fleet = (workplace / "stacks" / "dev" / "fleet.yaml").read_text().splitlines()
    line = next(number for number, text in enumerate(fleet, 1) if "monthly:" in text)
    assert answer.code == 1
    assert answer.out.count("at its maximum size") == 1
    why = "budget-at-maximum: stack: at its maximum size the stack costs 9 USD"
    assert answer.out.splitlines()[-3:] == [
        "1 violation of 1 rule forbids this:",
        f"stacks/dev/fleet.yaml:{line}: error: {why}",
        "    remedy: lower `max` of node groups",
    ]


def test_advice_of_the_preview_is_not_repeated_by_up(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    advice = PolicyEvent("gpu", "price-age", "advisory", "19 old prices")
    seen = replace(engine.runs["preview"][1], violations=(advice,))
    engine.runs["preview"] = ([advice], seen)
    engine.runs["up"] = ([replace(advice, message="18 old prices")], engine.runs["up"][1])
    engine.state = {"deployment": {"resources": [{"type": LUSTRE, "urn": VPC}]}}
    answer = gpufleet("up", "dev", "--yes")
    assert answer.code == 0
    assert answer.out.count("old prices") == 1


@pytest.mark.usefixtures("old_price")
def test_old_prices_are_reported_once_by_a_finding_or_the_policy(
    gpufleet: Gpufleet, engine: FakeEngine
) -> None:
    advice = PolicyEvent("gpufleet", "price-catalog-age", "advisory", "10 costs have old prices")
    seen = replace(engine.runs["preview"][1], violations=(advice,))
    engine.runs["preview"] = ([advice], seen)
    engine.runs["up"] = ([advice], engine.runs["up"][1])
    for verb in ("preview", "up"):
        answer = gpufleet(verb, "dev", *(["--yes"] if verb == "up" else []))
        assert answer.code == 0
        assert answer.err.count("(price-age)") == 1
        assert "price-catalog-age" not in answer.out + answer.err


def test_old_prices_are_refused_by_a_mandatory_policy(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    refusal = PolicyEvent("gpufleet", "price-catalog-age", "mandatory", "10 costs have old prices")
    engine.runs["preview"] = ([refusal], replace(engine.runs["preview"][1], ok=False, violations=(refusal,)))
    answer = gpufleet("preview", "dev")
    assert answer.code == 1
    assert answer.out.count("price-catalog-age") == 1


def test_locked_state_exits_4_with_its_remedy(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    locked = StateLockedError("the state is locked by process 7", remedy="wait until that run ends")
    engine.runs["up"] = ([], locked)
    answer = gpufleet("up", "dev", "--yes")
    assert answer.code == 4
    assert answer.err.splitlines()[-2:] == [
        "error: the state is locked by process 7",
        "  fix: wait until that run ends",
    ]


def test_interruption_repeats_the_users_command_and_exits_130(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    engine.runs["up"] = ([event(VPC, status="started")], KeyboardInterrupt())
    answer = gpufleet("up", "dev", "--yes", "--parallel", "3")
    assert answer.code == 130
    same = "`gpufleet up dev --yes --parallel 3`"
    line = f"interrupted; the state is kept; run the same command to continue: {same}"
    assert answer.err.splitlines()[-1] == line
    assert "Traceback" not in answer.out + answer.err
    document = gpufleet("up", "dev", "--yes", "--json").json
    assert document["exit_code"] == 130
    assert document["error"] == "interrupted; the state is kept"
    assert document["remedy"] == "run the same command to continue: `gpufleet up dev --yes --json`"


def test_orderly_end_after_an_interruption_shows_the_changes(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    begun = [event(VPC, status="started"), event(TOPIC, status="started"), InterruptEvent()]
    left_out = event(TOPIC, status="skipped", error="the run was interrupted")
    ended = result("up", ok=False, changes=Changes(create=1), failures=(left_out,), interrupted=True)
    engine.runs["up"] = ([*begun, event(VPC), left_out], ended)
    answer = gpufleet("up", "dev", "--yes")
    assert answer.code == 130
    assert "interrupted: waiting for 2 operations" in answer.out
    assert "up: 1 created, 0 unchanged, 1 skipped in 1.2 s" in answer.out
    assert "skipped 1 that had not begun: atlas-dev-budget" in answer.err
    assert answer.err.splitlines()[-1].startswith(
        "interrupted; the state is kept; run the same command to continue"
    )
    answer = gpufleet("up", "dev", "--yes", "--json")
    assert answer.code == 130
    assert answer.json["changes"]["create"] == 1


def test_interrupted_preview_is_one_line(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    failed = event(VPC, status="failed", error="the provider has stopped")
    ended = result("preview", ok=False, failures=(failed,), interrupted=True)
    engine.runs["preview"] = ([InterruptEvent(), failed], ended)
    answer = gpufleet("preview", "dev")
    assert answer.code == 130
    assert "stopped" not in answer.out + answer.err
    assert answer.err.splitlines()[-1] == "interrupted; run the same command again: `gpufleet preview dev`"


def test_internal_error_writes_its_traceback_to_a_log_and_exits_3(
    gpufleet: Gpufleet, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    engine.runs["up"] = ([], ZeroDivisionError("a bug"))
    answer = gpufleet("up", "dev", "--yes")
    assert answer.code == 3
    (log,) = tmp_path.glob("gpufleet-*.log")
    assert f"internal error (ZeroDivisionError: a bug); the details are in {log}" in answer.err
    assert "Traceback" not in answer.err
    assert "Traceback" in log.read_text(encoding="utf-8")


def test_internal_error_goes_to_stderr_if_the_log_cannot_be_written(
    gpufleet: Gpufleet, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nonexistent")
    engine.runs["up"] = ([], ZeroDivisionError("a bug"))
    answer = gpufleet("up", "dev", "--yes")
    assert answer.code == 3
    assert "ZeroDivisionError: a bug" in answer.err
    assert "report it with the lines above" in answer.err


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (OSError(28, "No space left on device", "/data/x"), "/data/x: No space left on device"),
        (PermissionError(13, "Permission denied", "/data/x"), "/data/x: Permission denied"),
        (OSError(30, "Read-only file system", "/data/x"), "/data/x: Read-only file system"),
    ],
)
def test_machine_failure_is_not_an_internal_error(
    gpufleet: Gpufleet, engine: FakeEngine, fault: OSError, words: str
) -> None:
    engine.runs["up"] = ([], fault)
    answer = gpufleet("up", "dev", "--yes")
    assert answer.code == 4
    assert f"error: {words}" in answer.err
    assert "  fix: " in answer.err
    assert "internal" not in answer.err


def test_file_in_place_of_the_local_folder_is_not_an_internal_error(
    gpufleet: Gpufleet, workplace: Path
) -> None:
    (workplace / ".gpufleet").write_text("", encoding="utf-8")
    answer = gpufleet("up", "dev", "--engine", "embedded", "--cloud", "sandbox", "--yes")
    assert answer.code == 4
    assert "Not a directory" in answer.err
    assert "internal" not in answer.err
