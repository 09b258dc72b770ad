"""`preview`, `up`, `refresh`, `destroy` and `outputs` around an engine: screen, JSON, exit codes."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from gpufleet.cli import stack_run
from gpufleet.engine.api import SECRET, Changes, DiagnosticEvent, Op, PolicyEvent
from gpufleet.engine.errors import StateLockedError
from gpufleet.findings import FINDINGS_SHOWN

from .conftest import STACK, TOPIC, VPC, FakeEngine, Gpufleet, event, result

RUN_KEYS = [
    *("engine", "cloud", "verb", "ok", "changes", "duration_s"),
    *("outputs", "failures", "diagnostics", "violations"),
]


class _Keyboard(io.StringIO):
    """Somebody at a terminal who has typed this already."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def somebody(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`somebody("y")` sits at a terminal and answers so."""

    def sits(answer: str) -> None:
        monkeypatch.setattr(stack_run, "is_terminal", lambda stream: True)
        monkeypatch.setattr(sys, "stdin", _Keyboard(f"{answer}\n"))

    return sits


# -- what is shown


def test_a_preview_starts_with_engine_and_cloud(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    first = gpufleet("preview", "dev").out.splitlines()[0]
    assert first.startswith("gpufleet preview dev")
    assert "engine: embedded" in first
    assert "cloud: aws (a real account; resources cost money)" in first


def test_a_preview_shows_changes_under_their_sites_and_ends_with_cost_and_budget(
    gpufleet: Gpufleet, engine: FakeEngine
) -> None:
    answer = gpufleet("preview", "dev")
    assert answer.code == 0
    lines = answer.out.splitlines()
    site = next(i for i, line in enumerate(lines) if line.startswith("use1 (us-east-1, kubernetes)"))
    account = next(i for i, line in enumerate(lines) if line.startswith("(account)"))
    vpc = next(i for i, line in enumerate(lines) if "atlas-dev-use1-vpc" in line)
    topic = next(i for i, line in enumerate(lines) if "aws:sns:Topic  atlas-dev-budget" in line)
    assert site < vpc < account < topic
    assert lines[site].endswith("1 to create")
    assert lines[account].endswith("2 to create")
    cost = next(i for i, line in enumerate(lines) if "of a 15,000 USD budget" in line)
    assert topic < cost < len(lines)
    assert any("dc1" in line and "racks, slurm" in line for line in lines)
    assert "preview: 3 to create, 0 unchanged in 1.2 s" in lines
    assert lines[-1] == "next: gpufleet up dev"


def test_a_preview_does_not_list_what_stays_as_it_is(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    engine.runs["preview"] = (
        [event(VPC, Op.SAME), event(TOPIC, Op.UPDATE, diff=("tags", "policy"))],
        result("preview", changes=Changes(update=1, same=1)),
    )
    out = gpufleet("preview", "dev").out
    assert "atlas-dev-use1-vpc" not in out
    assert "~ aws:sns:Topic  atlas-dev-budget  [tags, policy]" in out
    assert "preview: 1 to update, 1 unchanged" in out


def test_a_preview_without_changes_says_that_there_is_nothing_to_do(
    gpufleet: Gpufleet, engine: FakeEngine
) -> None:
    engine.runs["preview"] = ([event(VPC, Op.SAME)], result("preview", changes=Changes(same=1)))
    out = gpufleet("preview", "dev").out
    assert out.splitlines()[-1] == "nothing to do"
    assert "next:" not in out


def test_up_lists_each_change_and_ends_with_outputs_and_what_to_do_next(
    gpufleet: Gpufleet, engine: FakeEngine
) -> None:
    answer = gpufleet("up", "dev", "--yes", "--cloud", "aws")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert " + aws:ec2:Vpc  atlas-dev-use1-vpc  2s" in lines
    assert lines.index("outputs:") < lines.index("  fleet: atlas") < lines.index("  use1: vpc_id=vpc-1")
    assert lines[-2] == "up: 3 created, 0 unchanged in 1.2 s"
    assert lines[-1].startswith("next: gpufleet outputs dev --cloud aws   gpufleet inventory dev --cloud aws")
    assert engine.verbs == ["up"]


def test_findings_are_shown_once_and_the_program_is_told_so(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    answer = gpufleet("up", "dev", "--yes")
    assert answer.err.count("(price-age)") == 1
    assert "price-age" not in answer.out
    assert engine.asked[0][1].env[FINDINGS_SHOWN] == "1"


def test_output_without_a_terminal_has_no_colours(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    answer = gpufleet("up", "dev", "--yes")
    assert "\x1b" not in answer.out + answer.err


def test_the_request_names_stack_state_and_configuration(
    gpufleet: Gpufleet, engine: FakeEngine, workplace: Path
) -> None:
    gpufleet("up", "dev", "--yes", "--parallel", "3")
    request = engine.asked[0][1]
    assert (request.project, request.stack, request.parallel) == ("gpufleet", "dev", 3)
    assert request.state_file == workplace / ".gpufleet" / "state" / "aws" / "dev.json"
    assert request.config == {"gpufleet:cloud": "aws", "gpufleet:protect": "false"}
    assert request.providers == {}


def test_a_fleet_file_by_path_runs_the_stack_of_its_environment(
    gpufleet: Gpufleet, engine: FakeEngine, workplace: Path
) -> None:
    answer = gpufleet("up", "stacks/dev/fleet.yaml", "--yes")
    assert answer.code == 0
    request = engine.asked[0][1]
    assert request.stack == "dev"
    assert request.config["gpufleet:fleetFile"] == str(workplace / "stacks" / "dev" / "fleet.yaml")
    assert answer.out.splitlines()[-1].startswith("next: gpufleet outputs stacks/dev/fleet.yaml ")


# -- failures


def test_a_failure_is_named_with_what_it_left_out_and_exits_4(gpufleet: Gpufleet, engine: FakeEngine) -> None:
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


def test_a_mandatory_violation_exits_1_and_an_advisory_one_does_not(
    gpufleet: Gpufleet, engine: FakeEngine
) -> None:
    mandatory = PolicyEvent("gpu", "budget", "mandatory", "over budget")
    engine.runs["preview"] = ([mandatory], result("preview", ok=False, violations=(mandatory,)))
    answer = gpufleet("preview", "dev")
    assert answer.code == 1
    assert "policy budget (mandatory): over budget" in answer.out
    assert "nothing was changed" in answer.out.splitlines()[-1]
    advisory = PolicyEvent("gpu", "budget", "advisory", "near the budget")
    engine.runs["preview"] = ([advisory], result("preview", violations=(advisory,)))
    assert gpufleet("preview", "dev").code == 0


def test_a_locked_state_exits_4_with_its_remedy(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    locked = StateLockedError("the state is locked by process 7", remedy="wait until that run ends")
    engine.runs["up"] = ([], locked)
    answer = gpufleet("up", "dev", "--yes")
    assert answer.code == 4
    assert answer.err.splitlines()[-2:] == [
        "error: the state is locked by process 7",
        "  fix: wait until that run ends",
    ]


def test_an_interruption_says_that_the_state_is_kept_and_exits_4(
    gpufleet: Gpufleet, engine: FakeEngine
) -> None:
    engine.runs["up"] = ([event(VPC, status="started")], KeyboardInterrupt())
    answer = gpufleet("up", "dev", "--yes")
    assert answer.code == 4
    assert "interrupted; what was done is in the state" in answer.err
    assert "Traceback" not in answer.out + answer.err
    document = gpufleet("up", "dev", "--yes", "--json").json
    assert document["exit_code"] == 4
    assert document["error"] == "interrupted; what was done is in the state"


def test_an_internal_error_leaves_its_traceback_in_a_log_and_exits_3(
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


def test_an_internal_error_without_room_for_a_log_goes_to_stderr(
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
        (OSError(28, "No space left on device", "/work/x"), "/work/x: No space left on device"),
        (PermissionError(13, "Permission denied", "/work/x"), "/work/x: Permission denied"),
        (OSError(30, "Read-only file system", "/work/x"), "/work/x: Read-only file system"),
    ],
)
def test_a_fault_of_the_machine_is_no_internal_error(
    gpufleet: Gpufleet, engine: FakeEngine, fault: OSError, words: str
) -> None:
    engine.runs["up"] = ([], fault)
    answer = gpufleet("up", "dev", "--yes")
    assert answer.code == 4
    assert f"error: {words}" in answer.err
    assert "  fix: " in answer.err
    assert "internal" not in answer.err


def test_a_file_in_the_place_of_the_local_folder_is_told_apart_from_a_bug(
    gpufleet: Gpufleet, workplace: Path
) -> None:
    (workplace / ".gpufleet").write_text("", encoding="utf-8")
    answer = gpufleet("up", "dev", "--engine", "embedded", "--yes")
    assert answer.code == 4
    assert "Not a directory" in answer.err
    assert "internal" not in answer.err


# -- asking


@pytest.mark.parametrize("verb", ["up", "refresh", "destroy"])
def test_what_changes_something_needs_yes_where_nobody_can_be_asked(
    gpufleet: Gpufleet, engine: FakeEngine, verb: str
) -> None:
    answer = gpufleet(verb, "dev")
    assert answer.code == 2
    assert f"{verb} asks before it changes anything" in answer.err
    assert "pass --yes" in answer.err
    assert engine.asked == []
    assert answer.out == ""


def test_json_needs_yes_even_at_a_terminal(gpufleet: Gpufleet, engine: FakeEngine, somebody: Any) -> None:
    somebody("y")
    answer = gpufleet("up", "dev", "--json")
    assert answer.code == 2
    assert answer.json["exit_code"] == 2
    assert engine.asked == []


def test_up_previews_and_goes_on_after_a_yes(gpufleet: Gpufleet, engine: FakeEngine, somebody: Any) -> None:
    somebody("y")
    answer = gpufleet("up", "dev")
    assert answer.code == 0
    assert engine.verbs == ["preview", "up"]
    assert answer.out.index("preview: 3 to create") < answer.out.index("up: 3 created")


def test_up_changes_nothing_after_a_no(gpufleet: Gpufleet, engine: FakeEngine, somebody: Any) -> None:
    somebody("n")
    answer = gpufleet("up", "dev")
    assert answer.code == 1
    assert engine.verbs == ["preview"]
    assert answer.err.splitlines()[-1] == "stopped; nothing was changed"


def test_up_does_not_ask_where_nothing_would_change(
    gpufleet: Gpufleet, engine: FakeEngine, somebody: Any
) -> None:
    somebody("n")
    engine.runs["preview"] = ([event(VPC, Op.SAME)], result("preview", changes=Changes(same=1)))
    engine.runs["up"] = ([event(VPC, Op.SAME)], result("up", changes=Changes(same=1)))
    answer = gpufleet("up", "dev")
    assert answer.code == 0
    assert engine.verbs == ["preview", "up"]
    assert "Go on" not in answer.out + answer.err


def test_up_stops_at_a_preview_that_fails(gpufleet: Gpufleet, engine: FakeEngine, somebody: Any) -> None:
    somebody("y")
    engine.runs["preview"] = ([], result("preview", ok=False))
    assert gpufleet("up", "dev").code == 4
    assert engine.verbs == ["preview"]


def test_destroy_says_what_it_would_delete_before_it_asks(
    gpufleet: Gpufleet, engine: FakeEngine, somebody: Any
) -> None:
    resources = [
        {"type": "pulumi:pulumi:Stack", "urn": STACK},
        {"type": "pulumi:providers:aws", "urn": "p", "custom": True},
        {"type": "aws:fsx/lustreFileSystem:LustreFileSystem", "urn": "a", "custom": True},
        {"type": "aws:ec2/subnet:Subnet", "urn": "b", "custom": True},
        {"type": "aws:ec2/subnet:Subnet", "urn": "c", "custom": True},
    ]
    engine.state = {"version": 3, "deployment": {"resources": resources}}
    somebody("n")
    answer = gpufleet("destroy", "dev")
    assert answer.code == 1
    assert engine.verbs == ["export"]
    assert "   2 aws:ec2/subnet:Subnet" in answer.out
    assert "   1 aws:fsx/lustreFileSystem:LustreFileSystem" in answer.out
    assert "providers" not in answer.out
    assert "Delete all 3 of dev in cloud aws?" in answer.out + answer.err


def test_destroy_and_refresh_do_without_a_valid_fleet_file(
    gpufleet: Gpufleet, engine: FakeEngine, workplace: Path
) -> None:
    (workplace / "stacks" / "dev" / "fleet.yaml").write_text("nonsense", encoding="utf-8")
    assert gpufleet("destroy", "dev", "--yes").code == 0
    assert gpufleet("refresh", "dev", "--yes").code == 0
    assert engine.verbs == ["destroy", "refresh"]


def test_bad_input_is_told_before_an_engine_is_asked_anything(
    gpufleet: Gpufleet, engine: FakeEngine, workplace: Path
) -> None:
    path = workplace / "stacks" / "dev" / "fleet.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("p5.48xlarge", "x").replace("spot", "spott"))
    answer = gpufleet("up", "dev", "--yes", "--json")
    assert answer.code == 2
    assert answer.json["findings"]
    assert engine.asked == []


# -- JSON


@pytest.mark.parametrize("verb", ["preview", "up"])
def test_json_of_preview_and_up_is_one_object_with_these_keys(
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
def test_json_of_refresh_and_destroy_is_one_object_with_these_keys(
    gpufleet: Gpufleet, engine: FakeEngine, verb: str
) -> None:
    answer = gpufleet(verb, "dev", "--json", "--yes")
    assert answer.code == 0
    assert list(answer.json) == RUN_KEYS
    assert answer.json["changes"][{"refresh": "same", "destroy": "delete"}[verb]] == 1


def test_json_names_failures_diagnostics_and_violations(gpufleet: Gpufleet, engine: FakeEngine) -> None:
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
        {"pack": "gpu", "policy": "tags", "enforcement": "advisory", "message": "no owner", "urn": VPC}
    ]


# -- outputs


def test_outputs_are_printed_sorted_and_indented_and_secrets_stay_hidden(
    gpufleet: Gpufleet, engine: FakeEngine
) -> None:
    engine.values = {"use1": {"lustre": {"scratch": {"id": "fs-1"}}}, "key": SECRET, "fleet": "atlas"}
    out = gpufleet("outputs", "dev").out.splitlines()
    assert out[0] == "  fleet: atlas"
    assert out[1] == "  key: [secret; `gpufleet outputs --show-secrets` prints it]"
    assert out[2:] == ["  use1:", "    lustre:", "      scratch: id=fs-1"]


def test_outputs_as_json_are_the_outputs_and_nothing_else(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    engine.values = {"fleet": "atlas"}
    assert gpufleet("outputs", "dev", "--json").json == {"fleet": "atlas"}
    gpufleet("outputs", "dev", "--show-secrets")
    assert [request.show_secrets for _, request in engine.asked] == [False, True]


def test_no_outputs_is_said_beside_stdout(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    answer = gpufleet("outputs", "dev")
    assert answer.code == 0
    assert answer.out == ""
    assert "run `gpufleet up dev` first" in answer.err


# -- names


@pytest.mark.parametrize("verb", ["preview", "up", "refresh", "destroy", "outputs"])
def test_an_unknown_environment_is_refused_by_every_verb(
    gpufleet: Gpufleet, engine: FakeEngine, verb: str
) -> None:
    answer = gpufleet(verb, "dve", *(["--yes"] if verb in ("up", "refresh", "destroy") else []))
    assert answer.code == 2
    assert "no environment 'dve'" in answer.err
    assert "did you mean 'dev'?" in answer.err
    assert engine.asked == []


def test_a_state_outlives_its_fleet_file(gpufleet: Gpufleet, engine: FakeEngine, workplace: Path) -> None:
    state = workplace / ".gpufleet" / "state" / "aws" / "gone.json"
    state.parent.mkdir(parents=True)
    state.write_text("{}", encoding="utf-8")
    assert gpufleet("destroy", "gone", "--yes").code == 0


def test_an_unknown_cloud_is_refused_with_those_there_are(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    answer = gpufleet("preview", "dev", "--cloud", "azure")
    assert answer.code == 2
    assert "cloud 'azure' is not one of sandbox, aws" in answer.err


def test_an_unknown_engine_is_refused_with_those_there_are(gpufleet: Gpufleet) -> None:
    answer = gpufleet("preview", "dev", "--engine", "terraform")
    assert answer.code == 2
    assert "there is no engine 'terraform'" in answer.err
