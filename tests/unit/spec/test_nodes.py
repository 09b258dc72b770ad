"""The YAML reader: bombs, duplicate keys, tags, documents, and values that stay text."""

from __future__ import annotations

import pytest

from gpufleet.spec.nodes import DEEPEST, MOST_VALUES, Unreadable, compose
from tests.unit.spec.samples import VALID, Checkout

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 30)
)
MERGE_BOMB = "m0: &m0 {k0: 1}\n" + "".join(
    f"m{level}: &m{level} {{<<: *m{level - 1}, a: *m{level - 1}, b: *m{level - 1}, c: *m{level - 1}}}\n"
    for level in range(1, 40)
)


def plain(text: str) -> object:
    root, findings = compose(text, "f.yaml")
    assert not findings
    assert root is not None
    return root.node.plain()


# Every merge copies: the sum counts, not the size of one mapping.
COPIES = "a: &a {" + ", ".join(f"k{key}: 1" for key in range(20_000)) + "}\n"
COPIES += "".join(f"b{copy}: {{<<: *a}}\n" for copy in range(20_000))


@pytest.mark.parametrize("text", [BOMB, MERGE_BOMB, COPIES])
def test_yaml_bomb_is_refused_where_it_grows(checkout: Checkout, text: str) -> None:
    finding = checkout.only(text)
    assert finding.rule == "yaml-size"
    assert 1 < finding.line < 20
    assert "alias" in finding.remedy


def test_ordinary_aliases_are_accepted(checkout: Checkout) -> None:
    text = VALID.replace("zones: [us-east-1a]", "zones: &zones [us-east-1a]").replace(
        "instance_types: [g6.xlarge]", "instance_types: [g6.xlarge]\n        zones: *zones"
    )
    loaded = checkout.load(text)
    assert loaded.spec.cloud[0].node_groups[0].zones == ("us-east-1a",)
    assert loaded.source.at("cloud[0].node_groups[0].zones")[1] == 15


@pytest.mark.parametrize(
    "text", ["[" * 500_000, "{a: " * 100_000, "- " * 100_000 + "x", "a: " + "[" * (DEEPEST + 1)]
)
def test_deep_nesting_is_refused_without_recursion_errors(text: str) -> None:
    with pytest.raises(Unreadable) as caught:
        compose(text, "f.yaml")
    assert caught.value.finding.rule in {"yaml-nesting", "yaml-syntax"}


def test_too_many_values_are_refused() -> None:
    with pytest.raises(Unreadable) as caught:
        compose("-\n" * (MOST_VALUES + 1), "f.yaml")
    assert caught.value.finding.rule == "yaml-size"


@pytest.mark.parametrize("text", ["a: *nowhere\n", "a: &a [*a]\n", "a: &a {b: *a}\n", "*a : 1\n"])
def test_alias_of_an_incomplete_node_is_refused(checkout: Checkout, text: str) -> None:
    assert checkout.only(text).rule in {"yaml-alias", "yaml-key"}


def test_duplicate_keys_are_reported_with_both_lines_and_other_errors(checkout: Checkout) -> None:
    text = VALID.replace("    region: us-east-1\n", "    region: us-east-1\n    region: us-east-2\n").replace(
        "max: 2", "max: many"
    )
    duplicate, other = checkout.findings(text)
    assert duplicate.rule == "duplicate-key"
    assert duplicate.field == "cloud[0].region"
    assert (duplicate.line, duplicate.value) == (9, "us-east-2")
    assert "line 8" in duplicate.message
    assert "line 9" in duplicate.message
    assert other.field == "cloud[0].node_groups[0].capacity.on_demand.max"


def test_duplicate_key_in_a_flow_mapping_is_found(checkout: Checkout) -> None:
    finding = checkout.changed("{on_demand: {min: 1, max: 2}}", "{on_demand: {min: 1, max: 2, min: 1}}")
    assert (finding.rule, finding.field) == (
        "duplicate-key",
        "cloud[0].node_groups[0].capacity.on_demand.min",
    )


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system", "!secret", "!!binary", "!!set", "!<x>"])
def test_tag_is_refused_and_never_executed(checkout: Checkout, tag: str) -> None:
    finding = checkout.changed("region: us-east-1\n", f"region: {tag} us-east-1\n")
    assert finding.rule == "yaml-tag"
    assert finding.line == 8


def test_second_document_is_refused(checkout: Checkout) -> None:
    finding = checkout.only(VALID + "---\nfleet: other\n")
    assert finding.rule == "yaml-documents"
    assert finding.line == VALID.count("\n") + 1


def test_scalars_stay_text_until_a_field_parses_them() -> None:
    assert plain("{a: 1.30, b: no, c: 0123, d: 2031-05-01, e: 1e3, f: 'null', g: \"\"}") == {
        "a": "1.30",
        "b": "no",
        "c": "0123",
        "d": "2031-05-01",
        "e": "1e3",
        "f": "null",
        "g": "",
    }


@pytest.mark.parametrize("text", ["a:", "a: ~", "a: null", "a: Null", "{a: }"])
def test_only_an_empty_plain_scalar_is_null(text: str) -> None:
    assert plain(text) == {"a": None}


def test_merge_keys_add_keys_that_a_mapping_does_not_set() -> None:
    anchors = "base: &b {x: 1, y: 2}\nother: &o {y: 3, z: 4}\n"
    data = plain(anchors + "one: {<<: *b, y: 9}\ntwo: {<<: [*o, *b]}\n'<<': text\n")
    assert isinstance(data, dict)
    assert data["one"] == {"y": "9", "x": "1"}
    assert data["two"] == {"y": "3", "z": "4", "x": "1"}
    assert data["<<"] == "text"


@pytest.mark.parametrize("text", ["a: {<<: 1}", "a: {<<: [1]}", "? [a, b]\n: 1\n", "? {a: 1}\n: 1\n"])
def test_keys_and_merges_of_the_wrong_kind_are_refused(checkout: Checkout, text: str) -> None:
    assert checkout.only(text).rule in {"yaml-key", "yaml-merge"}


@pytest.mark.parametrize(("word", "value"), [("true", True), ("False", False)])
def test_booleans_are_those_of_yaml_1_2(checkout: Checkout, word: str, value: bool) -> None:
    text = VALID.replace("name: serve\n", f"name: serve\n        public_ip: {word}\n")
    assert checkout.load(text).spec.cloud[0].node_groups[0].public_ip is value


@pytest.mark.parametrize("word", ["yes", "no", "on", "off", "1", "y"])
def test_other_words_are_not_booleans(checkout: Checkout, word: str) -> None:
    finding = checkout.changed("name: serve\n", f"name: serve\n        public_ip: {word}\n")
    assert (finding.rule, finding.value) == ("wrong-type", word)
    assert "true or false" in finding.message


def test_versions_tags_and_labels_keep_their_spelling(checkout: Checkout) -> None:
    spec = checkout.load(VALID).spec
    assert spec.software.channel == "2026.10"
    assert spec.cloud[0].kubernetes is not None
    assert spec.cloud[0].kubernetes.version == "1.30"
    assert spec.tags["cost-center"] == "4711"
    assert spec.cloud[0].node_groups[0].labels == {"nvidia.com/gpu": "true"}
