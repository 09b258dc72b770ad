"""States move from one engine to the other, which continues from them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gpufleet.engine.embedded.admin import import_state

from ..conftest import Lab
from .comparing import needs_cli

pytestmark = needs_cli


def test_cli_continues_from_the_state_of_the_embedded_engine(cli: Lab, tmp_path: Path) -> None:
    ours = Lab(tmp_path / "embedded")
    text = 'a = Box("a", {"size": 1, "password": pulumi.Output.secret("s3cret")})\nBox("b", {"of": a.arn})\n'
    ours.up(text)
    cli.cloud.rmdir()
    shutil.copytree(ours.cloud, cli.cloud)
    cli.program(text)
    env = {**os.environ, **cli.request.env}
    pulumi = str(shutil.which("pulumi"))
    subprocess.run([pulumi, "stack", "init", "dev"], cwd=cli.folder, env=env, check=True, capture_output=True)
    exported = json.dumps(ours.engine.export(ours.request))
    imported = subprocess.run(
        [pulumi, "stack", "import", "--stack", "dev"],
        cwd=cli.folder,
        env=env,
        input=exported,
        text=True,
        capture_output=True,
        check=False,
    )
    assert imported.returncode == 0, imported.stderr
    result = cli.run("up")
    assert result.ok
    assert (result.changes.total, result.changes.same) == (0, 3)
    cli.run("destroy")
    assert cli.names() == []


@pytest.mark.parametrize("options", [(), ("--show-secrets",)], ids=["sealed", "in the clear"])
def test_embedded_engine_continues_from_the_state_of_the_cli(
    cli: Lab, tmp_path: Path, options: tuple[str, ...]
) -> None:
    text = 'a = Box("a", {"size": 1, "password": pulumi.Output.secret("s3cret")})\nBox("b", {"of": a.arn})\n'
    cli.up(text)
    ours = Lab(tmp_path / "embedded").program(text)
    ours.cloud.rmdir()
    shutil.copytree(cli.cloud, ours.cloud)
    exported = subprocess.run(
        [str(shutil.which("pulumi")), "stack", "export", "--stack", "dev", *options],
        cwd=cli.folder,
        env={**os.environ, **cli.request.env},
        capture_output=True,
        check=True,
    ).stdout
    assert (b"s3cret" in exported) is bool(options)
    imported = import_state(ours.request.state_file, exported, "lab", "dev")
    assert (imported.before, imported.after, imported.pending) == (0, 4, 0)
    assert "s3cret" not in ours.request.state_file.read_text()
    result = ours.run("up")
    assert result.ok
    assert (result.changes.total, result.changes.same) == (0, 3)
    ours.run("destroy")
    assert ours.names() == []
