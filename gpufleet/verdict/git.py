"""The git repository around a checkout: what a ref was, as files of its own, and what differs from it.

Refs and paths come from users and pull requests: they never become options of git, and nothing of the
repository (index, work tree, refs) is written.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from gpufleet.errors import InputError

_LONGEST_REF = 200
# Set where git runs us as a hook; they would lead it to another repository or index.
_LEADING = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_NAMESPACE")


@dataclass(frozen=True, slots=True)
class Revision:
    """A commit, and the words that named it."""

    ref: str
    commit: str


class GitRepository:
    """The repository that holds the checkout `root`. Raises InputError where there is none, or no git."""

    def __init__(self, root: Path) -> None:
        self.root = root
        answer = self._git("rev-parse", "--show-prefix", "--show-toplevel")
        if answer.returncode:
            raise InputError(
                f"{root} is in no git repository that can be read: {_last(answer)}",
                remedy="compare inside a clone of the repository, or leave --base and --open out",
            )
        self.prefix, top = answer.stdout.decode().rstrip("\n").split("\n", 1)
        """Where the checkout lies in the repository: empty, or a path that ends with a slash."""
        self.top = Path(top)
        """The repository's own folder."""

    def revision(self, ref: str) -> Revision:
        """The commit that a ref names. Raises InputError for one that does not exist or is no commit."""
        shown = repr(ref[:_LONGEST_REF])
        if not ref.strip() or ref.startswith("-") or "\0" in ref:
            raise InputError(f"{shown} is no git ref", remedy="name a branch, a tag or a commit")
        answer = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        if answer.returncode == 0:
            return Revision(ref, answer.stdout.decode().strip())
        there = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", ref)
        if there.returncode == 0:
            raise InputError(f"{shown} is no commit", remedy="name a branch, a tag or a commit")
        raise InputError(
            f"this repository has no ref {shown}",
            remedy="is it spelled right? A shallow clone lacks most refs: `git fetch origin` gets them",
        )

    def tree(self, revision: Revision) -> str:
        """The name of all files of a commit, which others with the same content share."""
        return self._git("rev-parse", f"{revision.commit}^{{tree}}").stdout.decode().strip()

    def export(self, revision: Revision, into: Path) -> Path:
        """The files of a commit below `into`; the folder in it that corresponds to the checkout.

        Through an index of its own and not `git archive`, which leaves out what the commit's own
        attributes say.
        """
        into.mkdir(parents=True)
        index = {"GIT_INDEX_FILE": str(into.with_suffix(".index"))}
        for command in (
            ("read-tree", revision.commit),
            ("checkout-index", "--all", "--force", f"--prefix={into}{os.sep}"),
        ):
            answer = self._git(*command, env=index, top=True)
            if answer.returncode:
                raise InputError(
                    f"{revision.ref} cannot be read: {_last(answer)}", remedy="is the clone complete?"
                )
        return into / self.prefix

    def changed(self, revision: Revision, *paths: str) -> tuple[str, ...]:
        """Files below the paths (relative to the checkout) that differ between a commit and the work tree."""
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
        self, *arguments: str, env: dict[str, str] | None = None, top: bool = False
    ) -> subprocess.CompletedProcess[bytes]:
        environ = {name: value for name, value in os.environ.items() if name not in _LEADING}
        command = ["git", "-c", "core.quotePath=false", "-c", "core.fsmonitor=false"]
        where = self.top if top else self.root
        try:
            return subprocess.run(  # noqa: S603 - fixed program; refs stand behind --end-of-options
                [*command, *arguments],
                cwd=where,
                env={**environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", **(env or {})},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
        except FileNotFoundError:
            raise InputError(
                "git is not on PATH, and --base and --open need it", remedy="install git"
            ) from None


def _last(answer: subprocess.CompletedProcess[bytes]) -> str:
    lines = answer.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"git ended with {answer.returncode}"
