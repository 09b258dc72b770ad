"""What goes out in messages: no secret, and nothing that a terminal obeys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gpufleet.policy.context import RuleContext
from gpufleet.policy.messages import Secrets, printable
from gpufleet.policy.rule import Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack
from tests.unit.policy.samples import BOX, box, exemption, judge, metadata

LONG = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC" + "x9" * 60


def secret(*paths: str, **props: Any) -> Resource:
    return replace(box(), props=props, inputs=props, secrets=frozenset(paths))


@resource_rule("careless", types=(BOX,), **metadata())
def careless(resource: Resource, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Writes a value without asking whether it is a secret, or breaks by it."""
    value = resource.props["value"]
    yield Violation(f"value is {value!r}", f"not {value}")
    raise ValueError(f"cannot read {value}")


@pytest.mark.parametrize("value", ["hunter22", 'it\'s "quoted"', 8675309, LONG, {"inner": ["hunter22"]}])
def test_no_rule_can_write_a_secret_value(value: Any) -> None:
    (found,) = judge(careless).resource(secret("value", value=value))
    assert "[secret]" in found.message
    for part in ("hunter22", "quoted", "8675309", "PRIVATE KEY"):
        assert part not in found.message


def test_values_that_are_no_secrets_stay() -> None:
    (found,) = judge(careless).resource(secret("other", value="plain words", other="hunter22"))
    assert "plain words" in found.message


def test_a_secret_under_a_key_with_dots_is_found() -> None:
    assert Secrets([secret("labels.a.b/c", labels={"a.b/c": "hunter22"})]).hidden("it is hunter22") == (
        "it is [secret]"
    )


def test_a_secret_that_a_message_cuts_off_is_hidden_as_far_as_it_goes() -> None:
    told = Secrets([secret("value", value=LONG)]).hidden(f"value is {repr(LONG)[:77]}...")
    assert told == "value is '[secret]..."


def test_words_that_anything_may_be_are_not_taken_for_secrets() -> None:
    assert Secrets([secret("value", value="true")]).hidden("set it to true") == "set it to true"


@pytest.mark.parametrize("text", ["\x1b[2Jgone", "one\ntwo", "back\u202e\u2066wards", "bell\x07", "\x9b31m"])
def test_what_a_terminal_obeys_is_written_out(text: str) -> None:
    told = printable(text)
    assert told.isprintable()
    assert "\\" in told


def test_words_of_any_language_stay() -> None:
    assert printable("größer als 東京 · ✓") == "größer als 東京 · ✓"


def test_a_rule_that_breaks_over_the_stack_is_not_excused_by_an_exemption_of_it() -> None:
    from gpufleet.policy.rule import stack_rule

    @stack_rule("breaks", types=(BOX,), **metadata())
    def breaks(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
        raise ValueError("no")
        yield

    granted = (exemption(rule="breaks", resource="stack"),)
    (found,) = judge(breaks, exemptions=granted).stack(Stack([box()]))
    assert found.level == "mandatory"
