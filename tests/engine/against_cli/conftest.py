"""The other engine: the Pulumi CLI, with its own backend."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.engine.pulumi_cli import PulumiCliEngine

from ..conftest import Lab


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab on the Pulumi CLI with its own backend."""
    backend = tmp_path / "backend"
    backend.mkdir()
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "correct horse")
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{backend}")
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PULUMI_SKIP_UPDATE_CHECK", "true")
    return Lab(tmp_path / "cli", PulumiCliEngine())
