"""Captures of real tools are found, and a test without them is skipped for the listed reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import captures, skips
from tests.gpu.mask import mask


def test_captures_are_read_from_the_named_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "INDEX.md").write_text("# captures\n")
    (tmp_path / "diag.json").write_text('{"version": "4"}')
    monkeypatch.setenv(captures.VARIABLE, str(tmp_path))
    assert captures.load_capture("diag.json") == {"version": "4"}
    with pytest.raises(AssertionError, match=r"has no ibstat\.txt"):
        captures.read_capture("ibstat.txt")


def test_captures_of_the_checkout_are_found_without_the_folder_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(captures.VARIABLE, str(tmp_path))
    assert captures.read_capture(f"{captures.H100}/L.txt").startswith("GPU 0: NVIDIA H100 80GB HBM3 (UUID: ")


def test_every_capture_of_the_checkout_is_listed_and_no_identity_is_left() -> None:
    index = (captures.OWN / "INDEX.md").read_text()
    for path in captures.OWN.glob("*/*"):
        assert path.name in index, f"INDEX.md does not list {path.name}"
        text = path.read_text()
        uuids = set(re.findall(r"GPU-([0-9a-f]{8})-", text))
        assert uuids <= {"00000000"}, f"{path} has the UUID of a GPU"
        serials = re.findall(r"<serial>(\d+)</serial>", text)
        assert all(each.startswith("1650000000") for each in serials), f"{path} has a serial number"


def test_identities_are_masked_the_same_everywhere() -> None:
    one, two = (f"GPU-{digit * 8}-1b11-4758-4602-591a7fd83f5c" for digit in "ab")
    found = mask(
        {
            "L.txt": f"GPU 0: X (UUID: {one})\nGPU 1: X (UUID: {two})\n",
            "q-x.xml": f"<uuid>{two}</uuid><serial>1752824024197</serial><pdi>0xfd1e4616d685af64</pdi>",
            "rows.csv": "1752824024197, /opt/app/python3",
            "version": "Release Build  (someone@host7)  ",
        },
        {"/opt/app/": "/usr/bin/"},
    )
    assert found["L.txt"].count("GPU-00000000-0000-0000-0000-00000000000") == 2
    assert found["q-x.xml"].startswith("<uuid>GPU-00000000-0000-0000-0000-000000000001</uuid><serial>165000")
    assert "fd1e" not in found["q-x.xml"] and found["version"] == "Release Build  (builder@)  "
    assert found["rows.csv"] == "1650000000000, /usr/bin/python3"


def test_without_captures_the_test_is_skipped_for_a_listed_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(captures.VARIABLE, str(tmp_path))
    with pytest.raises(pytest.skip.Exception) as skipped:
        captures.captures_folder()
    assert str(skipped.value).startswith(skips.listed_reasons(skips.README.read_text()))
