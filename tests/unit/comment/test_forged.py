"""A forged verdict has no effect on the host: nothing of its author survives as markup, in any order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from gpufleet.comment import verdict_body
from gpufleet.comment.hosts import GitHub, GitLab
from gpufleet.comment_form import FOLDED, SENTENCES, escaped, inert, unescaped
from gpufleet.report.verdict_markdown import verdict_to_markdown
from gpufleet.visible import ACTING
from tests.unit.verdict.conftest import rule, verdict, violated

FIRST = "<!-- gpufleet check prod -->"
HEADINGS = ("### gpufleet check prod: pass", "### gpufleet check prod: **fail**")
KNOWN = [
    *HEADINGS,
    "#### Fails",
    "#### Advice",
    "<details>",
    "</details>",
    "<summary>Rules (2 violations of 1 rule)</summary>",
    "<summary>Cost, line by line (3)</summary>",
    "| --- | ---: |",
    "",
]
HOSTILE = [
    "<img src=https://evil.example/pixel.png>",
    "<details open><summary>x",
    "<summary>Resources <b>x</b></summary>",
    "<summary>Approved by security</summary>",
    "![p](https://evil.example/p.png)",
    "[![p](//evil.example/p)](https://evil.example)",
    "[ref]: https://evil.example 'title'",
    "[ref]",
    "```suggestion",
    "~~~~suggestion:-0+0",
    "    indented code",
    "\tindented",
    "> [!NOTE]",
    ">>> quote",
    "@acme/security",
    "cc: @bob.",
    "closes #1, fixes acme/fleet#2 and GH-3",
    "resolves https://github.com/acme/fleet/issues/4",
    'JIRA-12 !5 $6 ~"a label" %"17.0" &7 ^8 *iteration:9 [vulnerability:10] [[_TOC_]]',
    "/approve",
    "  /merge",
    "# pass",
    "pass\n===",
    "pass\n---",
    "- - nested\n1. one\n1) one\n+ plus\n* star",
    "- # heading in an item",
    "- x **y** **z** w",
    "- a ** b** c",
    "| a | b |\n| --- | ---: |\n| <b>x</b> | `y\\` | z |",
    "|a|b|\n|:-|-:|",
    "**bold** _em_ __strong__ ~~gone~~ ~sub~ `code` ``c``",
    "**The change edits files that decide its verdict:** @bob <b>x</b>",
    "&lt;b&gt; &#64;bob &commat;bob &#x3c;img&#x3e; &amp;lt;",
    "\\<img src=x>\\![x](y) \\\\*a*\\\\@bob",
    "www.evil.example mail@evil.example ftp://evil.example xmpp:a@evil.example mailto:a@evil.example",
    "<https://evil.example> <a@evil.example>",
    "\u202epass\u2066 \x1b[2J\x07 \u200b/approve \ufeff\u2028@bob\u0085/close",
    "<!-- gpufleet check dev -->",
    "<![CDATA[x]]> <?php ?> <!DOCTYPE x> <script>x",
    "$`x`$ $$y$$ $z$ {{ a }} {+ added +} {- gone -} {+x+}",
    "[^1]\n[^1]: note",
    ":tada: ::: warning",
    "x" * 9000,
]
LINES = st.one_of(
    st.sampled_from(KNOWN),
    st.sampled_from(HOSTILE),
    st.text(max_size=60),
    st.text(alphabet="<>![]()`~#*_-+|\\/@&$%^{}:=.\"' \t\n\u200b1aGH", max_size=30),
)
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=80))
SIZES = st.sampled_from([GitHub.most, GitLab.most, 1200])
TRIES = settings(max_examples=150)

ALLOWED = {
    *("paragraph", "inline", "heading", "text", "softbreak", "hardbreak", "strong", "html_block", "em"),
    *("bullet_list", "list_item", "table", "thead", "tbody", "tr", "th", "td"),
}
RULE = re.compile(r"[a-z0-9][a-z0-9-]*")
REFERENCES = (
    r"@\w",
    r"#\d",
    r"(?i)\bGH-\d",
    r"\b[A-Z][A-Z0-9]+-\d",
    r"!\d",
    r"(?<!\w)[~%&$^][\w\"]",
    r"\[\w",
    r"\[\[",
    r"://",
    r"(?i)www\.",
    r"\{[+-]",
)


def _post(path: Path, text: str, most: int = GitHub.most) -> str:
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return verdict_body("prod", path, most=most)


def _kind(token: Token) -> str:
    return token.type.removesuffix("_open").removesuffix("_close")


def _assert_inert(body: str) -> None:
    tokens = MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(body)
    inline = [child for token in tokens for child in token.children or ()]
    kinds = {_kind(token) for token in [*tokens, *inline]}
    assert kinds <= ALLOWED, kinds - ALLOWED
    blocks = [token.content.strip() for token in tokens if token.type == "html_block"]
    assert blocks[0] == FIRST
    depth = 0
    for block in blocks[1:]:
        if block == "</details>":
            depth -= 1
        else:
            title = re.fullmatch(r"<details>\n<summary>([\w ,:()-]+)</summary>", block)
            assert title is not None and title[1].startswith(FOLDED), block
            depth += 1
        assert depth in (0, 1)
    assert depth == 0
    headings = [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]
    assert headings[0] in {
        *(each.removeprefix("### ") for each in HEADINGS),
        "gpufleet check prod: no verdict",
    }
    assert len(headings) == len({*headings}) and {*headings[1:]} <= {"Fails", "Advice"}
    assert ("Fails" in headings) == ("**fail**" in headings[0])
    _assert_bold_is_ours(tokens)
    shown = " ".join(child.content for child in inline if child.type == "text")
    for pattern in REFERENCES:
        assert not re.search(pattern, shown), (pattern, re.search(pattern, shown))
    assert not re.search(r"^\s*/\w", body, re.MULTILINE)
    assert ACTING.search(body) is None


def _assert_bold_is_ours(tokens: list[Token]) -> None:
    for token in tokens:
        children = token.children or []
        for at, child in enumerate(children):
            if child.type == "em_open":
                assert token.content == "_Cut here: the files of the run have the whole verdict._"
            if child.type == "strong_open":
                text = children[at + 1].content
                assert text == "fail" or f"**{text}**" in SENTENCES or RULE.fullmatch(text), text


@TRIES
@given(st.lists(LINES, max_size=25), st.sampled_from(HEADINGS), SIZES)
def test_nothing_of_a_forged_file_survives_as_markup(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], heading: str, most: int
) -> None:
    listed = ["#### Fails"] if heading == HEADINGS[1] else []
    text = "\n".join([FIRST, heading, *listed, *lines])
    body = _post(tmp_path_factory.getbasetemp() / "forged.md", text, most)
    _assert_inert(body)
    assert len(body) <= most


@pytest.mark.parametrize("line", HOSTILE)
@pytest.mark.parametrize("around", ["{}", "- {}", "| {} | x |", "- a:1 **b** {}", "<summary>{}</summary>"])
def test_each_hostile_line_is_shown_as_text(tmp_path: Path, line: str, around: str) -> None:
    text = around.format(line)
    body = _post(tmp_path / "v.md", f"{FIRST}\n{HEADINGS[0]}\n\n{text}\n\n<details>\n{text}\n")
    _assert_inert(body)


@TRIES
@given(TEXTS)
def test_escaped_text_is_kept_and_reads_as_written(text: str) -> None:
    line = escaped(text)
    assert inert(line) == line
    assert escaped(unescaped(line)) == line


@TRIES
@given(st.lists(TEXTS, min_size=4, max_size=4))
def test_verdict_on_a_hostile_change_is_inert_and_posted_as_written(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    message, name, file, note = texts
    made = verdict(
        rule("closed-buckets", violated(message, name=name, file=file)),
        rule("b", note=note),
        warnings=(note,),
    )
    written = verdict_to_markdown(made)
    posted = _post(tmp_path_factory.getbasetemp() / "hostile.md", written)
    _assert_inert(posted)
    assert _visible_lines(posted) == _visible_lines(written)


def test_honest_verdicts_are_posted_as_written(tmp_path: Path) -> None:
    for made in (verdict(), verdict(rule("closed-buckets", violated())), verdict(base=None)):
        written = verdict_to_markdown(made)
        posted = _post(tmp_path / "v.md", written)
        assert _visible_lines(posted) == _visible_lines(written)
        _assert_inert(posted)


def test_second_heading_that_says_pass_is_text(tmp_path: Path) -> None:
    text = f"{FIRST}\n{HEADINGS[1]}\n\n#### Fails\n\n- a:1 **b** c: d\n\n{HEADINGS[0]}\n"
    body = _post(tmp_path / "v.md", text)
    assert body.count("\n### ") == 1
    assert HEADINGS[0] not in body.replace("\u200b###", "shown")


def test_very_long_line_is_cut(tmp_path: Path) -> None:
    body = _post(tmp_path / "v.md", f"{FIRST}\n{HEADINGS[0]}\n\n{'y' * 100_000}\n", GitLab.most)
    assert len(body) < 5000


def _visible_lines(text: str) -> list[str]:
    """The lines without invisible breaks and repeated spaces, which Markdown does not show."""
    lines = (" ".join(line.replace("\u200b", "").split()) for line in text.splitlines())
    return [line for line in lines if line]
