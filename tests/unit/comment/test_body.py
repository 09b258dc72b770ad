"""The text of a comment is untrusted: limited, of the right environment, and without commands."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from gpufleet.comment import verdict_body
from gpufleet.errors import InputError

FIRST = "<!-- gpufleet check prod -->"
PASSED = f"{FIRST}\n### gpufleet check prod: pass"
MOST = 65_536


def _body(tmp_path: Path, text: str, most: int = MOST, **more: str) -> str:
    file = tmp_path / "verdict.md"
    file.write_text(text, encoding="utf-8")
    return verdict_body("prod", file, most=most, **more)


def test_file_is_posted_unchanged(tmp_path: Path) -> None:
    text = f"{PASSED}\n\n| a | b |\n| --- | ---: |\n| s3:\u200b//x/y | 1/2 |\n"
    assert _body(tmp_path, text) == text


def test_run_and_commit_are_below_the_text(tmp_path: Path) -> None:
    body = _body(tmp_path, f"{PASSED}\nx\n", run="https://host/run/1", commit="0123456789abcdef")
    assert body.endswith("\n<sub>[run](https://host/run/1), commit 0123456789ab</sub>\n")


def test_missing_file_is_reported_in_the_comment_instead_of_the_old_verdict(tmp_path: Path) -> None:
    body = verdict_body("prod", tmp_path / "none.md", most=MOST, run="https://host/run/1")
    assert body.startswith(f"{FIRST}\n")
    assert "no verdict" in body
    assert "https://host/run/1" in body


@pytest.mark.parametrize(
    "text",
    ["", "### prod\n", "<!-- gpufleet check dev -->\nx\n", f" x {FIRST}\n", f"{FIRST} <b>\n", f"\n{FIRST}\n"],
)
def test_file_without_the_marker_of_the_environment_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="does not start with"):
        _body(tmp_path, text)


def test_environment_name_cannot_inject_markup(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not an environment's name"):
        verdict_body("prod --> <b>", tmp_path / "x.md", most=MOST)


@pytest.mark.parametrize("line", ["/approve", "  /merge", "\t/close", "/label ~done"])
def test_line_that_looks_like_a_command_is_escaped(tmp_path: Path, line: str) -> None:
    body = _body(tmp_path, f"{PASSED}\ntext\n\n{line}\n")
    assert line.strip() in body.replace("\u200b", "").replace("\\", "")
    assert not re.search(r"^\s*/", body, re.MULTILINE)


def test_mentions_are_escaped(tmp_path: Path) -> None:
    body = _body(tmp_path, f"{PASSED}\n@acme/admins and (@bob), a@b.example\n")
    assert "@acme" not in body and "@bob" not in body and "@b.example" not in body
    assert "@acme/admins and (@bob), a@b.example" in body.replace("\u200b", "")


def test_bidirectional_control_characters_are_removed(tmp_path: Path) -> None:
    assert "\u202e" not in _body(tmp_path, f"{PASSED}\nfail\u202e ssap\x1b[2J\n")
    assert "\x1b" not in _body(tmp_path, f"{PASSED}\nfail\u202e ssap\x1b[2J\n")


def test_long_verdict_is_cut_at_a_line_and_open_markup_is_closed(tmp_path: Path) -> None:
    rows = "".join(f"| row {number} | value |\n" for number in range(20_000))
    body = _body(
        tmp_path, f"{PASSED}\n<details>\n<summary>Resources (1)</summary>\n\n{rows}</details>\n", commit="abc"
    )
    assert len(body) <= MOST
    assert body.count("<details") == body.count("</details>") == 1
    assert "Cut here" in body
    assert body.endswith("commit abc</sub>\n")
    kept = [line for line in body.splitlines() if line.startswith("| row")]
    assert kept == rows.splitlines()[: len(kept)] and len(kept) > 1000


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{FIRST}\n", "no heading"),
        (f"{FIRST}\n### gpufleet check dev: pass\n", "no heading"),
        (f"{FIRST}\n# gpufleet check prod: pass\n", "no heading"),
        (f"{FIRST}\n### gpufleet check prod: pass **fail**\n", "no heading"),
        (f"{FIRST}\n\n### gpufleet check prod: pass\n", "no heading"),
        (f"{PASSED}\n\n#### Fails\n\n- a:1 **b** c: d\n", "contradict"),
        (f"{FIRST}\n### gpufleet check prod: **fail**\n\nall is well\n", "contradict"),
    ],
)
def test_file_with_another_or_a_contradictory_heading_is_no_verdict(
    tmp_path: Path, text: str, why: str
) -> None:
    body = _body(tmp_path, text)
    assert body.startswith(f"{FIRST}\n### gpufleet check prod: no verdict\n")
    assert why in body
    assert ": pass" not in body and "all is well" not in body


def test_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{FIRST}\nsecret\n")
    (tmp_path / "link.md").symlink_to(secret)
    with pytest.raises(InputError, match=r"link\.md"):
        verdict_body("prod", tmp_path / "link.md", most=MOST)


def test_pipe_or_folder_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    for path in (tmp_path / "pipe.md", tmp_path):
        with pytest.raises(InputError):
            verdict_body("prod", path, most=MOST)


def test_too_large_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="larger than"):
        _body(tmp_path, f"{FIRST}\n" + "x" * 5_000_000)


def test_invalid_bytes_are_handled(tmp_path: Path) -> None:
    file = tmp_path / "verdict.md"
    file.write_bytes(PASSED.replace("\n", "\r\n").encode() + b"\r\n\xff\xfe ok\r\n")
    assert "ok" in verdict_body("prod", file, most=MOST)
