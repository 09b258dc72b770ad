"""The git repository of a checkout: files of a ref, and differences from it.

Refs and paths come from users and pull requests, so they are never passed as git options. Index, work tree
and refs are not modified.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from gpufleet.containment import read_contained
from gpufleet.errors import InputError
from gpufleet.verdict.judging import FileChange

_LONGEST_REF = 200
# git sets these in hooks; they would select another repository or index.
_LEADING = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_NAMESPACE")


class Revision(Struct, frozen=True):
    """A commit, and the ref that the user wrote."""

    ref: str
    commit: str


class GitRepository:
    """The repository of the checkout `root`. Raises InputError without a repository or git."""

    def __init__(self, root: Path) -> None:
        self.root = root
        answer = self._git("rev-parse", "--show-prefix", "--show-toplevel")
        if answer.returncode:
            raise InputError(
                f"{root} is not in a readable git repository: {_last(answer)}",
                remedy="run the command in a clone of the repository, or without --base and --open",
            )
        self.prefix, top = answer.stdout.decode().rstrip("\n").split("\n", 1)
        """The path of the checkout in the repository: empty, or ending with a slash."""
        self.top = Path(top)
        """The top folder of the repository."""

    def revision(self, ref: str) -> Revision:
        """Return the commit of a ref. Raises InputError if it does not exist or is not a commit."""
        shown = repr(ref[:_LONGEST_REF])
        if not ref.strip() or ref.startswith("-") or "\0" in ref:
            raise InputError(f"{shown} is not a git ref", remedy="use a branch, a tag or a commit")
        answer = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        if answer.returncode == 0:
            return Revision(ref, answer.stdout.decode().strip())
        there = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", ref)
        if there.returncode == 0:
            raise InputError(f"{shown} is not a commit", remedy="use a branch, a tag or a commit")
        raise InputError(
            f"this repository has no ref {shown}",
            remedy="check the spelling; in a shallow clone, run `git fetch origin` first",
        )

    def tree(self, revision: Revision) -> str:
        """Return the ID of the commit's tree, which is equal for commits with the same files."""
        return self._git("rev-parse", f"{revision.commit}^{{tree}}").stdout.decode().strip()

    def has(self, revision: Revision, path: str) -> bool:
        """Return whether a commit has a file or folder (relative to the checkout)."""
        named = f"{revision.commit}:{self.prefix}{path}"
        return not self._git("cat-file", "-e", named).returncode

    def export(
        self, revision: Revision, into: Path, wanted: Callable[[str], bool] = lambda _name: True
    ) -> Path:
        """Write the files of a commit below `into` and return the folder of the checkout in it.

        Of the checkout's files only those for whose name `wanted` returns true. A separate index is used,
        because `git archive` omits files with the attribute export-ignore.
        """
        into.mkdir(parents=True)
        index = {"GIT_INDEX_FILE": str(into.with_suffix(".index"))}
        names = b""
        for command in (
            ("read-tree", revision.commit),
            ("ls-files", "-z"),
            ("checkout-index", "--force", "-z", "--stdin", f"--prefix={into}{os.sep}"),
        ):
            answer = self._git(*command, env=index, top=True, stdin=names)
            if answer.returncode:
                raise InputError(
                    f"{revision.ref} cannot be read: {_last(answer)}",
                    remedy="check that the clone is complete",
                )
            listed = answer.stdout.split(b"\0")
            names = b"\0".join(name for name in listed if wanted(os.fsdecode(name).removeprefix(self.prefix)))
        return into / self.prefix

    def changed(self, revision: Revision, *paths: str) -> tuple[str, ...]:
        """Return the files below `paths` (relative to the checkout) that differ between commit and work
        tree."""
        differing = self._git(
            "diff",
            "--no-ext-diff",
            "--name-only",
            "--no-renames",
            "--relative",
            "-z",
            revision.commit,
            "--",
            *paths,
        )
        fresh = self._git("ls-files", "--others", "--exclude-standard", "-z", "--", *paths)
        for answer in (differing, fresh):
            if answer.returncode:
                raise InputError(f"git cannot compare with {revision.ref}: {_last(answer)}")
        names = {
            name
            for answer in (differing, fresh)
            for name in answer.stdout.decode(errors="replace").split("\0")
        }
        return tuple(sorted(names - {""}))

    def differences(self, before: str, after: str | None = None) -> tuple[FileChange, ...]:
        """Return the files that differ between two trees or commits, or from the work tree, over the whole
        repository. Files that git ignores are not compared.
        """
        options = ("--raw", "--no-abbrev", "--no-ext-diff", "--no-renames", "--no-relative", "-z")
        sides = (before,) if after is None else (before, after)
        answer = self._git("diff", *options, "--ignore-submodules=none", *sides, "--", top=True)
        fresh = b""
        if after is None and answer.returncode == 0:
            others = self._git("ls-files", "--others", "--exclude-standard", "-z", top=True)
            answer, fresh = (answer, others.stdout) if others.returncode == 0 else (others, b"")
        if answer.returncode:
            raise InputError(f"git cannot compare with {before[:40]}: {_last(answer)}")
        found = [*_raw(answer.stdout)]
        listed = {each.path for each in found}
        names = [os.fsdecode(name) for name in fresh.split(b"\0") if name]
        found += [FileChange(name, "000000", self._mode(name)) for name in names if name not in listed]
        return tuple(found)

    def _mode(self, name: str) -> str:
        """Return the mode that git would give a file of the work tree."""
        mode = (self.top / name).lstat().st_mode
        if stat.S_ISLNK(mode):
            return "120000"
        return "100755" if mode & 0o100 else "100644"

    def merged(self, base: Revision, change: Revision) -> str:
        """Return the tree that a merge of the change into the base gives.

        Raises InputError if they conflict or have no common commit.
        """
        if not self._git("merge-base", "--is-ancestor", base.commit, change.commit).returncode:
            return self.tree(change)
        answer = self._git("merge-tree", "--write-tree", "--no-messages", base.commit, change.commit)
        if answer.returncode:
            why = "they conflict" if answer.returncode == 1 else _last(answer)
            raise InputError(
                f"{change.ref[:80]} cannot be merged into {base.ref[:80]}: {why}",
                remedy="merge the target branch into the change, or rebase it, and check again",
            )
        return answer.stdout.decode().split("\0", 1)[0].strip().split("\n", 1)[0]

    def content(self, change: FileChange, most: int) -> bytes:
        """Return the content of a file after the change. Raises InputError for more than `most` bytes."""
        content = b""
        if change.blob:
            answer = self._git("cat-file", "-s", change.blob)
            size = int(answer.stdout) if answer.returncode == 0 else most + 1
        else:
            content = read_contained(self.top / change.path, change.path, within=self.top, most=most + 1)
            size = len(content)
        if size > most:
            raise InputError(f"{change.path} has more than {most:,} bytes", remedy="write a smaller file")
        return self._git("cat-file", "blob", change.blob).stdout if change.blob else content

    def objects(self) -> Path:
        """Return the folder of the repository's objects."""
        answer = self._git("rev-parse", "--git-path", "objects")
        return (self.root / answer.stdout.decode().rstrip("\n")).resolve()

    def _git(
        self, *arguments: str, env: dict[str, str] | None = None, top: bool = False, stdin: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        environ = {name: value for name, value in os.environ.items() if name not in _LEADING}
        command = ["git", "-c", "core.quotePath=false", "-c", "core.fsmonitor=false"]
        where = self.top if top else self.root
        try:
            return subprocess.run(  # noqa: S603 - fixed program; refs follow --end-of-options
                [*command, *arguments],
                cwd=where,
                env={**environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", **(env or {})},
                input=stdin,
                capture_output=True,
                check=False,
            )
        except FileNotFoundError:
            raise InputError(
                "git is not on PATH, but --base and --open need it", remedy="install git"
            ) from None


def _raw(listing: bytes) -> Iterator[FileChange]:
    """Yield the files of `git diff --raw -z`: a line with modes and contents, then a path."""
    fields = iter(listing.split(b"\0"))
    for about in fields:
        if not about:
            return
        before, after, _, blob, _ = about.decode().removeprefix(":").split(" ")
        path = os.fsdecode(next(fields))
        yield FileChange(path, before, after, "" if set(blob) == {"0"} else blob)


def _last(answer: subprocess.CompletedProcess[bytes]) -> str:
    lines = answer.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"git ended with {answer.returncode}"
