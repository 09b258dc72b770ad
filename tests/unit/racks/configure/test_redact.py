"""Secrets are removed from output and files in every encoding."""

from __future__ import annotations

import base64
import json

import pytest

from gpufleet.racks.configure.redact import MARK, Redactor

SECRET = 'k3y-with-"quotes"-and-\\-backslash-0123456789'


@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "user:"])
@pytest.mark.parametrize("after", ["", "\n", "xy"])
def test_base64_of_a_secret_is_found_at_any_offset(before, after):
    encoded = base64.b64encode(f"{before}{SECRET}{after}".encode()).decode()
    reported = Redactor([SECRET]).text(f"payload {encoded}")
    assert MARK in reported
    # At most two letters of the secret are left at the ends.
    assert len(reported) < len("payload ") + len(MARK) + len(before) * 2 + 16


def test_secret_is_found_in_json_and_mapping_keys():
    redactor = Redactor([SECRET])
    value = {"a": [SECRET, {"b": f"x{SECRET}y"}], SECRET: 1, "n": None, "t": (SECRET,)}
    reported = json.dumps(redactor.value(value))
    assert SECRET not in reported
    assert json.dumps(SECRET)[1:-1] not in reported
    assert redactor.text(json.dumps({"k": SECRET})) == json.dumps({"k": MARK})


def test_ordinary_text_is_kept():
    value = {"a": ["plain", 1, True, None, 2.5]}
    assert Redactor([SECRET]).value(value) == value
    assert Redactor([]).text("anything") == "anything"


def test_short_value_is_not_masked_inside_words():
    assert Redactor(["on", ""]).text("on and on") == "on and on"
