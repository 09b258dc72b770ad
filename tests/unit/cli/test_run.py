"""Output of `preview`, `up` and `outputs`, and their requests to an engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.engine.api import SECRET, Changes, Op
from gpufleet.findings import FINDINGS_SHOWN

from .conftest import TOPIC, VPC, FakeEngine, Gpufleet, event, result


def test_preview_starts_with_engine_and_cloud(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    first = gpufleet("preview", "dev").out.splitlines()[0]
    assert first.startswith("gpufleet preview dev")
    assert "engine: embedded" in first
    assert "cloud: aws (a real account; resources cost money)" in first


def test_preview_groups_changes_by_site_and_ends_with_cost_and_budget(
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
    assert lines[-1] == "next: `gpufleet up dev`"


def test_preview_does_not_list_unchanged_resources(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    engine.runs["preview"] = (
        [event(VPC, Op.SAME), event(TOPIC, Op.UPDATE, diff=("tags", "policy"))],
        result("preview", changes=Changes(update=1, same=1)),
    )
    out = gpufleet("preview", "dev").out
    assert "atlas-dev-use1-vpc" not in out
    assert "~ aws:sns:Topic  atlas-dev-budget  [tags, policy]" in out
    assert "preview: 1 to update, 1 unchanged" in out


def test_preview_without_changes_reports_nothing_to_do(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    engine.runs["preview"] = ([event(VPC, Op.SAME)], result("preview", changes=Changes(same=1)))
    out = gpufleet("preview", "dev").out
    assert out.splitlines()[-1] == "nothing to do"
    assert "next:" not in out


def test_up_prints_one_screen_and_logs_each_change(
    gpufleet: Gpufleet, engine: FakeEngine, workplace: Path
) -> None:
    answer = gpufleet("up", "dev", "--yes", "--cloud", "aws")
    assert "atlas-dev-use1-vpc" not in answer.out
    log = workplace / ".gpufleet" / "logs" / "up-dev.log"
    assert answer.out.splitlines()[-4:-1] == [
        "outputs: fleet, use1",
        "up: 3 created, 0 unchanged in 1.2 s",
        "log: .gpufleet/logs/up-dev.log",
    ]
    assert any(
        line.endswith(" s  + aws:ec2:Vpc  atlas-dev-use1-vpc  2s") for line in log.read_text().splitlines()
    )
    assert log.stat().st_mode & 0o777 == 0o600


def test_unwritable_log_is_not_named_and_stops_nothing(
    gpufleet: Gpufleet, engine: FakeEngine, workplace: Path
) -> None:
    (workplace / ".gpufleet").mkdir(exist_ok=True)
    (workplace / ".gpufleet" / "logs").write_text("in the way")
    answer = gpufleet("up", "dev", "--yes", "--cloud", "aws")
    assert answer.code == 0
    assert "log:" not in answer.out


def test_verbose_up_lists_each_change_outputs_and_next_steps(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    answer = gpufleet("up", "dev", "--yes", "--cloud", "aws", "--verbose")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert " + aws:ec2:Vpc  atlas-dev-use1-vpc  2s" in lines
    assert lines.index("outputs:") < lines.index("  fleet: atlas") < lines.index("  use1: vpc_id=vpc-1")
    assert lines[-3] == "up: 3 created, 0 unchanged in 1.2 s"
    assert lines[-1] == (
        "next: `gpufleet outputs dev --cloud aws`, `gpufleet inventory dev --cloud aws` or "
        "`gpufleet destroy dev --cloud aws`"
    )
    assert engine.verbs == ["export", "up"]


@pytest.mark.usefixtures("old_price")
def test_findings_are_shown_once_and_the_program_does_not_repeat_them(
    gpufleet: Gpufleet, engine: FakeEngine
) -> None:
    answer = gpufleet("up", "dev", "--yes")
    assert answer.err.count("(price-age)") == 1
    assert "price-age" not in answer.out
    assert engine.asked[0][1].env[FINDINGS_SHOWN] == "1"


def test_output_without_a_terminal_has_no_colors(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    answer = gpufleet("up", "dev", "--yes")
    assert "\x1b" not in answer.out + answer.err


def test_request_has_stack_state_and_configuration(
    gpufleet: Gpufleet, engine: FakeEngine, workplace: Path
) -> None:
    gpufleet("up", "dev", "--yes", "--parallel", "3")
    request = engine.asked[0][1]
    assert (request.project, request.stack, request.parallel) == ("gpufleet", "dev", 3)
    assert request.state_file == workplace / ".gpufleet" / "state" / "aws" / "dev.json"
    assert request.config == {"gpufleet:cloud": "aws", "gpufleet:protect": "false"}
    assert request.providers == {}


def test_fleet_file_path_selects_the_stack_of_its_environment(
    gpufleet: Gpufleet, engine: FakeEngine, workplace: Path
) -> None:
    answer = gpufleet("up", "stacks/dev/fleet.yaml", "--yes")
    assert answer.code == 0
    request = engine.asked[0][1]
    assert request.stack == "dev"
    assert request.config["gpufleet:fleetFile"] == str(workplace / "stacks" / "dev" / "fleet.yaml")
    assert answer.out.splitlines()[-1].startswith("next: `gpufleet outputs stacks/dev/fleet.yaml`")


def test_outputs_are_sorted_and_indented_and_hide_secrets(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    engine.values = {"use1": {"lustre": {"scratch": {"id": "fs-1"}}}, "key": SECRET, "fleet": "atlas"}
    out = gpufleet("outputs", "dev").out.splitlines()
    assert out[0] == "  fleet: atlas"
    assert out[1] == "  key: [secret; `gpufleet outputs --show-secrets` prints it]"
    assert out[2:] == ["  use1:", "    lustre:", "      scratch: id=fs-1"]


def test_outputs_json_has_only_the_outputs(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    engine.values = {"fleet": "atlas"}
    assert gpufleet("outputs", "dev", "--json").json == {"fleet": "atlas"}
    gpufleet("outputs", "dev", "--show-secrets")
    assert [request.show_secrets for _, request in engine.asked] == [False, True]


def test_missing_outputs_are_reported_on_stderr(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    answer = gpufleet("outputs", "dev")
    assert answer.code == 0
    assert answer.out == ""
    assert "run `gpufleet up dev` first" in answer.err


@pytest.mark.parametrize("verb", ["preview", "up", "refresh", "destroy", "outputs"])
def test_every_verb_refuses_an_unknown_environment(gpufleet: Gpufleet, engine: FakeEngine, verb: str) -> None:
    answer = gpufleet(verb, "dve", *(["--yes"] if verb in ("up", "refresh", "destroy") else []))
    assert answer.code == 2
    assert "no environment 'dve'" in answer.err
    assert "did you mean 'dev'?" in answer.err
    assert engine.asked == []


def test_state_can_be_destroyed_without_its_fleet_file(
    gpufleet: Gpufleet, engine: FakeEngine, workplace: Path
) -> None:
    state = workplace / ".gpufleet" / "state" / "aws" / "gone.json"
    state.parent.mkdir(parents=True)
    state.write_text('{"version": 3, "deployment": {"resources": []}}', encoding="utf-8")
    assert gpufleet("destroy", "gone", "--yes").code == 0


def test_unknown_cloud_is_refused_with_the_known_ones(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    answer = gpufleet("preview", "dev", "--cloud", "azure")
    assert answer.code == 2
    assert "cloud 'azure' is not one of sandbox, aws" in answer.err


def test_unknown_engine_is_refused_with_the_known_ones(gpufleet: Gpufleet) -> None:
    answer = gpufleet("preview", "dev", "--engine", "terraform")
    assert answer.code == 2
    assert "there is no engine 'terraform'" in answer.err


def test_refresh_without_drift_exits_0(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    answer = gpufleet("refresh", "dev", "--yes")
    assert answer.code == 0
    assert "drift:" not in answer.out


def test_refresh_with_drift_exits_1(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    engine.runs["refresh"] = (
        [event(VPC, Op.UPDATE, diff=("tags",)), event(TOPIC, Op.DELETE)],
        result("refresh", changes=Changes(update=1, delete=1, same=5)),
    )
    answer = gpufleet("refresh", "dev", "--yes")
    assert answer.code == 1
    assert "drift: 2 resources differed from the state" in answer.out
