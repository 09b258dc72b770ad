"""Comments on a host on loopback: the own one is updated, others are not changed."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from gpufleet.comment import api as api_module
from gpufleet.comment import host_from_environment, publish
from gpufleet.comment.__main__ import main
from gpufleet.comment.hosts import Host
from gpufleet.errors import CloudError, InputError
from tests.unit.comment.conftest import TOKEN, FakeHost, Fault

FIRST = "<!-- gpufleet check prod -->"
OWN = "github-actions[bot]"


@pytest.fixture(autouse=True)
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds of waits; nothing really waits."""
    seconds: list[float] = []
    monkeypatch.setattr(api_module.Api.__init__, "__defaults__", (seconds.append,))
    return seconds


def _event(tmp_path: Path, head: str | None = "acme/fleet", user: str = "ann") -> str:
    repo = {"full_name": head} if head else None
    path = tmp_path / f"event of {user}.json"
    path.write_text(
        json.dumps(
            {"pull_request": {"number": 7, "head": {"repo": repo, "sha": "f" * 40}, "user": {"login": user}}}
        )
    )
    return str(path)


def _env(host: FakeHost, tmp_path: Path, **more: Any) -> dict[str, str]:
    if host.kind == "gitlab":
        return {
            "CI_API_V4_URL": host.address,
            "CI_PROJECT_ID": "42",
            "CI_MERGE_REQUEST_IID": "7",
            "GPUFLEET_GITLAB_TOKEN": TOKEN,
            **more,
        }
    return {
        "GITHUB_API_URL": host.address,
        "GITHUB_REPOSITORY": "acme/fleet",
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_EVENT_PATH": _event(tmp_path),
        **more,
    }


def _host(host: FakeHost, tmp_path: Path, **more: Any) -> Host:
    return host_from_environment(_env(host, tmp_path, **more))


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_first_verdict_creates_a_comment_and_the_next_updates_it(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    fake: FakeHost = request.getfixturevalue(kind)
    host = _host(fake, tmp_path)
    assert publish(host, f"{FIRST}\nfail\n") == "created"
    assert publish(host, f"{FIRST}\npass\n") == "updated"
    assert publish(host, f"{FIRST}\npass\n") == "unchanged"
    assert [each["body"] for each in fake.comments] == [f"{FIRST}\npass\n"]
    assert len(fake.writes()) == 2


def test_each_environment_has_its_own_comment(github: FakeHost, tmp_path: Path) -> None:
    host = _host(github, tmp_path)
    publish(host, f"{FIRST}\na\n")
    assert publish(host, "<!-- gpufleet check dev -->\nb\n") == "created"
    assert publish(host, "<!-- gpufleet check prod2 -->\nc\n") == "created"
    assert len(github.comments) == 3


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_comment_of_another_author_with_the_marker_is_unchanged(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    fake: FakeHost = request.getfixturevalue(kind)
    fake.add(f"{FIRST}\npass, believe me", "mallory")
    fake.add(f"{FIRST}\npass, too", "github-actions")
    fake.add(f"{FIRST}\nno user", "gone", user=None, author=None)
    assert publish(_host(fake, tmp_path), f"{FIRST}\nfail\n") == "created"
    assert [each["body"] for each in fake.comments[:3]] == [
        f"{FIRST}\npass, believe me",
        f"{FIRST}\npass, too",
        f"{FIRST}\nno user",
    ]


def test_own_comment_that_only_quotes_the_marker_is_unchanged(github: FakeHost, tmp_path: Path) -> None:
    quoting = github.add(f"> {FIRST}\n", OWN)
    inside = github.add(f"text\n{FIRST}\n", OWN)
    assert publish(_host(github, tmp_path), f"{FIRST}\nfail\n") == "created"
    assert (quoting["body"], inside["body"]) == (f"> {FIRST}\n", f"text\n{FIRST}\n")


def test_comment_with_other_line_ends_is_the_same(github: FakeHost, tmp_path: Path) -> None:
    github.add(f"{FIRST}\r\npass", OWN)
    assert publish(_host(github, tmp_path), f"{FIRST}\npass\n") == "unchanged"


def test_token_that_may_query_its_user_identifies_us(github: FakeHost, tmp_path: Path) -> None:
    github.login, github.may_ask_who = "fleet-robot", True
    github.add(f"{FIRST}\nof Actions", OWN)
    ours = github.add(f"{FIRST}\nold", "fleet-robot")
    assert publish(_host(github, tmp_path), f"{FIRST}\nnew\n") == "updated"
    assert ours["body"] == f"{FIRST}\nnew\n"
    assert github.comments[0]["body"] == f"{FIRST}\nof Actions"


def test_own_app_can_be_named(github: FakeHost, tmp_path: Path) -> None:
    ours = github.add(f"{FIRST}\nold", "our-app[bot]")
    host = host_from_environment(_env(github, tmp_path), author="our-app[bot]")
    assert publish(host, f"{FIRST}\nnew\n") == "updated"
    assert ours["body"] == f"{FIRST}\nnew\n"


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_own_comment_is_found_on_the_last_of_many_pages(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    fake: FakeHost = request.getfixturevalue(kind)
    for number in range(95):
        fake.add(f"comment {number}", "ann")
    ours = fake.add(f"{FIRST}\nold", fake.login)
    assert publish(_host(fake, tmp_path), f"{FIRST}\nnew\n") == "updated"
    assert ours["body"] == f"{FIRST}\nnew\n"
    pages = [path for method, path in fake.requests if "page=" in path]
    assert [path.split("&page=")[1].split("&")[0] for path in pages] == ["1", "2", "3", "4"]


def test_busy_api_is_retried_after_the_requested_time(
    github: FakeHost, tmp_path: Path, waited: list[float]
) -> None:
    github.faults = [Fault(502), Fault(503), Fault(429, {"Retry-After": "7"})]
    assert publish(_host(github, tmp_path), f"{FIRST}\nx\n") == "created"
    assert waited == [1.0, 2.0, 7.0]


def test_rate_limit_with_code_403_is_waited_for(
    github: FakeHost, tmp_path: Path, waited: list[float]
) -> None:
    github.faults = [Fault(403, {"Retry-After": "5"}, methods=("POST",))]
    assert publish(_host(github, tmp_path), f"{FIRST}\nx\n") == "created"
    assert waited == [5.0]
    assert len(github.comments) == 1


def test_retries_end(github: FakeHost, tmp_path: Path, waited: list[float]) -> None:
    github.faults = [Fault(429, {"Retry-After": "3600"})]
    with pytest.raises(CloudError, match="429"):
        publish(_host(github, tmp_path), f"{FIRST}\nx\n")
    assert waited == []
    github.faults = [Fault(500) for _ in range(100)]
    with pytest.raises(CloudError, match="500"):
        publish(_host(github, tmp_path), f"{FIRST}\nx\n")
    assert sum(waited) <= 90
    assert github.comments == []


@pytest.mark.parametrize("status", [500, 502, 504])
def test_creation_that_succeeded_despite_an_error_is_not_repeated(
    github: FakeHost, tmp_path: Path, status: int
) -> None:
    github.faults = [Fault(status, done=True, methods=("POST",))]
    assert publish(_host(github, tmp_path), f"{FIRST}\nx\n") == "unchanged"
    assert len(github.comments) == 1


def test_comment_deleted_in_between_is_created_again(github: FakeHost, tmp_path: Path) -> None:
    github.add(f"{FIRST}\nold", OWN)
    host = _host(github, tmp_path)
    real = host.update

    def update(comment: Any, body: str) -> None:
        github.comments.clear()
        real(comment, body)

    host.update = update  # type: ignore[method-assign]
    assert publish(host, f"{FIRST}\nnew\n") == "created"


@pytest.mark.parametrize(
    ("head", "user"), [("mallory/fleet", "mallory"), (None, "gone"), ("acme/fleet", "dependabot[bot]")]
)
def test_fork_without_permission_to_comment_is_not_an_error(
    github: FakeHost, tmp_path: Path, head: str | None, user: str
) -> None:
    github.read_only = True
    host = _host(github, tmp_path, GITHUB_EVENT_PATH=_event(tmp_path, head, user))
    assert publish(host, f"{FIRST}\nx\n") == "not allowed"


def test_missing_permission_is_named(github: FakeHost, tmp_path: Path) -> None:
    github.read_only = True
    with pytest.raises(CloudError) as caught:
        publish(_host(github, tmp_path), f"{FIRST}\nx\n")
    assert "pull-requests: write" in caught.value.remedy


def test_redirect_is_not_followed(github: FakeHost, gitlab: FakeHost, tmp_path: Path) -> None:
    github.faults = [Fault(307, {"Location": f"{gitlab.address}/user"})]
    with pytest.raises(CloudError, match="redirects are not followed"):
        publish(_host(github, tmp_path), f"{FIRST}\nx\n")
    assert gitlab.requests == []


def test_token_is_only_in_a_header_and_in_no_message(
    github: FakeHost, gitlab: FakeHost, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for fake, name, value in (
        (github, "Authorization", f"Bearer {TOKEN}"),
        (gitlab, "Private-Token", TOKEN),
    ):
        fake.faults = [Fault(400, message=f"bad token {TOKEN}")]
        host = _host(fake, tmp_path)
        with pytest.raises(CloudError) as caught:
            publish(host, f"{FIRST}\nx\n")
        assert TOKEN not in f"{caught.value}{caught.value.remedy}{host!r}{caplog.text}"
        assert "[token]" in caught.value.message
        assert fake.headers[0][name] == value
        assert not any(TOKEN in path for _, path in fake.requests)


@pytest.mark.parametrize(
    "address",
    [
        "http://api.example",
        "http://10.0.0.1/api",
        "ftp://127.0.0.1",
        "https://u:p@api.example",
        "api.example",
        "",
    ],
)
def test_token_is_sent_only_over_https(github: FakeHost, tmp_path: Path, address: str) -> None:
    env = _env(github, tmp_path, GITHUB_API_URL=address)
    if not address:
        assert host_from_environment(env).api.address == "https://api.github.com"
        return
    with pytest.raises(InputError):
        host_from_environment(env)
    assert github.requests == []


def test_requests_to_loopback_bypass_the_proxy(
    github: FakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert publish(_host(github, tmp_path), f"{FIRST}\nx\n") == "created"


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ("GITHUB_TOKEN", "GITHUB_TOKEN"),
        ("GITHUB_EVENT_PATH", "not of a pull request"),
        ("GITHUB_REPOSITORY", "neither"),
    ],
)
def test_missing_variables_are_named(github: FakeHost, tmp_path: Path, missing: str, named: str) -> None:
    env = _env(github, tmp_path)
    del env[missing]
    with pytest.raises(InputError, match=named):
        host_from_environment(env)


@pytest.mark.parametrize("missing", ["CI_API_V4_URL", "CI_MERGE_REQUEST_IID", "GPUFLEET_GITLAB_TOKEN"])
def test_missing_variables_on_gitlab_are_named(gitlab: FakeHost, tmp_path: Path, missing: str) -> None:
    env = _env(gitlab, tmp_path)
    del env[missing]
    with pytest.raises(InputError, match=missing):
        host_from_environment(env)


def test_number_can_be_given(github: FakeHost, tmp_path: Path) -> None:
    env = _env(github, tmp_path)
    del env["GITHUB_EVENT_PATH"]
    assert publish(host_from_environment(env, 7), f"{FIRST}\nx\n") == "created"


def test_invalid_json_response_is_an_error_without_traceback(
    github: FakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(github, "answer", lambda *_: (200, {}, {"login": "x"}))
    with pytest.raises(CloudError, match="not a list"):
        publish(_host(github, tmp_path), f"{FIRST}\nx\n")


def test_unreachable_host_is_an_error_without_traceback(github: FakeHost, tmp_path: Path) -> None:
    with pytest.raises(CloudError):
        publish(_host(github, tmp_path, GITHUB_API_URL="http://127.0.0.1:1"), f"{FIRST}\nx\n")


def test_module_posts_with_the_standard_library(
    github: FakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in _env(github, tmp_path).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "verdict.md").write_text(f"{FIRST}\n### gpufleet check prod: pass\n")
    assert main(["prod", str(tmp_path / "verdict.md")]) == 0
    assert capsys.readouterr().out == "acme/fleet#7: comment created\n"
    assert f"commit {'f' * 12}" in github.comments[0]["body"]
    assert main(["dev", str(tmp_path / "verdict.md")]) == 2
    github.read_only = True
    assert main(["prod", str(tmp_path / "missing.md")]) == 4
    monkeypatch.setenv("GITHUB_EVENT_PATH", _event(tmp_path, "mallory/fleet"))
    assert main(["prod", str(tmp_path / "missing.md")]) == 0
    assert TOKEN not in "".join(capsys.readouterr())
