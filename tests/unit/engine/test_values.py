"""Property values on the wire and in memory."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format, struct_pb2

from gpufleet.engine.api import SECRET
from gpufleet.engine.api import UNKNOWN as SHOWN
from gpufleet.engine.embedded import values
from gpufleet.engine.embedded.values import UNKNOWN, ResourceRef, SecretValue
from gpufleet.engine.errors import UnsupportedError


def message(data: dict[str, Any]) -> struct_pb2.Struct:
    return json_format.ParseDict(data, struct_pb2.Struct())


PLAIN: dict[str, Any] = {
    "text": "x", "int": 3, "float": 2.5, "yes": True, "no": False, "null": None,
    "list": [1, "a", [None]], "object": {"deep": {"empty": {}, "none": []}},
}  # fmt: skip


def test_plain_values_survive_serialization() -> None:
    decoded = values.decode(values.encode(PLAIN))
    assert decoded == PLAIN
    assert type(decoded["int"]) is int
    assert type(decoded["float"]) is float
    assert type(decoded["yes"]) is bool


def test_secrets_unknowns_and_references_survive_serialization() -> None:
    given = {
        "secret": SecretValue({"inner": [1, "two"]}),
        "unknown": UNKNOWN,
        "ref": ResourceRef("urn:pulumi:a::b::c:d:E::f", "id-1", "1.2.3"),
        "component": ResourceRef("urn:pulumi:a::b::c:d:E::f"),
        "list": [SecretValue(UNKNOWN), ResourceRef("urn:x", UNKNOWN)],
    }
    assert values.decode(values.encode(given)) == given


def test_receiver_without_support_gets_plain_values() -> None:
    given = {
        "s": SecretValue([SecretValue("x")]),
        "r": ResourceRef("urn:x", "id-1"),
        "c": ResourceRef("urn:x"),
    }
    sent = values.encode(given, secrets=False, resources=False)
    assert json_format.MessageToDict(sent) == {"s": ["x"], "r": "id-1", "c": "urn:x"}


def test_output_values_become_their_parts_with_dependencies() -> None:
    def output(**fields: Any) -> dict[str, Any]:
        return {values.SIG_KEY: values.OUTPUT_SIG, **fields}

    found: dict[str, set[str]] = {}
    decoded = values.decode(
        message(
            {
                "known": output(value="v", dependencies=["urn:a"]),
                "secret": output(value="v", secret=True),
                "unknown": output(dependencies=["urn:b"]),
                "deep": {"list": [output(value=1, dependencies=["urn:a", "urn:c"])]},
            }
        ),
        found,
    )
    assert decoded == {"known": "v", "secret": SecretValue("v"), "unknown": UNKNOWN, "deep": {"list": [1]}}
    assert found == {"known": {"urn:a"}, "unknown": {"urn:b"}, "deep": {"urn:a", "urn:c"}}


def test_every_kind_of_unknown_is_recognized_and_plain_text_is_not() -> None:
    for wire in values._UNKNOWN_WIRES:
        assert values.decode(message({"x": wire})) == {"x": UNKNOWN}
    assert values.decode(message({"x": "04da6b54"})) == {"x": "04da6b54"}


def test_assets_of_a_program_get_the_digest_of_their_content(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"content")
    sig = {values.SIG_KEY: values.ASSET_SIG}
    given = values.decode(message({"t": {**sig, "text": "content"}, "p": [{**sig, "path": str(file)}]}))
    given["s"] = SecretValue(
        {values.SIG_KEY: values.ARCHIVE_SIG, "assets": {"a": given["t"], "b": given["p"][0]}}
    )
    # As a provider returned them they stay: the CLI adds no hash to those either.
    assert "hash" not in given["t"]
    found = values.with_hashes(given)
    digest = hashlib.sha256(b"content").hexdigest()
    assert found["t"]["hash"] == found["p"][0]["hash"] == digest
    assert found["s"].value["assets"]["b"]["hash"] == digest and found["s"].value["hash"] != digest
    # What a provider only compares goes to it as hashes.
    sent = values.decode(values.encode(found, contents=False))
    assert sent["t"] == {**sig, "hash": digest}
    assert sent["s"].value == {**found["s"].value, "assets": {}}
    with pytest.raises(UnsupportedError, match="remote asset"):
        values.with_hashes(values.decode(message({"u": {**sig, "uri": "https://example.com"}})))


def test_secrets_are_shown_only_on_request() -> None:
    given = {
        "s": SecretValue({"a": "hunter2"}),
        "u": UNKNOWN,
        "l": [SecretValue(1)],
        "r": ResourceRef("urn:x", "i"),
    }
    assert values.present(given) == {"s": SECRET, "u": SHOWN, "l": [SECRET], "r": "i"}
    assert values.present(given, show_secrets=True)["s"] == {"a": "hunter2"}
    assert "hunter2" not in repr(given)


def test_contains_searches_nested_values() -> None:
    assert values.contains_secret({"a": [{"b": SecretValue(1)}]})
    assert not values.contains_secret({"a": [{"b": 1}]})
    assert values.contains_unknown(SecretValue([{"x": UNKNOWN}]))
    assert values.contains_unknown(ResourceRef("urn:x", UNKNOWN))
    assert not values.contains_unknown({"a": [None, "x"]})


def test_secret_mark_is_kept_for_providers_that_drop_it() -> None:
    outputs = {"p": "x", "deep": {"q": "y", "z": 1}, "other": 1, "list": ["a"]}
    given = {
        "p": SecretValue("x"),
        "deep": {"q": SecretValue("y")},
        "list": [SecretValue("a")],
        "gone": SecretValue(1),
    }
    values.keep_secrets_of(outputs, given)
    assert outputs == {
        "p": SecretValue("x"), "deep": {"q": SecretValue("y"), "z": 1},
        "other": 1, "list": SecretValue(["a"]),
    }  # fmt: skip
