"""The comment on a pull request, written from text that its author chose."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from markdown_it import MarkdownIt

from gpufleet.report.verdict_markdown import LONGEST, escape, verdict_to_markdown
from gpufleet.verdict.models import ChangedResource, OpenChangeCost
from gpufleet.visible import visible_line
from tests.unit.verdict.conftest import cost_line, costs, rule, verdict, violated

EVIL = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</details><h1>approved</h1>",
    "@octocat please look",
    "[click](https://evil.example)",
    "![x](https://evil.example/x.png)",
    "https://evil.example/a",
    "www.evil.example",
    "mail@evil.example",
    "#1 GH-1 !2 ~bug $3 octo/repo#4",
    "`code` **bold** _it_ ~~gone~~ | cell | $math$",
    "line one\n/approve\n\n# heading\n- item",
    "\u202eright to left\u2066",
    "\x1b[31mred\x07",
    "<!-- gpufleet check other -->",
    "&lt;b&gt; &amp;#64;octocat &#64;octocat",
    "\\<b>\\*",
)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.comments: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.found.append(tag)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_data(self, data: str) -> None:
        self.text += data


def _rendered(markdown: str) -> _Tags:
    """As GitHub renders it: GFM with HTML, tables and bare links made clickable."""
    tags = _Tags()
    tags.feed(MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(markdown))
    return tags


def _evil_verdict(text: str) -> str:
    change = ChangedResource("urn:x", f"aws:{text}", text, "replace", text, text, (text,), (text,))
    return verdict_to_markdown(
        verdict(
            rule("closed-buckets", violated(text, name=text, file=text)),
            rule("b", violated(text, name=text, effect="exempted"), status="exempted"),
            rule("c", note=text, status="disabled"),
            changes=(change,),
            costs=costs(cost_line(text, 1, 2), cost_line(text, 1, None, reason=text), not_counted=(text,)),
            open_changes=(OpenChangeCost(text, None, text),),
        )
    )


PLAIN = {tag for tag in _rendered(_evil_verdict("plain")).found}  # noqa: C416


def test_first_line_is_the_marker_of_the_comment() -> None:
    text = verdict_to_markdown(verdict())
    assert text.splitlines()[0] == "<!-- gpufleet check prod -->"
    assert text.count("<!--") == 1


@pytest.mark.parametrize("text", EVIL)
def test_user_text_is_escaped_in_markdown(text: str) -> None:
    rendered = _rendered(_evil_verdict(text))
    assert set(rendered.found) <= PLAIN
    assert not {"script", "img", "a", "h1", "code", "strong"} & (set(rendered.found) - PLAIN)
    assert rendered.comments == [" gpufleet check prod "]


@pytest.mark.parametrize("text", EVIL)
def test_user_text_makes_no_mention_link_or_new_line(text: str) -> None:
    markdown = _evil_verdict(text)
    shown = _rendered(markdown).text
    assert not re.search(r"@\w", shown)
    assert not re.search(r"(?<![\w&])#\d|GH-\d|!\d", shown)
    assert "://" not in shown
    assert "www." not in shown
    assert not re.search(r"^/", markdown, re.MULTILINE)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", markdown)


@pytest.mark.parametrize("text", EVIL)
def test_escaped_text_reads_as_written(text: str) -> None:
    shown = _rendered(f"x {escape(text)}").text.replace("\u200b", "").strip().removeprefix("x ")
    assert shown == visible_line(" ".join(text.split()))


def test_table_keeps_its_columns_with_any_cell_content() -> None:
    for text in EVIL:
        for line in _evil_verdict(text).splitlines():
            if line.startswith("| ") and "---" not in line:
                assert len(re.findall(r"(?<!\\)\|", line)) in (4, 5)


def test_failures_come_before_the_details_with_their_place() -> None:
    text = verdict_to_markdown(verdict(rule("closed-buckets", violated())))
    assert "### gpufleet check prod: **fail**" in text
    assert text.index("stacks/prod/fleet.yaml:17 **closed-buckets**") < text.index("<details>")
    assert text.count("<details>") == text.count("</details>")


def test_passing_verdict_lists_no_failures() -> None:
    text = verdict_to_markdown(verdict(rule("closed-buckets")))
    assert "prod: pass" in text
    assert "#### Fails" not in text


def test_change_of_its_own_rules_is_reported_at_the_top() -> None:
    text = verdict_to_markdown(verdict())
    assert text.index("The change edits files that decide its verdict") < text.index("<details>")


def test_comment_never_exceeds_the_limit_of_github() -> None:
    many = tuple(violated("x" * 5000, name="n" * 200, file="f" * 300) for _ in range(500))
    changes = tuple(
        ChangedResource(f"urn:{n}", "aws:s3/bucket:Bucket", "n" * 300, "create", "s", "o")
        for n in range(3000)
    )
    lines = tuple(cost_line("w" * 200, n, n + 1) for n in range(2000))
    text = verdict_to_markdown(verdict(rule("a", *many), changes=changes, costs=costs(*lines)))
    assert len(text) <= LONGEST
    assert text.startswith("<!-- gpufleet check prod -->\n")
    assert text.count("<details>") == text.count("</details>")
    assert "more)" in text
    assert "**fail**" in text
