"""Between the Analyzer protocol and plain values."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import struct_pb2
from pulumi.runtime import rpc
from pulumi.runtime.proto import analyzer_pb2

from gpufleet.policy import wire
from gpufleet.resources.resource import UNKNOWN


def struct(values: dict[str, Any]) -> struct_pb2.Struct:
    made = struct_pb2.Struct()
    made.update(values)
    return made


def secret(value: Any) -> dict[str, Any]:
    return {wire.SIGNATURE: wire.SECRET, "value": value}


def output(**fields: Any) -> dict[str, Any]:
    return {wire.SIGNATURE: wire.OUTPUT, **fields}


def test_plain_values_are_unchanged_and_whole_numbers_are_integers() -> None:
    values = {"text": "a", "flag": True, "count": 3, "share": 0.5, "none": None, "list": [1, {"a": []}]}
    read = wire.properties(struct(values))
    assert read == values
    assert isinstance(read["count"], int)
    assert isinstance(read["flag"], bool)


def test_markers_equal_those_of_the_pulumi_sdk() -> None:
    assert rpc._special_sig_key == wire.SIGNATURE
    assert rpc._special_secret_sig == wire.SECRET
    assert rpc._special_output_value_sig == wire.OUTPUT
    assert rpc.UNKNOWN in wire.UNKNOWNS


@pytest.mark.parametrize("sentinel", sorted(wire.UNKNOWNS))
def test_every_kind_of_unknown_is_unknown_at_any_depth(sentinel: str) -> None:
    read = wire.properties(struct({"a": sentinel, "b": {"c": [sentinel, "known"]}}))
    assert read == {"a": UNKNOWN, "b": {"c": [UNKNOWN, "known"]}}


def test_rules_see_secrets_in_plaintext_and_their_paths() -> None:
    found: set[str] = set()
    read = wire.properties(struct({"a": secret("x"), "b": {"c": [1, secret({"d": "y"})]}}), found)
    assert read == {"a": "x", "b": {"c": [1, {"d": "y"}]}}
    assert found == {"a", "b.c[1]"}


def test_unknown_secret_is_both() -> None:
    found: set[str] = set()
    assert wire.properties(struct({"a": secret(wire.UNKNOWN_STRING)}), found) == {"a": UNKNOWN}
    assert found == {"a"}


def test_output_values_keep_value_unknown_and_secret() -> None:
    found: set[str] = set()
    fields = {
        "known": output(value="x", dependencies=["urn:a"]),
        "unknown": output(),
        "secret": output(value="y", secret=True),
        "open": output(value="z", secret=False),
    }
    assert wire.properties(struct(fields), found) == {
        "known": "x",
        "unknown": UNKNOWN,
        "secret": "y",
        "open": "z",
    }
    assert found == {"secret"}


def test_assets_and_archives_are_objects_without_their_marker() -> None:
    asset = {wire.SIGNATURE: "c44067f5952c0a294b673a41bacd8c17", "text": "hello", "hash": "h"}
    archive = {wire.SIGNATURE: "0def7320c3a5731c473e5ecbe6d01bc7", "assets": {"a": asset}}
    read = wire.properties(struct({"a": asset, "b": archive}))
    assert read == {
        "a": {"text": "hello", "hash": "h"},
        "b": {"assets": {"a": {"text": "hello", "hash": "h"}}},
    }


def test_written_values_round_trip_with_secrets_and_unknowns() -> None:
    into = struct_pb2.Struct()
    tags = {"team": "ml", "token": "t0ken", "later": UNKNOWN, "list": [1, 2.5, None, True, {"x": "y"}]}
    wire.write(into, "tags", tags, frozenset({"tags.token"}))
    found: set[str] = set()
    assert wire.properties(into, found) == {"tags": tags}
    assert found == {"tags.token"}
    token = into.fields["tags"].struct_value.fields["token"].struct_value.fields
    assert token[wire.SIGNATURE].string_value == wire.SECRET


def test_value_written_to_a_secret_property_stays_secret() -> None:
    into = struct_pb2.Struct()
    wire.write(into, "password", "new", frozenset({"password"}))
    wire.write(into, "empty", {}, frozenset())
    wire.write(into, "none", [], frozenset())
    found: set[str] = set()
    assert wire.properties(into, found) == {"password": "new", "empty": {}, "none": []}
    assert found == {"password"}


def request(**properties: Any) -> analyzer_pb2.AnalyzeRequest:
    made = analyzer_pb2.AnalyzeRequest(type="aws:x/y:Y", name="n", urn="urn:n", properties=struct(properties))
    made.options.protect = True
    made.options.ignoreChanges.append("tags")
    made.options.aliases.append("urn:old")
    made.options.parent = "urn:parent"
    made.provider.type = "pulumi:providers:aws"
    made.provider.properties.update({"region": "us-east-1"})
    return made


def test_resource_has_its_options_and_provider() -> None:
    read = wire.resource(request(size=1, key=secret("k")))
    assert (read.type, read.name, read.urn, read.parent) == ("aws:x/y:Y", "n", "urn:n", "urn:parent")
    assert read.options.protect
    assert read.options.ignore_changes == ("tags",)
    assert read.options.aliases == ("urn:old",)
    assert read.options.delete_before_replace is None
    assert read.provider is not None
    assert read.provider.props == {"region": "us-east-1"}
    assert read.secrets == {"key"}
    assert read.inputs == read.props == {"size": 1, "key": "k"}


def test_stack_resource_merges_inputs_over_outputs() -> None:
    declared = wire.resource(request(size=1, password=secret("k")))
    made = analyzer_pb2.AnalyzerResource(
        type="aws:x/y:Y", name="n", urn="urn:n", parent="urn:p", properties=struct({"size": 2, "id": "i"})
    )
    made.dependencies.append("urn:a")
    made.propertyDependencies["size"].urns.append("urn:b")
    read = wire.resource(made, declared)
    assert read.props == {"size": 1, "id": "i", "password": "k"}
    assert read.inputs == {"size": 1, "password": "k"}
    assert read.dependencies == ("urn:a",)
    assert read.property_dependencies == {"size": ("urn:b",)}
    assert read.show("password") == "[secret]", "a secret input that no output repeats stays secret"
    assert read.provider is None
