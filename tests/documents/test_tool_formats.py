"""The page of formats is current, and each capture on it is genuine and read by a test."""

from __future__ import annotations

from pathlib import Path

from tests.captures import OWN, ROOT, captures_folder
from tests.documents.tool_formats import FORMATS, reference

ALL = [item for formats in FORMATS.values() for item in formats]
LISTED = sorted({name for item in ALL for name in item.captures})


def test_the_page_is_current() -> None:
    page = (ROOT / "docs/reference/tool_formats.md").read_text(encoding="utf-8")
    assert page == reference(), "run `make docs`"


def test_each_output_has_a_reader_and_says_what_is_compared_or_not() -> None:
    assert [item.output for item in ALL if not (ROOT / item.read_by).is_file()] == []
    assert [item.output for item in ALL if not item.captures and not item.not_compared] == []


def test_each_listed_capture_is_read_by_a_test() -> None:
    sources = "".join(
        path.read_text(encoding="utf-8")
        for path in ROOT.glob("tests/**/test_*.py")
        if "read_capture" in (text := path.read_text(encoding="utf-8")) or "_capture(" in text
    )
    # Tests of the checkout's own captures name the folder by a constant or parameter.
    words = {name: Path(name).name if (OWN / name).is_file() else f'"{name}"' for name in LISTED}
    assert [name for name, word in words.items() if word not in sources] == []


def test_each_listed_capture_is_genuine() -> None:
    index = (captures_folder() / "INDEX.md").read_text(encoding="utf-8")
    rows = {cells[1].strip(): cells[-2] for line in index.splitlines() if len(cells := line.split("|")) == 9}
    for line in (OWN / "INDEX.md").read_text(encoding="utf-8").splitlines():
        if len(cells := line.split("|")) == 6:
            rows |= {f"{path.parent.name}/{path.name}": cells[-2] for file in cells[1].split(",")
                     for path in OWN.glob(f"*/{file.strip()}")}  # fmt: skip
    doubtful = ("doubtful", "synthetic", "edited from", "likely")
    assert [name for name in LISTED if any(word in rows.get(name, "doubtful") for word in doubtful)] == []


def test_each_stand_in_of_the_racks_is_listed() -> None:
    # These print nothing in the name of a tool: they lay files out, mount, or hold the state.
    silent = {"disks.py", "plug.py", "remote_mount.py", "state.py"}
    there = {path.name for path in (ROOT / "tests/rack/kit/hardware").glob("*.py")} - silent
    assert there == {name.name for item in ALL if (name := Path(item.read_by)).match("hardware/*.py")}
