"""Property paths, ignored changes, and what forces a replacement."""

from __future__ import annotations

import pytest

from gpufleet.engine.embedded.diffs import (
    ResourceDiff,
    apply_replace_on_changes,
    compare_inputs,
    covers,
    ignore_changes,
    parse_path,
)
from gpufleet.engine.embedded.values import UNKNOWN, SecretValue


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", ("a",)),
        ("a.b[0].c", ("a", "b", 0, "c")),
        ('a["b.c"].d', ("a", "b.c", "d")),
        ('["x"][1]', ("x", 1)),
        ("a[*].b", ("a", "*", "b")),
        ('a["q\\"uote"]', ("a", 'q"uote')),
    ],
)
def test_property_paths_are_parsed_in_pulumi_syntax(text: str, path: tuple[str | int, ...]) -> None:
    assert parse_path(text) == path


@pytest.mark.parametrize("text", ["a[", "a[x]", '["open'])
def test_malformed_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="malformed"):
        parse_path(text)


def test_path_covers_itself_and_everything_below() -> None:
    assert covers(("a",), ("a", "b"))
    assert covers(("a", "*"), ("a", 3))
    assert not covers(("a", "b"), ("a",))
    assert not covers(("b",), ("a",))


def test_ignored_properties_keep_their_old_value_or_absence() -> None:
    old = {"size": 1, "deep": {"x": 1, "y": 1}, "list": [{"n": 1}, {"n": 2}], "removed": "r"}
    new = {"size": 2, "deep": {"x": 2, "y": 2}, "list": [{"n": 8}, {"n": 9}], "added": "a"}
    result = ignore_changes(new, old, ["size", "deep.x", "list[*].n", "added", "removed"])
    assert result == {"size": 1, "deep": {"x": 1, "y": 2}, "list": [{"n": 1}, {"n": 2}], "removed": "r"}
    assert new["size"] == 2
    assert new["deep"] == {"x": 2, "y": 2}


def test_unknown_value_beside_an_ignored_one_stays_unknown() -> None:
    inputs = {"size": {"desired": 4}, "template": {"version": UNKNOWN}}
    result = ignore_changes(inputs, {"size": {"desired": 2}}, ["size.desired"])
    assert result["size"] == {"desired": 2}
    assert result["template"]["version"] is UNKNOWN


def test_ignoring_everything_keeps_everything() -> None:
    assert ignore_changes({"a": 2, "b": 1}, {"a": 1}, ["*"]) == {"a": 1}


def test_inputs_are_compared_by_value_secret_or_not() -> None:
    assert compare_inputs({"a": SecretValue(1), "b": [1]}, {"a": 1, "b": [1]}) == ResourceDiff(changes=False)
    assert compare_inputs({"a": SecretValue(1)}, {"a": SecretValue(2), "b": 1}).changed_keys == ("a", "b")


def test_detailed_diff_can_force_a_replacement() -> None:
    diff = ResourceDiff(changes=True, detailed={"a.b": True, "c": False})
    assert diff.replaces
    assert diff.shown_keys() == ("a", "c")
    assert diff.shown_replace_keys() == ("a",)
    assert not ResourceDiff(changes=True, detailed={"c": False}).replaces


def test_replace_on_changes_covers_keys_paths_and_failed_initialization() -> None:
    change = ResourceDiff(changes=True, changed_keys=("a",), detailed={"b.c": False})
    assert apply_replace_on_changes(change, ["a"], init_errors=False).replace_keys == ("a",)
    assert apply_replace_on_changes(change, ["b"], init_errors=False).replace_keys == ("b",)
    assert apply_replace_on_changes(change, ["x"], init_errors=False).replace_keys == ()
    assert sorted(apply_replace_on_changes(change, ["*"], init_errors=False).replace_keys) == ["a", "b"]
    same = ResourceDiff(changes=False)
    assert apply_replace_on_changes(same, ["*"], init_errors=False) == same
    assert apply_replace_on_changes(same, ["#initerror"], init_errors=True).replaces
