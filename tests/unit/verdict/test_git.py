"""Refs and paths that users and pull requests name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpufleet.errors import InputError
from gpufleet.verdict.git import GitRepository
from tests.unit.verdict.conftest import Git


@pytest.fixture
def git(tmp_path: Path, make_git: Callable[[Path], Git]) -> Git:
    folder = tmp_path / "repository"
    folder.mkdir()
    made = make_git(folder)
    (folder / "policies").mkdir()
    (folder / "policies" / "a.py").write_text("a = 1\n")
    (folder / "file").write_text("old\n")
    made.commit("first")
    return made


def test_branch_tag_and_commit_are_revisions(git: Git) -> None:
    git("tag", "-a", "v1", "-m", "a tag of its own")
    repository = GitRepository(git.root)
    commit = git("rev-parse", "HEAD")
    assert {repository.revision(ref).commit for ref in ("main", "v1", commit, commit[:8])} == {commit}


@pytest.mark.parametrize(
    ("ref", "reported"),
    [
        ("nowhere", "no ref 'nowhere'"),
        ("-x", "'-x' is not a git ref"),
        ("--output=/tmp/x", "is not a git ref"),
        ("", "is not a git ref"),
        ("main:file", "is not a commit"),
        ("main^{tree}", "is not a commit"),
        ("main\0", "is not a git ref"),
        ("main --all", "no ref"),
        ("@{u}", "no ref"),
    ],
)
def test_unknown_revision_is_refused_by_name(git: Git, ref: str, reported: str) -> None:
    with pytest.raises(InputError) as error:
        GitRepository(git.root).revision(ref)
    assert reported in error.value.message
    assert error.value.remedy


def test_branch_that_looks_like_an_option_is_not_one(git: Git) -> None:
    git("update-ref", "refs/heads/--help", "HEAD")
    with pytest.raises(InputError, match="is not a git ref"):
        GitRepository(git.root).revision("--help")
    assert GitRepository(git.root).revision("refs/heads/--help").commit == git("rev-parse", "HEAD")


def test_folder_outside_any_repository_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(InputError, match="not in a readable git repository"):
        GitRepository(tmp_path)


def test_missing_git_is_reported(git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(InputError, match="git is not on PATH"):
        GitRepository(git.root)


def test_export_has_the_files_of_the_commit_and_does_not_change_the_repository(
    git: Git, tmp_path: Path
) -> None:
    repository = GitRepository(git.root)
    first = repository.revision("main")
    (git.root / "file").write_text("new\n")
    (git.root / "fresh").write_text("untracked\n")
    before = git("status", "--porcelain")
    out = repository.export(first, tmp_path / "out")
    assert (out / "file").read_text() == "old\n"
    assert not (out / "fresh").exists()
    assert git("status", "--porcelain") == before
    assert git("rev-parse", "HEAD") == first.commit


def test_export_ignores_export_attributes_of_the_commit(git: Git, tmp_path: Path) -> None:
    (git.root / ".gitattributes").write_text("policies export-ignore\n")
    git.commit()
    repository = GitRepository(git.root)
    out = repository.export(repository.revision("main"), tmp_path / "out")
    assert (out / "policies" / "a.py").exists()


def test_checkout_below_the_top_of_its_repository_knows_its_path(git: Git, tmp_path: Path) -> None:
    inner = git.root / "infra" / "gpu"
    inner.mkdir(parents=True)
    (inner / "Pulumi.yaml").write_text("name: x\n")
    git.commit()
    repository = GitRepository(inner)
    assert repository.prefix == "infra/gpu/"
    out = repository.export(repository.revision("main"), tmp_path / "out")
    assert (out / "Pulumi.yaml").exists()
    assert GitRepository(git.root).prefix == ""


def test_changed_files_are_committed_uncommitted_and_untracked_ones(git: Git) -> None:
    repository = GitRepository(git.root)
    first = repository.revision("main")
    assert repository.changed(first, "policies") == ()
    (git.root / "policies" / "b.py").write_text("b = 1\n")
    git.commit()
    (git.root / "policies" / "a.py").unlink()
    (git.root / "policies" / "c d.py").write_text("c = 1\n")
    (git.root / "file").write_text("new\n")
    assert repository.changed(first, "policies") == ("policies/a.py", "policies/b.py", "policies/c d.py")


def test_git_variables_of_a_hook_are_ignored(
    git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    repository = GitRepository(git.root)
    assert (repository.export(repository.revision("main"), tmp_path / "out") / "file").exists()
    assert not (tmp_path / "elsewhere").exists()
    assert os.environ["GIT_DIR"] == str(tmp_path / "elsewhere")
