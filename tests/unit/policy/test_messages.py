"""Messages have no secrets and no terminal control characters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

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
def test_no_rule_can_print_a_secret_value(value: Any) -> None:
    (found,) = judge(careless).resource(secret("value", value=value))
    assert "[secret]" in found.message
    for part in ("hunter22", "quoted", "8675309", "PRIVATE KEY"):
        assert part not in found.message


def test_values_that_are_not_secret_are_kept() -> None:
    (found,) = judge(careless).resource(secret("other", value="plain words", other="hunter22"))
    assert "plain words" in found.message


def test_secret_under_a_key_with_dots_is_found() -> None:
    assert Secrets([secret("labels.a.b/c", labels={"a.b/c": "hunter22"})]).hidden("it is hunter22") == (
        "it is [secret]"
    )


def test_truncated_secret_is_masked() -> None:
    reported = Secrets([secret("value", value=LONG)]).hidden(f"value is {repr(LONG)[:77]}...")
    assert reported == "value is '[secret]..."


def test_common_words_are_not_masked_as_secrets() -> None:
    assert Secrets([secret("value", value="true")]).hidden("set it to true") == "set it to true"


@pytest.mark.parametrize("text", ["\x1b[2Jgone", "one\ntwo", "back\u202e\u2066wards", "bell\x07", "\x9b31m"])
def test_terminal_control_characters_are_escaped(text: str) -> None:
    reported = printable(text)
    assert reported.isprintable()
    assert "\\" in reported


def test_non_ascii_text_is_kept() -> None:
    assert printable("größer als 東京 · ✓") == "größer als 東京 · ✓"


def test_exception_in_a_stack_rule_is_not_covered_by_an_exemption() -> None:
    from gpufleet.policy.rule import stack_rule

    @stack_rule("breaks", types=(BOX,), **metadata())
    def breaks(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
        raise ValueError("no")
        yield

    granted = (exemption(rule="breaks", resource="stack"),)
    (found,) = judge(breaks, exemptions=granted).stack(Stack([box()]))
    assert found.level == "mandatory"
