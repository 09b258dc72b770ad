"""`make test-fresh`: settings of the container, and its short form with a test of every group."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.loading import load_source
from tests.programs import ROOT

SCRIPT = ROOT / "scripts" / "fresh"


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with a separate cache."""
    made = load_source(SCRIPT, "fresh")
    monkeypatch.setattr(made, "CACHE", tmp_path / "cache")
    return made


def test_every_group_has_a_test_for_a_bare_root() -> None:
    files = {path: path.read_text() for path in ROOT.glob("tests/**/test_*.py")}
    groups = {path.relative_to(ROOT / "tests").parts[0] for path in files}
    marked = {
        path.relative_to(ROOT / "tests").parts[0]
        for path, text in files.items()
        if "@pytest.mark.fresh\n" in text
    }
    assert groups - marked == set()


def test_container_gets_only_the_registry_settings_of_the_environment(
    fresh: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("certificates")
    passed = {"https_proxy": "http://127.0.0.1:1", "SSL_CERT_FILE": str(bundle), "PIP_INDEX_URL": "x"}
    passed["CI"] = "true"
    kept = {
        "AWS_SECRET_ACCESS_KEY": "s",
        "PIP_FIND_LINKS": "/opt",
        "PYTHONPATH": "/opt",
        "VIRTUAL_ENV": "/opt",
    }
    for name, value in (passed | kept).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "root/etc").mkdir(parents=True)
    words = fresh.connect(tmp_path / "root")
    variables = dict(word.split("=", 1) for word in words)
    assert passed.items() <= variables.items() and not kept.keys() & variables.keys()
    assert variables["HOME"] == "/root"
    assert (tmp_path / "root" / str(bundle).lstrip("/")).read_text() == "certificates"


def test_folder_of_a_run_is_removed_and_that_of_a_killed_one_by_the_next(
    fresh: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh, "WORK", tmp_path)
    (tmp_path / "gpufleet-fresh-killed").mkdir()
    (tmp_path / "gpufleet-fresh-killed.lock").touch()
    with fresh.work_folder() as work, fresh.work_folder() as other:
        assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {work.name, other.name}
    assert list(tmp_path.iterdir()) == []


def test_unknown_root_is_refused_with_the_known_ones() -> None:
    words = [sys.executable, SCRIPT, "debian-1"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert (
        done.stderr == "fresh: there is no root 'debian-1'; write one of debian-12, debian-13, ubuntu-24.04\n"
    )
