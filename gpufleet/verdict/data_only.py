"""The request of `gpufleet check --change`: the data of a commit, judged by the code of the base.

No file of the commit is checked out and none of its code runs, so a job may do it that has no trust in the
change. Code that the commit edits is listed and left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gpufleet.errors import InputError
from gpufleet.verdict.base_copy import BaseCopy
from gpufleet.verdict.git import GitRepository, Revision
from gpufleet.verdict.judging import FileChange, JudgedChanges, sort_out
from gpufleet.verdict.own_code import CODE, is_own
from gpufleet.verdict.request import CheckRequest
from gpufleet.workspace import Workspace


class DataOnly(Struct, frozen=True):
    """A request on a copy of the base with the data of a change, and the files that it leaves out."""

    request: CheckRequest
    left_out: tuple[str, ...]


def data_only(request: CheckRequest, folder: Path) -> DataOnly:
    """Return the request on a copy in `folder`. Raises InputError for options that it cannot work with."""
    workspace = request.workspace
    if request.base is None or request.change is None:
        raise InputError(
            "--change needs --base: the code of the base judges it",
            remedy="set --base to the target branch of the change",
        )
    if request.engine != "embedded" or workspace.is_path:
        raise InputError(
            "--change checks an environment's name with the embedded engine",
            remedy="write the name as in stacks/<name>, and remove --engine",
        )
    repository = GitRepository(workspace.root)
    base, change = repository.revision(request.base), repository.revision(request.change)
    _require_code_of(base, repository)
    copy = BaseCopy(repository, base, folder / "judge")
    changes = _changes(repository, base, change)
    copy.take(changes.data)
    open_refs = tuple(
        copy.commit(ref, _open_changes(repository, base, ref).data).ref for ref in request.open_changes
    )
    judged = replace(
        request,
        workspace=Workspace(copy.root, workspace.target),
        base=copy.name(base),
        change=None,
        open_changes=open_refs,
    )
    return DataOnly(judged, shown(changes.code, repository.prefix))


def _require_code_of(base: Revision, repository: GitRepository) -> None:
    differing = repository.changed(base, *CODE) if is_own(repository.root) else ()
    if differing:
        raise InputError(
            f"--change judges with this checkout's gpufleet, but {differing[0]} differs from {base.ref[:80]}",
            remedy="check out the base first, or check the working tree without --change",
        )


def _changes(repository: GitRepository, base: Revision, change: Revision) -> JudgedChanges:
    tree = repository.merged(base, change)
    return sort_out(repository.differences(base.commit, tree), repository.prefix)


def _open_changes(repository: GitRepository, base: Revision, ref: str) -> JudgedChanges:
    """Return the files of another open change, as it is where it conflicts with the base."""
    revision = repository.revision(ref)
    try:
        return _changes(repository, base, revision)
    except InputError:
        differing = repository.differences(base.commit, repository.tree(revision))
        return sort_out(differing, repository.prefix)


def shown(files: Iterable[FileChange], prefix: str) -> tuple[str, ...]:
    """Return the paths of files, from the checkout where they are in it."""
    return tuple(each.path.removeprefix(prefix) for each in files)
