"""The commands that messages offer repeat the options that the user gave."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.cli import hints
from gpufleet.engine.api import Changes, Op
from gpufleet.errors import CloudError, InputError

from .conftest import VPC, FakeEngine, Gpufleet, event, result


def test_a_preview_offers_the_up_of_the_same_stack(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    answer = gpufleet("preview", "dev", "--cloud", "aws", "--engine", "pulumi", "--parallel", "3")
    assert answer.out.splitlines()[-1] == ("next: `gpufleet up dev --engine pulumi --cloud aws --parallel 3`")


def test_defaults_and_what_answers_a_question_are_not_repeated(
    gpufleet: Gpufleet, engine: FakeEngine
) -> None:
    answer = gpufleet("up", "dev", "--yes", "--allow-data-loss", "-q")
    assert "next:" not in answer.out
    answer = gpufleet("up", "dev", "--yes", "--allow-data-loss")
    assert answer.out.splitlines()[-1].endswith("`gpufleet destroy dev`")


def test_a_refresh_that_finds_drift_offers_the_preview_of_the_same_stack(
    gpufleet: Gpufleet, engine: FakeEngine
) -> None:
    engine.runs["refresh"] = ([event(VPC, Op.UPDATE)], result("refresh", changes=Changes(update=1)))
    answer = gpufleet("refresh", "dev", "--yes", "--cloud", "aws")
    assert "next: `gpufleet preview dev --cloud aws` shows" in answer.out


def test_a_run_that_cannot_ask_offers_a_preview_of_the_same_stack(
    gpufleet: Gpufleet, engine: FakeEngine
) -> None:
    answer = gpufleet("up", "stacks/dev/fleet.yaml", "--cloud", "aws")
    assert "`gpufleet preview stacks/dev/fleet.yaml --cloud aws` shows" in answer.err


def test_an_error_from_deep_below_offers_the_command_for_this_stack(
    gpufleet: Gpufleet, engine: FakeEngine
) -> None:
    engine.runs["up"] = (
        [],
        CloudError("the state is damaged", remedy="`gpufleet state repair` lists copies"),
    )
    remedy = "`gpufleet state repair dev --cloud aws` lists copies"
    assert remedy in gpufleet("up", "dev", "--yes", "--cloud", "aws").err
    assert gpufleet("up", "dev", "--yes", "--cloud", "aws", "--json").json["remedy"] == remedy


def test_placeholders_and_given_words_are_kept_as_they_are(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    text = "`gpufleet state repair <environment> --adopt 'x'`, `gpufleet rules NAME`, `gpufleet check prod`"
    engine.runs["up"] = ([], InputError("no", remedy=f"{text}, `gpufleet nonsense`, `gpufleet catalog`"))
    assert gpufleet("up", "dev", "--yes", "--cloud", "aws").err.splitlines()[-1] == (
        "  fix: `gpufleet state repair dev --adopt 'x' --cloud aws`, `gpufleet rules NAME`, "
        "`gpufleet check prod --cloud aws`, `gpufleet nonsense`, `gpufleet catalog`"
    )


def test_outputs_and_states_that_are_not_there_offer_the_up_of_the_same_cloud(
    gpufleet: Gpufleet, engine: FakeEngine
) -> None:
    assert "run `gpufleet up dev --cloud aws` first" in gpufleet("outputs", "dev", "--cloud", "aws").err
    assert "run `gpufleet up dev --cloud aws` first" in gpufleet("state", "list", "dev", "--cloud", "aws").err


def test_nothing_is_completed_before_a_command_runs() -> None:
    hints.forget()
    assert hints.complete_hints("`gpufleet up`") == "`gpufleet up`"


def test_a_value_with_a_space_is_quoted(
    gpufleet: Gpufleet, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my rules.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    answer = gpufleet("preview", "dev", "--policy-config", "my rules.json")
    assert answer.out.splitlines()[-1] == "next: `gpufleet up dev --policy-config 'my rules.json'`"


# -- --quiet: errors and the result


@pytest.mark.parametrize("arguments", [("-q", "preview", "dev"), ("preview", "dev", "--quiet")])
def test_a_quiet_preview_is_its_result(
    gpufleet: Gpufleet, engine: FakeEngine, arguments: tuple[str, ...]
) -> None:
    answer = gpufleet(*arguments)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == "preview: 3 to create, 0 unchanged in 1.2 s\n"


def test_a_quiet_up_is_its_result(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    answer = gpufleet("up", "dev", "--yes", "-q")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == "up: 3 created, 0 unchanged in 1.2 s\n"


def test_a_quiet_run_still_says_what_failed_and_the_next_command_is_loud_again(
    gpufleet: Gpufleet, engine: FakeEngine
) -> None:
    failed = event(VPC, status="failed", error="quota is used up")
    engine.runs["up"] = ([failed], result("up", ok=False, failures=(failed,)))
    answer = gpufleet("up", "dev", "--yes", "-q")
    assert answer.code == 4
    assert "quota is used up" in answer.err
    assert "price-age" not in answer.err
    assert "price-age" in gpufleet("validate", "dev").err


def test_a_quiet_validation_shows_errors_and_no_warnings(gpufleet: Gpufleet, workplace: Path) -> None:
    assert gpufleet("validate", "dev", "-q").err == ""
    path = workplace / "stacks" / "dev" / "fleet.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("storage:", "storrage:"))
    answer = gpufleet("validate", "dev", "-q")
    assert answer.code == 2
    assert "storrage" in answer.err
    assert "warning" not in answer.err
