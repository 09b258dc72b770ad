"""Code hosts: listing, creating and updating comments of a pull request, and our own user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from gpufleet.comment.api import Answer, Api, CodeHostError
from gpufleet.errors import CloudError

PER_PAGE = 100
_MOST_PAGES = 100


@dataclass(frozen=True, slots=True)
class Comment:
    """One comment: its id, its text, and whether the token's own user wrote it."""

    id: int
    body: str
    own: bool


class Host(Protocol):
    """A pull request on a code host. `most` is the maximum length of a comment, in characters.

    `read_only`: the host does not allow the run to comment (a fork's pull request); `remedy` is what to do if
    it should.
    """

    api: Api
    most: int
    read_only: bool
    remedy: str

    @property
    def name(self) -> str:
        """Return the pull request, for messages."""
        ...

    def comments(self) -> Iterator[Comment]:
        """Yield all comments, oldest first."""
        ...

    def create(self, body: str) -> None:
        """Add a comment."""
        ...

    def update(self, comment: Comment, body: str) -> None:
        """Change the text of a comment."""
        ...


@dataclass
class GitHub:
    """A pull request on GitHub. `author` is the author of our comments if the token is an app's.

    An app's token, such as that of GitHub Actions, cannot read its own user; its comments are by
    `<app>[bot]`, a name that no person can have.
    """

    api: Api
    repository: str
    number: int
    author: str = "github-actions[bot]"
    read_only: bool = False
    most: int = 65_536
    remedy: str = "give the job `permissions: pull-requests: write`"

    @property
    def name(self) -> str:
        """Return the pull request, for messages."""
        return f"{self.repository}#{self.number}"

    def comments(self) -> Iterator[Comment]:
        """Yield all comments, oldest first."""
        author = self._author()
        for each in _pages(self.api.get, f"/repos/{self.repository}/issues/{self.number}/comments"):
            login = (each.get("user") or {}).get("login")
            yield Comment(each["id"], each.get("body") or "", login == author)

    def create(self, body: str) -> None:
        """Add a comment."""
        self.api.post(f"/repos/{self.repository}/issues/{self.number}/comments", {"body": body})

    def update(self, comment: Comment, body: str) -> None:
        """Change the text of a comment."""
        self.api.put("PATCH", f"/repos/{self.repository}/issues/comments/{comment.id}", {"body": body})

    def _author(self) -> str:
        try:
            return str(self.api.get("/user").document["login"])
        except CodeHostError as error:
            if error.status in (403, 404) and not error.transient:
                return self.author
            raise


@dataclass
class GitLab:
    """A merge request on GitLab."""

    api: Api
    project: str
    number: int
    read_only: bool = False
    most: int = 1_000_000
    remedy: str = "the token needs the scope api and at least the role Reporter; not a job token"

    @property
    def name(self) -> str:
        """Return the merge request, for messages."""
        return f"project {self.project} !{self.number}"

    @property
    def _notes(self) -> str:
        return f"/projects/{self.project}/merge_requests/{self.number}/notes"

    def comments(self) -> Iterator[Comment]:
        """Yield all comments of people or bots, oldest first."""
        own = self.api.get("/user").document["id"]
        for each in _pages(self.api.get, self._notes, "&sort=asc&order_by=created_at"):
            if not each.get("system"):
                yield Comment(each["id"], each.get("body") or "", (each.get("author") or {}).get("id") == own)

    def create(self, body: str) -> None:
        """Add a comment."""
        self.api.post(self._notes, {"body": body})

    def update(self, comment: Comment, body: str) -> None:
        """Change the text of a comment."""
        self.api.put("PUT", f"{self._notes}/{comment.id}", {"body": body})


def _pages(get: Callable[[str], Answer], path: str, query: str = "") -> Iterator[Any]:
    """Yield the entries of all pages, counted here: an address from an answer is never followed."""
    for page in range(1, _MOST_PAGES + 1):
        answer = get(f"{path}?per_page={PER_PAGE}&page={page}{query}")
        if not isinstance(answer.document, list):
            raise CloudError(f"GET {path}: the answer is not a list of comments")
        yield from answer.document
        if not answer.more:
            return
    raise CloudError(f"GET {path}: more than {_MOST_PAGES * PER_PAGE} comments")
