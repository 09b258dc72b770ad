"""`auto`: which engine runs a stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.cli.engine_choice import choose_engine
from gpufleet.engine.api import StackRequest
from gpufleet.workspace import Cloud


@pytest.fixture
def request_of_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StackRequest:
    """A stack of a project, on a machine with the Pulumi CLI, of a user who has never logged in."""
    (tmp_path / "Pulumi.yaml").write_text("name: trial\nruntime: python  # no backend\n")
    (tmp_path / "pulumi").write_text("#!/bin/sh\n")
    (tmp_path / "pulumi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("BACKEND_URL", "ACCESS_TOKEN", "HOME", "CREDENTIALS_PATH"):
        monkeypatch.delenv(f"PULUMI_{name}", raising=False)
    return StackRequest(
        project="trial",
        stack="dev",
        project_root=tmp_path,
        program_dir=tmp_path,
        state_file=tmp_path / "state.json",
    )


@pytest.mark.parametrize(("cloud", "engine"), [("sandbox", "embedded"), ("aws", "pulumi")])
def test_sandbox_needs_no_backend_of_the_cli(
    request_of_stack: StackRequest, cloud: Cloud, engine: str
) -> None:
    assert choose_engine("auto", request_of_stack, cloud).name == engine
    assert choose_engine("pulumi", request_of_stack, cloud).name == "pulumi"


@pytest.mark.parametrize(
    "backend", ["PULUMI_BACKEND_URL", "PULUMI_ACCESS_TOKEN", "PULUMI_HOME", "login", "Pulumi.yaml"]
)
def test_cli_with_a_backend_keeps_its_stacks(
    request_of_stack: StackRequest, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    root = request_of_stack.project_root
    if backend == "login":
        (root / ".pulumi").mkdir()
        (root / ".pulumi" / "credentials.json").write_text("{}")
    elif backend == "Pulumi.yaml":
        (root / backend).write_text("name: trial\nruntime: python\nbackend:\n  url: s3://states\n")
    else:
        (root / "credentials.json").write_text("{}")
        monkeypatch.setenv(backend, str(root))
    assert choose_engine("auto", request_of_stack, "sandbox").name == "pulumi"
    request_of_stack.state_file.touch()
    assert choose_engine("auto", request_of_stack, "sandbox").name == "embedded"
