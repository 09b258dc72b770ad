"""A resource as rules see it."""

from __future__ import annotations

import pytest

from gpufleet.resources.resource import UNKNOWN, Resource, holds_unknown, is_unknown, shown
from tests.unit.policy.samples import box, ignoring


def test_path_selects_in_objects_and_lists() -> None:
    made = box(options={"tokens": "required", "hops": [1, 2]}, ids=["a", "b"])
    assert made.get("options.tokens") == "required"
    assert made.get("options.hops[1]") == 2
    assert made.get("ids[0]") == "a"


def test_missing_and_null_values_give_the_default() -> None:
    made = box(options={"tokens": None}, ids=["a"])
    for path in ("other", "options.tokens", "options.other", "ids[1]", "ids.name", "options.tokens.deeper"):
        assert made.get(path) is None, path
        assert made.get(path, "default") == "default", path


def test_false_and_zero_are_values_and_not_the_default() -> None:
    made = box(flag=False, count=0, text="")
    assert made.get("flag", True) is False
    assert made.get("count", 5) == 0
    assert made.get("text", "default") == ""


def test_everything_below_an_unknown_value_is_unknown() -> None:
    made = box(tags=UNKNOWN, known={"ids": [UNKNOWN, "b"]})
    assert is_unknown(made.get("tags.team"))
    assert is_unknown(made.get("known.ids[0].deeper"))
    assert made.get("known.ids[1]") == "b"


def test_unknown_value_is_neither_true_nor_false() -> None:
    with pytest.raises(TypeError, match="is_unknown"):
        bool(UNKNOWN)
    assert not is_unknown({"a": UNKNOWN})
    assert holds_unknown({"a": [1, (2, UNKNOWN)]})
    assert not holds_unknown({"a": [1, "UNKNOWN", None]})


def test_list_items_have_their_paths() -> None:
    made = box(rules=[{"port": 1}, UNKNOWN], one={"port": 2}, text="abc", all=UNKNOWN)
    assert list(made.items("rules")) == [("rules[0]", {"port": 1}), ("rules[1]", UNKNOWN)]
    assert list(made.items("one")) == [("one", {"port": 2})]
    assert list(made.items("text")) == [("text", "abc")]
    assert list(made.items("all")) == [("all", UNKNOWN)]
    assert list(made.items("none")) == []


@pytest.mark.parametrize(
    "path", ["tags", "*", "tags.team", 'tags["team"]', '["tags"]["team"]', '["tags"]', "tags.*"]
)
def test_ignored_property_matches_in_any_path_syntax(path: str) -> None:
    assert ignoring(path).ignores("tags")
    assert ignoring(path).ignores("tags.team")


def test_list_can_be_ignored_as_a_whole_by_index_and_by_wildcard() -> None:
    for path in ("rules", "rules[0]", "rules[*].port", "rules[0].port"):
        assert ignoring(path).ignores("rules[0].port"), path
    assert not ignoring("rules[1].port").ignores("rules[0].port")


def test_other_properties_are_not_ignored() -> None:
    for path in ("tagsAll", "tag", "options.tags", ""):
        if path:
            assert not ignoring(path).ignores("tags"), path
    assert not ignoring().ignores("tags")
    assert not ignoring("tags.other").ignores("tags.team")


def test_secrets_and_their_containers_are_not_printed() -> None:
    made = Resource(
        "t",
        "n",
        "u",
        {"password": "hunter2", "user": {"token": "t0ken", "name": "ada"}},
        secrets=frozenset({"password", "user.token"}),
    )
    assert made.show("password") == "[secret]"
    assert made.show("user.token") == "[secret]"
    assert made.show("user") == "[holds a secret]"
    assert made.show("user.name") == "'ada'"


def test_values_are_printed_as_in_messages_within_one_line() -> None:
    assert shown(None) == "not set"
    assert shown(UNKNOWN) == "not known yet"
    assert shown(True) == "true"
    assert shown(2.0) == "2"
    assert shown(2.5) == "2.5"
    assert shown("gp3") == "'gp3'"
    assert len(shown("x" * 500)) == 80
