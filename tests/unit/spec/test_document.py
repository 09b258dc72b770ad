"""Invalid files: refused before anything uses them, with a place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpufleet.errors import ExitCode, InputError, SpecError
from gpufleet.spec.document import LARGEST_BYTES, MOST_TABS_SHOWN
from gpufleet.spec.load import load_fleet
from tests.unit.spec.samples import VALID, Checkout


def test_valid_file_has_no_finding(checkout: Checkout) -> None:
    assert checkout.load(VALID).spec.fleet == "atlas"


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n", "~\n", "null\n"])
def test_empty_file_is_reported_as_empty(checkout: Checkout, text: str) -> None:
    finding = checkout.only(text)
    assert finding.rule == "file-empty"
    assert "gpufleet init" in finding.remedy


@pytest.mark.parametrize("text", ["- a\n- b\n", "just words\n", "42\n"])
def test_file_without_fields_is_reported(checkout: Checkout, text: str) -> None:
    assert checkout.only(text).rule == "not-a-mapping"


def test_file_of_ten_megabytes_is_refused_with_its_size_and_the_limit(checkout: Checkout) -> None:
    finding = checkout.only("a" * 10_000_000)
    assert finding.rule == "file-too-large"
    assert "10,000,000" in finding.message
    assert f"{LARGEST_BYTES:,}" in finding.message


def test_file_just_below_the_limit_is_read(checkout: Checkout) -> None:
    comment = "# " + "x" * (LARGEST_BYTES - len(VALID) - 3) + "\n"
    assert checkout.load(VALID + comment).spec.environment == "demo"


def test_tabs_are_found_on_every_line(checkout: Checkout) -> None:
    found = checkout.findings("cloud:\n\t- site: a\n  \tregion: b\nfleet: x\ty\n")
    assert [(each.rule, each.line) for each in found] == [("yaml-tab", 2), ("yaml-tab", 3)]
    assert all("spaces" in each.remedy for each in found)


def test_tab_after_the_indentation_is_no_finding(checkout: Checkout) -> None:
    assert checkout.load(VALID.replace("fleet: atlas", "fleet:\tatlas\t# comment")).spec.fleet == "atlas"


def test_number_of_findings_in_a_file_full_of_tabs_is_limited(checkout: Checkout) -> None:
    assert len(checkout.findings("\ta: 1\n" * 100_000)) == MOST_TABS_SHOWN


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"a: 1\nb: \x00\n", 2),
        (b"a: \x1b[31m\n", 1),
        (VALID.encode("utf-16"), 1),
        (b"a: 1\n\nb: \xff\n", 3),
        (b"\x80", 1),
        (b"\x1f\x8b\x08\x00gzip", 1),
    ],
)
def test_binary_file_is_refused_with_its_line(checkout: Checkout, data: bytes, line: int) -> None:
    finding = checkout.only(data)
    assert finding.rule == "file-encoding"
    assert finding.line == line


def test_byte_order_mark_and_windows_line_ends_are_accepted(checkout: Checkout) -> None:
    loaded = checkout.load(b"\xef\xbb\xbf" + VALID.replace("\n", "\r\n").encode())
    assert loaded.source.at("cloud[0].region")[1] == 8


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: c: d\n", 2, "quotes"),
        ("a: [1, 2\nb: 3\n", 2, "close it"),
        ("a: {b: 1\n", 1, "close it"),
        ("a:\n  - x\n b: 2\n", 3, "line it up"),
        ("a: 'x\nb: 1\n", 2, "quote"),
        ("a: @x\n", 1, "quotes"),
        ('a: "\\q"\n', 1, "single quotes"),
        ("- a\nb: 1\n", 2, "line the '-' up"),
        ("a: 1\nb\n", 2, "':'"),
        ("{a: 1}}\n", 1, "brackets"),
    ],
)
def test_syntax_error_has_its_line_and_a_remedy(checkout: Checkout, text: str, line: int, words: str) -> None:
    finding = checkout.only(text)
    assert finding.rule == "yaml-syntax"
    assert finding.line == line
    assert words in f"{finding.message} {finding.remedy}"
    assert finding.value in text


@pytest.mark.parametrize(
    "target", [".", "stacks", "/dev/zero", "stacks/none/fleet.yaml", "a\0b.yaml", "x" * 5000 + ".yaml"]
)
def test_path_that_is_not_a_file_is_bad_input(checkout: Checkout, target: str) -> None:
    checkout.write(VALID)
    with pytest.raises(InputError) as caught:
        load_fleet(target if target.startswith("/") else f"{checkout.root}/{target}", root=checkout.root)
    assert caught.value.exit_code is ExitCode.BAD_INPUT
    assert caught.value.remedy


def test_pipe_is_refused_without_waiting(checkout: Checkout, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="not a regular file"):
        load_fleet(str(pipe), root=tmp_path)


def test_file_that_grows_while_it_is_read_is_limited() -> None:
    # /proc files say they are empty and hold more.
    with pytest.raises((SpecError, InputError)):
        load_fleet("/proc/self/environ", root=Path("/"))
