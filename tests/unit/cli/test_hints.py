"""Commands suggested in messages repeat the user's options."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.cli import hints
from gpufleet.engine.api import Changes, Op
from gpufleet.errors import CloudError, InputError

from .conftest import VPC, FakeEngine, Gpufleet, event, result


def test_preview_suggests_up_for_the_same_stack(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    answer = gpufleet("preview", "dev", "--cloud", "aws", "--engine", "pulumi", "--parallel", "3")
    assert answer.out.splitlines()[-1] == ("next: `gpufleet up dev --engine pulumi --cloud aws --parallel 3`")


def test_defaults_and_answers_are_not_repeated(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    answer = gpufleet("up", "dev", "--yes", "--allow-data-loss", "-q")
    assert "next:" not in answer.out
    answer = gpufleet("up", "dev", "--yes", "--allow-data-loss")
    assert answer.out.splitlines()[-1].endswith("`gpufleet destroy dev`")


def test_refresh_with_drift_suggests_preview_for_the_same_stack(
    gpufleet: Gpufleet, engine: FakeEngine
) -> None:
    engine.runs["refresh"] = ([event(VPC, Op.UPDATE)], result("refresh", changes=Changes(update=1)))
    answer = gpufleet("refresh", "dev", "--yes", "--cloud", "aws")
    assert "next: `gpufleet preview dev --cloud aws` shows" in answer.out


def test_run_that_cannot_ask_suggests_preview_for_the_same_stack(
    gpufleet: Gpufleet, engine: FakeEngine
) -> None:
    answer = gpufleet("up", "stacks/dev/fleet.yaml", "--cloud", "aws")
    assert "`gpufleet preview stacks/dev/fleet.yaml --cloud aws` shows" in answer.err


def test_library_error_suggests_a_command_for_this_stack(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    engine.runs["up"] = (
        [],
        CloudError("the state is damaged", remedy="`gpufleet state repair` lists copies"),
    )
    remedy = "`gpufleet state repair dev --cloud aws` lists copies"
    assert remedy in gpufleet("up", "dev", "--yes", "--cloud", "aws").err
    assert gpufleet("up", "dev", "--yes", "--cloud", "aws", "--json").json["remedy"] == remedy


def test_placeholders_and_given_arguments_are_kept(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    text = "`gpufleet state repair <environment> --adopt 'x'`, `gpufleet rules NAME`, `gpufleet check prod`"
    engine.runs["up"] = ([], InputError("no", remedy=f"{text}, `gpufleet nonsense`, `gpufleet catalog`"))
    assert gpufleet("up", "dev", "--yes", "--cloud", "aws").err.splitlines()[-1] == (
        "  fix: `gpufleet state repair dev --adopt 'x' --cloud aws`, `gpufleet rules NAME`, "
        "`gpufleet check prod --cloud aws`, `gpufleet nonsense`, `gpufleet catalog`"
    )


def test_missing_outputs_and_states_suggest_up_for_the_same_cloud(
    gpufleet: Gpufleet, engine: FakeEngine
) -> None:
    assert "run `gpufleet up dev --cloud aws` first" in gpufleet("outputs", "dev", "--cloud", "aws").err
    assert "run `gpufleet up dev --cloud aws` first" in gpufleet("state", "list", "dev", "--cloud", "aws").err


def test_commands_are_not_completed_before_a_command_runs() -> None:
    hints.forget()
    assert hints.complete_hints("`gpufleet up`") == "`gpufleet up`"


def test_value_with_a_space_is_quoted(
    gpufleet: Gpufleet, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my rules.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    answer = gpufleet("preview", "dev", "--policy-config", "my rules.json")
    assert answer.out.splitlines()[-1] == "next: `gpufleet up dev --policy-config 'my rules.json'`"


# -- --quiet: errors and the result


@pytest.mark.parametrize("arguments", [("-q", "preview", "dev"), ("preview", "dev", "--quiet")])
def test_quiet_preview_prints_only_its_result(
    gpufleet: Gpufleet, engine: FakeEngine, arguments: tuple[str, ...]
) -> None:
    answer = gpufleet(*arguments)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == "preview: 3 to create, 0 unchanged in 1.2 s\n"


def test_quiet_up_prints_only_its_result(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    answer = gpufleet("up", "dev", "--yes", "-q")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == "up: 3 created, 0 unchanged in 1.2 s\n"


@pytest.mark.usefixtures("old_price")
def test_quiet_run_prints_failures_and_does_not_affect_the_next_command(
    gpufleet: Gpufleet, engine: FakeEngine
) -> None:
    failed = event(VPC, status="failed", error="quota is used up")
    engine.runs["up"] = ([failed], result("up", ok=False, failures=(failed,)))
    answer = gpufleet("up", "dev", "--yes", "-q")
    assert answer.code == 4
    assert "quota is used up" in answer.err
    assert "price-age" not in answer.err
    assert "price-age" in gpufleet("validate", "dev").err


def test_quiet_validation_prints_errors_and_no_warnings(gpufleet: Gpufleet, workplace: Path) -> None:
    assert gpufleet("validate", "dev", "-q").err == ""
    path = workplace / "stacks" / "dev" / "fleet.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("storage:", "storrage:"))
    answer = gpufleet("validate", "dev", "-q")
    assert answer.code == 2
    assert "storrage" in answer.err
    assert "warning" not in answer.err
