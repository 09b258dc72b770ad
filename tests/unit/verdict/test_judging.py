"""What a change may bring as data, and what counts as code that judges it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpufleet.errors import InputError
from gpufleet.verdict.base_copy import MOST_BYTES, BaseCopy
from gpufleet.verdict.git import GitRepository
from gpufleet.verdict.judging import FileChange, sort_out
from tests.unit.verdict.conftest import Git

DATA = (
    "stacks/prod/fleet.yaml",
    "stacks/base.yaml",
    "stacks/prod/exemptions.yaml",
    "stacks/Pulumi.prod.yaml",
    "stacks/prod/secrets.yml",
    "stacks/prod/known_hosts",
)
CODE = (
    *("stacks/__main__.py", "stacks/program.py", "stacks/prod/run.sh", "stacks/prod/fleet.yaml.py"),
    *("stacks/.gitattributes", "stacks/prod/.hidden.yaml", "stacks/prod/a b.yaml", "stacks/pröd/fleet.yaml"),
    *(
        "Stacks/prod/fleet.yaml",
        "STACKS/prod/fleet.yaml",
        "\u0455tacks/prod/fleet.yaml",
        "stacks\\prod\\fleet.yaml",
    ),
    *("stacks/../policies/a.yaml", "stacks", "stacks.yaml", "stacks/prod/fleet.yaml\n.yaml"),
    *(
        "policies/__main__.py",
        "policies/rules/a.py",
        "components/a.py",
        "gpufleet/a.py",
        "yaml.py",
        "pulumi/a.py",
    ),
    *("sitecustomize.py", "requirements.txt", "requirements/lock.txt", "pyproject.toml", "scripts/setup"),
    *("Pulumi.yaml", "Pulumi.prod.yaml", ".gpufleet/catalog/prices.yaml", ".gitattributes", ".gitmodules"),
    *(".github/workflows/a.yml", ".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS", ".gitlab-ci.yml"),
    *(".gitlab/CODEOWNERS", "tests/.gitmodules", "something-new"),
)
NEUTRAL = ("README.md", "docs/guide.md", "tests/test_a.py", "ansible/roles/a/tasks/main.yml", ".gitignore")


def _kinds(*changes: FileChange, prefix: str = "") -> tuple[list[str], list[str]]:
    found = sort_out(changes, prefix)
    return [each.path for each in found.data], [each.path for each in found.code]


@pytest.mark.parametrize("path", DATA)
def test_fleet_files_and_what_belongs_to_them_are_data(path: str) -> None:
    for before, after in (("100644", "100644"), ("000000", "100644"), ("100644", "000000")):
        assert _kinds(FileChange(path, before, after)) == ([path], [])


@pytest.mark.parametrize("path", CODE)
def test_everything_that_a_preview_or_a_workflow_may_read_is_code(path: str) -> None:
    assert _kinds(FileChange(path, "100644", "100644")) == ([], [path])


@pytest.mark.parametrize("path", NEUTRAL)
def test_texts_tests_and_roles_are_neither(path: str) -> None:
    assert _kinds(FileChange(path, "100644", "100644")) == ([], [])


@pytest.mark.parametrize("mode", ["120000", "160000", "100755", "040000"])
def test_link_submodule_or_program_in_place_of_a_fleet_file_is_code(mode: str) -> None:
    path = "stacks/prod/fleet.yaml"
    assert _kinds(FileChange(path, "100644", mode)) == ([], [path])
    assert _kinds(FileChange(path, mode, "100644")) == ([], [path])


def test_names_that_differ_only_in_case_are_code() -> None:
    one, other = (FileChange(f"stacks/prod/{name}.yaml", "000000", "100644") for name in ("fleet", "Fleet"))
    data, code = _kinds(one, other)
    assert (data, sorted(code)) == ([], ["stacks/prod/Fleet.yaml", "stacks/prod/fleet.yaml"])


def test_checkout_in_a_larger_repository_has_its_own_code_and_that_of_the_top() -> None:
    paths = ("infra/stacks/prod/fleet.yaml", "infra/policies/a.py", "stacks/prod/fleet.yaml", "app/main.py")
    changes = [FileChange(path, "100644", "100644") for path in (*paths, ".github/workflows/a.yml")]
    data, code = _kinds(*changes, prefix="infra/")
    assert data == ["infra/stacks/prod/fleet.yaml"]
    assert code == [".github/workflows/a.yml", "infra/policies/a.py"]


@pytest.fixture
def git(tmp_path: Path, make_git: Callable[[Path], Git]) -> Git:
    """A fleet repository with one commit."""
    folder = tmp_path / "repository"
    for name in ("stacks/prod/fleet.yaml", "policies/a.py", "Pulumi.yaml"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    made = make_git(folder)
    made.commit("base")
    return made


def _differences(git: Git) -> dict[str, tuple[str, str]]:
    repository = GitRepository(git.root)
    found = repository.differences(repository.revision("main").commit)
    return {each.path: (each.before, each.after) for each in found}


def test_work_tree_is_compared_with_modes_and_new_files(git: Git) -> None:
    assert _differences(git) == {}
    (git.root / "stacks/prod/fleet.yaml").unlink()
    (git.root / "stacks/prod/fleet.yaml").symlink_to("/etc/passwd")
    (git.root / "policies/a.py").chmod(0o755)
    (git.root / "policies/b.py").write_text("")
    (git.root / "ä\nb").symlink_to("x")
    (git.root / "Pulumi.yaml").unlink()
    assert _differences(git) == {
        "stacks/prod/fleet.yaml": ("100644", "120000"),
        "policies/a.py": ("100644", "100755"),
        "policies/b.py": ("000000", "100644"),
        "ä\nb": ("000000", "120000"),
        "Pulumi.yaml": ("100644", "000000"),
    }
    status = git("status", "--porcelain")
    git.commit("all of it")
    repository = GitRepository(git.root)
    base = git("rev-parse", "main~1")
    assert len(repository.differences(base, "main")) == 5
    assert status


def test_attributes_of_a_change_run_no_filter_and_hide_nothing(git: Git) -> None:
    (git.root / ".gitattributes").write_text("*.yaml filter=evil export-ignore -diff merge=evil\n")
    git("config", "filter.evil.clean", "touch ran")
    git("config", "filter.evil.smudge", "touch ran")
    base = git("rev-parse", "main")
    (git.root / "stacks/prod/fleet.yaml").write_text("changed\n")
    repository = GitRepository(git.root)
    copy = BaseCopy(repository, repository.revision(base), git.root.parent / "copy")
    found = sort_out(repository.differences(base), "")
    assert [each.path for each in found.data] == ["stacks/prod/fleet.yaml"]
    copy.take(found.data)
    assert (copy.root / "stacks/prod/fleet.yaml").read_text() == "changed\n"
    assert not (copy.root / ".gitattributes").exists()
    assert not (copy.root / "ran").exists()


def test_copy_has_the_code_of_the_base_and_the_data_of_the_change(git: Git) -> None:
    base = git("rev-parse", "main")
    git("checkout", "--quiet", "-b", "topic")
    (git.root / "stacks/prod/fleet.yaml").write_text("changed\n")
    (git.root / "stacks/dev").mkdir()
    (git.root / "stacks/dev/fleet.yaml").write_text("new\n")
    (git.root / "policies/a.py").write_text("evil\n")
    (git.root / "stacks/run.py").write_text("evil\n")
    topic = git.commit("topic")
    repository = GitRepository(git.root)
    copy = BaseCopy(repository, repository.revision("main"), git.root.parent / "copy")
    changes = sort_out(repository.differences(base, topic), "")
    copy.take(changes.data)
    files = {
        str(path.relative_to(copy.root)): path.read_text()
        for path in copy.root.rglob("*.*")
        if path.is_file() and ".git/" not in str(path)
    }
    assert files == {
        "Pulumi.yaml": "# Pulumi.yaml\n",
        "policies/a.py": "# policies/a.py\n",
        "stacks/prod/fleet.yaml": "changed\n",
        "stacks/dev/fleet.yaml": "new\n",
    }
    inner = GitRepository(copy.root)
    assert copy.name(repository.revision("main")) == "main"
    assert inner.revision("main").commit == base
    assert {each.path for each in inner.differences(base)} == {
        "stacks/dev/fleet.yaml",
        "stacks/prod/fleet.yaml",
    }
    made = copy.commit("other/topic", changes.data)
    assert inner.revision("other/topic").commit == made.commit
    assert {each.path for each in inner.differences(base, made.commit)} == {
        "stacks/dev/fleet.yaml",
        "stacks/prod/fleet.yaml",
    }
    assert git("status", "--porcelain") == ""
    assert git("for-each-ref", "--format=%(refname)") == "refs/heads/main\nrefs/heads/topic"


def test_commit_that_is_named_by_its_id_does_not_bring_its_code(git: Git, tmp_path: Path) -> None:
    base = git("rev-parse", "main")
    (git.root / "policies/a.py").write_text("evil\n")
    (git.root / "stacks/prod/fleet.yaml").write_text("changed\n")
    evil = git.commit("evil")
    repository = GitRepository(git.root)
    copy = BaseCopy(repository, repository.revision(base), tmp_path / "copy")
    made = copy.commit(evil, sort_out(repository.differences(base, evil), "").data)
    assert made.ref == made.commit != evil
    inner = GitRepository(copy.root)
    assert inner.revision(made.ref).commit == made.commit
    assert [each.path for each in inner.differences(base, made.ref)] == ["stacks/prod/fleet.yaml"]
    assert copy.name(repository.revision("HEAD")) == evil


def test_data_is_not_written_through_a_link_of_the_base(git: Git, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (git.root / "stacks" / "dev").symlink_to(tmp_path / "outside")
    git.commit("link")
    repository = GitRepository(git.root)
    copy = BaseCopy(repository, repository.revision("main"), tmp_path / "copy")
    blob = git("rev-parse", "main:Pulumi.yaml")
    with pytest.raises(InputError, match="stacks/dev is a link"):
        copy.take([FileChange("stacks/dev/fleet.yaml", "000000", "100644", blob)])
    assert not any((tmp_path / "outside").iterdir())


def test_too_large_or_too_many_files_are_refused(git: Git, tmp_path: Path) -> None:
    (git.root / "stacks/prod/fleet.yaml").write_bytes(b"x" * (MOST_BYTES + 1))
    repository = GitRepository(git.root)
    copy = BaseCopy(repository, repository.revision("main"), tmp_path / "copy")
    with pytest.raises(InputError, match="has more than"):
        copy.take(repository.differences("main"))
    large = git.commit("large")
    with pytest.raises(InputError, match="has more than"):
        copy.take(repository.differences(f"{large}~1", large))
    with pytest.raises(InputError, match="2,001 files of data"):
        copy.take([FileChange(f"stacks/{n}.yaml", "000000", "000000") for n in range(2001)])


def test_merge_keeps_what_the_target_branch_has_changed_since(git: Git) -> None:
    git("checkout", "--quiet", "-b", "topic")
    (git.root / "stacks/prod/fleet.yaml").write_text("topic\n")
    git.commit("topic")
    git("checkout", "--quiet", "main")
    (git.root / "policies/a.py").write_text("newer\n")
    git.commit("newer")
    repository = GitRepository(git.root)
    base, topic = (repository.revision(name) for name in ("main", "topic"))
    tree = repository.merged(base, topic)
    assert [each.path for each in repository.differences(base.commit, tree)] == ["stacks/prod/fleet.yaml"]
    (git.root / "stacks/prod/fleet.yaml").write_text("main\n")
    git.commit("conflict")
    with pytest.raises(InputError, match="topic cannot be merged into main: they conflict"):
        repository.merged(repository.revision("main"), topic)
