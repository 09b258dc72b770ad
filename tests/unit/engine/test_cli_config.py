"""Stack settings of a run of the Pulumi CLI, and the secrets provider in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from ruamel.yaml import YAML

from gpufleet.engine.api import StackRequest
from gpufleet.engine.cli_config import own_settings, write_config

KEY = "awskms://alias/atlas-state?region=us-east-1"
TEAM = f"""\
secretsprovider: {KEY}
encryptedkey: AQIC
config:
  gpufleet:protect: "true"
  gpufleet:token:
    secure: v1:abc
"""


class Command:
    """A CLI that answers `stack export` with a state."""

    def __init__(self, providers: dict[str, Any]) -> None:
        self.stdout = json.dumps({"version": 3, "deployment": {"secrets_providers": providers}})

    def run(self, words: list[str], *_: Any) -> Command:
        assert words[:2] == ["stack", "export"]
        return self


def request(folder: Path, cloud: str, settings: str = "") -> StackRequest:
    (folder / "Pulumi.yaml").write_text("name: gpufleet\nruntime: python\nstackConfigDir: stacks\n")
    (folder / "stacks").mkdir()
    if settings:
        (folder / "stacks" / "Pulumi.prod.yaml").write_text(settings)
    return StackRequest(
        project="gpufleet",
        stack="prod",
        project_root=folder,
        program_dir=folder / "stacks",
        state_file=folder / "prod.json",
        config={"gpufleet:cloud": cloud},
    )


def written(folder: Path, of: StackRequest, providers: dict[str, Any]) -> dict[str, Any]:
    scratch = folder / "scratch"
    scratch.mkdir()
    path = write_config(scratch, of, cast(Any, Command(providers)), {}, exists=True)
    return dict(YAML(typ="safe").load(path.read_text()))


def test_key_of_the_team_and_its_secrets_reach_a_run_on_the_account(tmp_path: Path) -> None:
    found = written(tmp_path, request(tmp_path, "aws", TEAM), {})
    assert (found["secretsprovider"], found["encryptedkey"]) == (KEY, "AQIC")
    assert found["config"]["gpufleet:token"] == {"secure": "v1:abc"}


def test_sandbox_gets_neither_the_key_nor_what_it_encrypted(tmp_path: Path) -> None:
    found = own_settings(request(tmp_path, "sandbox", TEAM))
    assert found == {"config": {"gpufleet:protect": "true"}}


def test_sandbox_keeps_a_passphrase(tmp_path: Path) -> None:
    assert own_settings(request(tmp_path, "sandbox", "encryptionsalt: v1:x\n")) == {"encryptionsalt": "v1:x"}


@pytest.mark.parametrize(
    ("providers", "settings"),
    [
        (
            {"type": "cloud", "state": {"url": KEY, "encryptedkey": "AQIC"}},
            {"secretsprovider": KEY, "encryptedkey": "AQIC"},
        ),
        ({"type": "passphrase", "state": {"salt": "v1:x"}}, {"encryptionsalt": "v1:x"}),
        ({}, {}),
    ],
)
def test_lost_settings_file_is_replaced_by_what_the_state_says(
    tmp_path: Path, providers: dict[str, Any], settings: dict[str, Any]
) -> None:
    found = written(tmp_path, request(tmp_path, "aws"), providers)
    del found["config"]
    assert found == settings
