"""`gpufleet init`: options, questions on a terminal, defaults without one, and next steps."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpufleet.spec.load import load_fleet
from tests.unit.cli.conftest import Gpufleet


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A terminal with prepared answers; the questions are appended to it."""
    answers: list[str] = []

    def prompt(text: str, *, default: str) -> str:
        asked = answers.pop(0)
        return asked or default

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("gpufleet.cli.init.is_terminal", lambda _: True)
    monkeypatch.setattr("typer.prompt", prompt)
    return answers


def test_defaults_are_used_and_reported_without_a_terminal(gpufleet: Gpufleet) -> None:
    answer = gpufleet("init", "lab", "--template", "hybrid")
    assert answer.code == 0
    assert "defaults: --region us-east-1 --cloud-nodes 4 --system dgx-h100 --nodes 31 --budget" in answer.out
    assert "expires" not in answer.out


def test_next_steps_end_with_check_and_a_sandbox_run(gpufleet: Gpufleet) -> None:
    steps = [line.split("  #")[0].strip() for line in gpufleet("init", "lab").out.splitlines()[-4:]]
    assert steps == [
        "gpufleet validate lab",
        "gpufleet plan lab",
        "gpufleet check lab",
        "gpufleet up lab --cloud sandbox",
    ]


def test_options_are_written_and_not_reported_as_defaults(gpufleet: Gpufleet, workplace: Path) -> None:
    answer = gpufleet(
        *("init", "lab", "--template", "hybrid", "--region", "us-west-2", "--region", "us-east-1"),
        *("--system", "dgx-b200", "--nodes", "12", "--cloud-nodes", "3", "--budget", "900000 USD", "--json"),
    )
    assert answer.code == 0
    assert answer.json["defaults"] == []
    spec = load_fleet("lab", root=workplace).spec
    assert [site.region for site in spec.cloud] == ["us-west-2", "us-east-1"]
    assert (spec.onprem[0].system, len(spec.onprem[0].nodes.hosts)) == ("dgx-b200", 12)
    assert str(spec.budget.monthly) == "900000 USD"


def test_zones_are_assigned_to_the_sites_of_their_regions(gpufleet: Gpufleet, workplace: Path) -> None:
    answer = gpufleet(
        *("init", "lab", "--template", "cloud", "--region", "us-east-1", "--region", "us-west-2"),
        *("--zone", "us-east-1d", "--zone", "us-east-1f", "--cloud-nodes", "2"),
    )
    assert answer.code == 0
    first, second = load_fleet("lab", root=workplace).spec.cloud
    assert first.zones == ("us-east-1d", "us-east-1f")
    assert {group.zones for group in first.node_groups} <= {(), ("us-east-1d",)}
    assert second.zones == ("us-west-2a", "us-west-2b")
    assert gpufleet("validate", "lab").code == 0


def test_terminal_is_asked_for_missing_options(
    gpufleet: Gpufleet, workplace: Path, terminal: list[str]
) -> None:
    terminal += ["hybrid", "us-west-2", "", "dgx-h10", "dgx-a100", "20", ""]
    answer = gpufleet("init", "lab")
    assert answer.code == 0
    assert terminal == []
    assert "did you mean dgx-h100?" in answer.err
    assert "defaults:" not in answer.out
    spec = load_fleet("lab", root=workplace).spec
    assert spec.cloud[0].region == "us-west-2"
    assert (spec.onprem[0].system, len(spec.onprem[0].nodes.hosts)) == ("dgx-a100", 20)


def test_terminal_is_not_asked_with_the_defaults_flag(gpufleet: Gpufleet, terminal: list[str]) -> None:
    assert gpufleet("init", "lab", "--yes").code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--template", "cloud", "--region", "us-east1"), "did you mean us-east-1?"),
        (("--template", "onprem", "--system", "dgx-h10"), "did you mean dgx-h100?"),
        (("--template", "onprem", "--region", "us-east-1"), "does not support --region"),
        (("--template", "cloud", "--zone", "us-east-1z"), "There are us-east-1a"),
        (("--template", "cloud", "--zone", "us-east1b"), "did you mean us-east-1b?"),
        (("--region", "us-west-2", "--zone", "us-east-1a"), "no zone 'us-east-1a' in us-west-2"),
        (("--template", "onprem", "--zone", "us-east-1a"), "does not support --zone"),
        (("--template", "cloud", "--nodes", "4"), "does not support --nodes"),
        (("--template", "cloud", "--nodes", "0"), "does not support --nodes"),
        (("--budget", "much"), "--budget"),
        (("--budget", "5 USD"), "the budget is 5 USD"),
        (("--fleet", "Zeus"), "no name for the fleet"),
    ],
)
def test_invalid_choices_are_bad_input_and_nothing_is_written(
    gpufleet: Gpufleet, workplace: Path, options: tuple[str, ...], message: str
) -> None:
    answer = gpufleet("init", "lab", *options)
    assert answer.code == 2
    assert message in answer.err
    assert not (workplace / "stacks" / "lab").exists()
    assert not (workplace / "stacks" / "Pulumi.lab.yaml").exists()
