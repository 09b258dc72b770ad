"""The git repository of a checkout: files of a ref, and differences from it.

Refs and paths come from users and pull requests, so they are never passed as git options. Index, work tree
and refs are not modified.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpufleet.errors import InputError

_LONGEST_REF = 200
# git sets these in hooks; they would select another repository or index.
_LEADING = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_NAMESPACE")


@dataclass(frozen=True, slots=True)
class Revision:
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


def _last(answer: subprocess.CompletedProcess[bytes]) -> str:
    lines = answer.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"git ended with {answer.returncode}"
