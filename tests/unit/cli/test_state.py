"""`gpufleet state`: output to a pipe, to a screen, and without a stack."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.console import Console

from gpufleet.cli import state

from .conftest import STACK, VPC, FakeEngine, Gpufleet

LONG = "arn:aws:iam::123456789012:role/" + "x" * 200
DEPLOYMENT: dict[str, Any] = {
    "version": 3,
    "deployment": {
        "resources": [
            {"type": "pulumi:pulumi:Stack", "urn": STACK},
            {"type": "aws:ec2/vpc:Vpc", "urn": VPC, "id": LONG},
        ]
    },
}


def test_pipe_gets_full_ids_in_aligned_columns(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    engine.state = DEPLOYMENT
    answer = gpufleet("state", "list", "dev")
    assert answer.code == 0
    assert answer.out.splitlines() == [
        "pulumi:pulumi:Stack  gpufleet-dev",
        f"aws:ec2/vpc:Vpc      atlas-dev-use1-vpc  {LONG}",
    ]


def test_terminal_gets_a_table_that_wraps_and_never_truncates(
    gpufleet: Gpufleet, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.state = DEPLOYMENT
    monkeypatch.setattr(state, "is_terminal", lambda stream: True)
    monkeypatch.setattr(state, "out", Console(width=60))
    answer = gpufleet("state", "list", "dev")
    assert "…" not in answer.out
    assert answer.out.count("x") >= 200
    assert "2 resources" in answer.err


def test_json_lists_type_name_id_and_urn(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    engine.state = DEPLOYMENT
    assert gpufleet("state", "list", "dev", "--json").json["resources"][1] == {
        "type": "aws:ec2/vpc:Vpc",
        "name": "atlas-dev-use1-vpc",
        "id": LONG,
        "urn": VPC,
    }


def test_export_prints_the_deployment(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    engine.state = DEPLOYMENT
    assert json.loads(gpufleet("state", "export", "dev").out) == DEPLOYMENT


@pytest.mark.parametrize("verb", ["list", "export"])
def test_missing_stack_is_bad_input(gpufleet: Gpufleet, engine: FakeEngine, verb: str) -> None:
    answer = gpufleet("state", verb, "dev")
    assert answer.code == 2
    assert "dev has no stack yet in cloud aws" in answer.err
    assert "run `gpufleet up dev` first" in answer.err


@pytest.mark.parametrize("verb", ["list", "export"])
def test_unknown_environment_is_bad_input(gpufleet: Gpufleet, engine: FakeEngine, verb: str) -> None:
    answer = gpufleet("state", verb, "dve")
    assert answer.code == 2
    assert "did you mean 'dev'?" in answer.err
