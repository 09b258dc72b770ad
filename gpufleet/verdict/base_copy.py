"""A checkout with the files of a base, and of a change only its data: nothing in it is code of the change.

It is a repository of its own in a temporary folder that borrows the objects of the user's repository, so that
the base's gpufleet checks it like any other. No hook, filter or setting of the change takes part.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from gpufleet.errors import InputError
from gpufleet.verdict.git import GitRepository, Revision
from gpufleet.verdict.judging import FileChange

MOST_BYTES = 4 * 1024 * 1024
"""The largest file of data."""

MOST_FILES = 2_000
"""The largest number of changed files of data."""

_ABSENT = "000000"
_ID = re.compile(r"[0-9a-fA-F]{40}(?:[0-9a-fA-F]{24})?")


class BaseCopy:
    """The copy of a base in the new folder `folder`. `root` is the checkout in it."""

    def __init__(self, repository: GitRepository, base: Revision, folder: Path) -> None:
        self._repository = repository
        self._base = base
        self.root = repository.export(base, folder)
        self._top = folder
        self._git("init", "--quiet", "--template=", str(folder))
        objects = repository.objects()
        alternates = folder / ".git" / "objects" / "info" / "alternates"
        alternates.parent.mkdir(parents=True, exist_ok=True)
        alternates.write_bytes(os.fsencode(objects) + b"\n")
        shallow = objects.parent / "shallow"
        if shallow.is_file():
            shutil.copyfile(shallow, folder / ".git" / "shallow")
        self._git("update-ref", "--no-deref", "HEAD", base.commit)
        self._git("read-tree", base.commit)

    def name(self, revision: Revision) -> str:
        """Return a ref by which the copy knows a commit: that of the user where it can be one."""
        ref = f"refs/heads/{revision.ref}"
        # A commit's ID would name that commit in the copy as well, and not the one given here.
        taken = revision.ref == "HEAD" or _ID.fullmatch(revision.ref)
        if taken or self._run("check-ref-format", ref).returncode:
            return revision.commit
        if self._run("update-ref", ref, revision.commit).returncode:
            return revision.commit
        return revision.ref

    def take(self, data: Iterable[FileChange]) -> None:
        """Put the data of a change into the work tree. Raises InputError for too much of it."""
        for each, content in self._contents(data):
            # The names have no `..`, and below stacks/ the base's own links are not followed either.
            path = self._top / each.path
            _refuse_links(path, self._top)
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)

    def commit(self, name: str, data: Iterable[FileChange]) -> Revision:
        """Return a commit of the base with the data of another change, under the ref `name`."""
        index = {"GIT_INDEX_FILE": str(self._top / ".git" / "index.other")}
        self._git("read-tree", self._base.commit, env=index)
        for each, content in self._contents(data):
            if content is None:
                self._git("update-index", "--force-remove", "--", each.path, env=index)
                continue
            blob = self._git("hash-object", "-w", "--no-filters", "--stdin", stdin=content)
            self._git("update-index", "--add", "--cacheinfo", f"100644,{blob},{each.path}", env=index)
        tree = self._git("write-tree", env=index)
        people = ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")
        author = {f"GIT_{name}": "gpufleet" for name in people}
        made = self._git("commit-tree", tree, "-p", self._base.commit, "-m", "data", env=author)
        return Revision(self.name(Revision(name, made)), made)

    def _contents(self, data: Iterable[FileChange]) -> list[tuple[FileChange, bytes | None]]:
        listed = list(data)
        if len(listed) > MOST_FILES:
            raise InputError(
                f"the change has {len(listed):,} files of data below stacks/, more than {MOST_FILES:,}",
                remedy="split the change",
            )
        return [
            (each, None if each.after == _ABSENT else self._repository.content(each, MOST_BYTES))
            for each in listed
        ]

    def _git(self, *arguments: str, env: dict[str, str] | None = None, stdin: bytes = b"") -> str:
        answer = self._run(*arguments, env=env, stdin=stdin)
        if answer.returncode:
            why = answer.stderr.decode(errors="replace").strip().splitlines()
            raise InputError(f"the base cannot be copied: {why[-1] if why else arguments[0]}")
        return answer.stdout.decode().strip()

    def _run(
        self, *arguments: str, env: dict[str, str] | None = None, stdin: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        # Settings of the user are not needed, and those of hooks select another repository.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
        return subprocess.run(  # noqa: S603 - fixed program; paths and refs are arguments of their own
            ["git", *arguments],  # noqa: S607
            cwd=self._top,
            env={**kept, **own, **(env or {})},
            input=stdin,
            capture_output=True,
            check=False,
        )


def _refuse_links(path: Path, top: Path) -> None:
    for folder in (path, *path.parents):
        if folder == top:
            return
        if folder.is_symlink():
            raise InputError(
                f"{folder.relative_to(top)} is a link in the base, and the change writes through it",
                remedy="replace the link in a change of its own",
            )
