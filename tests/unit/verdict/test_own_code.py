"""A commit with the files of the running gpufleet runs with it; any other one with its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpufleet.verdict import own_code
from gpufleet.verdict.git import GitRepository, Revision
from tests.unit.verdict.conftest import Git

FILES = ("gpufleet/a.py", "gpufleet/data.json", "components/b.py", "policies/c.py", "stacks/__main__.py")


@pytest.fixture
def git(tmp_path: Path, make_git: Callable[[Path], Git], monkeypatch: pytest.MonkeyPatch) -> Git:
    """The repository of the running gpufleet, with one commit."""
    folder = tmp_path / "repository"
    folder.mkdir()
    made = make_git(folder)
    for name in (*FILES, "stacks/prod/fleet.yaml", "tests/base.yaml", "tests/test_a.py"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")
    made.commit("first")
    monkeypatch.setattr(own_code, "PACKAGES", folder)
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return made


def _first(git: Git) -> tuple[GitRepository, Revision]:
    repository = GitRepository(git.root)
    return repository, repository.revision("main")


def test_commit_with_another_fleet_has_the_running_code(git: Git) -> None:
    (git.root / "stacks" / "prod" / "fleet.yaml").write_text("x = 2\n")
    assert own_code.has_own_code(*_first(git))


@pytest.mark.parametrize("name", FILES)
def test_commit_with_another_file_of_the_code_has_its_own(git: Git, name: str) -> None:
    repository, first = _first(git)
    (git.root / name).write_text("x = 2\n")
    assert not own_code.has_own_code(repository, first)
    assert not own_code.runs_own_code(repository, first)
    git.commit("second")
    assert not own_code.has_own_code(repository, first)
    assert own_code.has_own_code(repository, repository.revision("main"))


def test_new_module_that_is_not_committed_is_another_code(git: Git) -> None:
    (git.root / "gpufleet" / "fresh.py").write_text("x = 2\n")
    assert not own_code.has_own_code(*_first(git))


def test_repository_of_another_gpufleet_has_its_own_code(
    git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_code, "PACKAGES", tmp_path)
    assert not own_code.runs_own_code(*_first(git))


def test_repository_without_gpufleet_runs_the_running_one(
    git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_code, "PACKAGES", tmp_path)
    git("rm", "-r", "-q", "gpufleet")
    git.commit("second")
    repository, second = _first(git)
    assert own_code.runs_own_code(repository, second)
    assert not own_code.has_own_code(repository, second)


def test_export_leaves_out_only_code_that_is_the_running_one(git: Git, tmp_path: Path) -> None:
    repository, first = _first(git)
    out = repository.export(first, tmp_path / "out", own_code.needed)
    found = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert found == {
        "gpufleet/data.json",
        "stacks/__main__.py",
        "stacks/prod/fleet.yaml",
        "tests/base.yaml",
    }
