"""Hostile text: whatever text field of the fleet file holds it, a finding refuses it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

from gpufleet.spec.fields import PATTERNS
from gpufleet.spec.models import FleetSpec
from gpufleet.spec.paths import field_path
from tests.unit.spec.samples import VALID, Checkout

Path = tuple[str | int, ...]

INSIDE = {
    "newline": "\nx",
    "NUL": "\x00",
    "escape": "\x1b[31m",
    "C1 control": "\x9b",
    "direction": "\u202ex",
    "semicolon": "; id",
    "command": "$(id)",
    "backtick": "`id`",
    "single quote": "' x",
    "double quote": '" x',
    "template": "{{ lookup('pipe', 'id') }}",
    "block": "{% raw %}",
    "pipe": "| id",
    "long": "x" * 5000,
}
"""Refused wherever it stands in a value."""

WHOLE = {
    **INSIDE,
    "newline": "x\n-y",
    "option": "-oProxyCommand=id",
    "user and command": "root; id",
    "parent": "../../etc/passwd",
    "blank in front": " -x",
}
"""Refused as a whole value."""

CONTROL = {"newline", "NUL", "escape", "C1 control", "direction", "long"}

FREE = {
    "exemptions[].reason": "people read it in verdicts, and nothing else gets it",
    "exemptions[].approver": "people read it in verdicts, and nothing else gets it",
}
"""Text that only people read: one line without control characters, and nothing more is asked of it."""

JUDGED_ELSEWHERE = {
    "policies{}.settings{}": "a rule's settings have the types that it declares, and it judges them"
}

SCRIPTS = {"cloud[].node_groups[].user_data[]": "its first line says what it is, and the rest is a program"}
"""Programs that nodes run: a first line of a known kind, and no characters that readers do not see."""

KEY = "{key}"


def text_fields(model: type[BaseModel], path: str = "", where: Path = ()) -> Iterator[tuple[str, Path, Any]]:
    """The name, path and type of every text of a model, its lists' items and its mappings' keys included."""
    for name, info in model.model_fields.items():
        key = info.alias or name
        kind = Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
        yield from _texts(kind, f"{path}.{key}".lstrip("."), (*where, key), ())


def _texts(kind: Any, path: str, where: Path, metadata: tuple[Any, ...]) -> Iterator[tuple[str, Path, Any]]:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        yield from _texts(arguments[0], path, where, (*arguments[1:], *metadata))
    elif origin in (Union, UnionType):
        for part in arguments:
            if part is not type(None):
                yield from _texts(part, path, where, metadata)
    elif origin is tuple:
        yield from _texts(arguments[0], f"{path}[]", (*where, 0), ())
    elif origin is dict:
        yield from _texts(arguments[0], f"{path}{KEY}", (*where, KEY), ())
        yield from _texts(arguments[1], f"{path}{{}}", (*where, "a"), ())
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from text_fields(kind, path, where)
    elif origin is not Literal and kind not in (int, float, bool):
        yield path, where, Annotated[kind, *metadata] if metadata else kind


FIELDS = {path: (where, kind) for path, where, kind in text_fields(FleetSpec)}
STRICT = sorted(FIELDS.keys() - FREE.keys() - JUDGED_ELSEWHERE.keys() - SCRIPTS.keys())


def tree(where: Path, value: str) -> Any:
    """A fleet file with nothing but one text in it."""
    if not where:
        return value
    first, rest = where[0], where[1:]
    if first == KEY:
        return {value: "x"}
    return [tree(rest, value)] if first == 0 else {first: tree(rest, value)}


def refused(checkout: Checkout, field: str, value: str) -> bool:
    """Whether a finding of the loader is about this field's value or name."""
    where, _ = FIELDS[field]
    written = field_path([value if part == KEY else part for part in where])
    found = checkout.findings(yaml.safe_dump(tree(where, value), allow_unicode=False))
    for finding in found:
        assert finding.message and finding.remedy and finding.line >= 1
    return any(finding.field == written for finding in found)


def test_free_text_lists_name_existing_fields() -> None:
    assert FREE.keys() | JUDGED_ELSEWHERE.keys() | SCRIPTS.keys() <= FIELDS.keys()
    assert len(STRICT) > 120


@pytest.mark.parametrize("field", STRICT)
def test_hostile_text_in_any_field_is_refused_with_a_finding(checkout: Checkout, field: str) -> None:
    passed = [name for name, value in WHOLE.items() if not refused(checkout, field, value)]
    assert not passed


@pytest.mark.parametrize("field", sorted(FREE))
def test_free_text_is_one_short_line_without_control_characters(checkout: Checkout, field: str) -> None:
    passed = [name for name in CONTROL if not refused(checkout, field, f"because{INSIDE[name]}")]
    assert not passed
    assert not refused(checkout, field, 'moves; see "ticket 12" (it\'s $(big))')


@pytest.mark.parametrize("field", sorted(SCRIPTS))
def test_program_starts_with_a_known_line_and_has_no_unseen_characters(
    checkout: Checkout, field: str
) -> None:
    passed = [name for name, value in WHOLE.items() if not refused(checkout, field, value)]
    assert not passed
    unseen = [
        name
        for name in CONTROL - {"newline", "long"}
        if not refused(checkout, field, f"#!/bin/sh{INSIDE[name]}")
    ]
    assert not unseen
    assert refused(checkout, field, "#!/bin/sh\n" + "x" * 16_384)
    for start in ("#!/bin/bash", "#cloud-config", "apiVersion: node.eks.aws/v1alpha1"):
        assert not refused(checkout, field, f'{start}\n\techo "$(id)" | tee -a /tmp/x; true\n')


def _examples(kind: Any) -> tuple[str, ...]:
    """Valid values of a type."""
    if get_origin(kind) is Annotated:
        for part in get_args(kind)[1:]:
            for each in (part, *getattr(part, "metadata", ())):
                if (pattern := getattr(each, "pattern", None)) is not None and pattern in PATTERNS:
                    example = PATTERNS[pattern].partition(", such as ")[2].strip("'")
                    return (example,)
        return _examples(get_args(kind)[0])
    return tuple(getattr(kind, "examples", ("plain text", "2031-05-01")))


@pytest.mark.parametrize("field", STRICT)
def test_hostile_text_after_a_valid_prefix_is_refused(field: str) -> None:
    _, kind = FIELDS[field]
    adapter: TypeAdapter[Any] = TypeAdapter(kind)

    def takes(value: str) -> bool:
        try:
            adapter.validate_python(value)
        except ValidationError:
            return False
        return True

    good = [value for value in _examples(kind) if takes(value)]
    passed = [name for value in good for name, bad in INSIDE.items() if takes(f"{value}{bad}")]
    assert not passed
    if kind is not dt.date and "SHA256" not in repr(kind) and "ssh-rsa" not in repr(kind):
        assert good or any(digits in repr(kind) for digits in ("0-9a-f]{64}", "0-9A-F]{40}"))


SITE = "  - site: dc1\n    system: dgx-h100\n"


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("ssh: {user: '-oProxyCommand=id'}", "onprem[0].ssh.user"),
        ("ssh: {user: 'root; id'}", "onprem[0].ssh.user"),
        ("ssh: {domain: '-oProxyCommand=id'}", "onprem[0].ssh.domain"),
        ("ssh: {domain: 'dc1..example.com'}", "onprem[0].ssh.domain"),
        ("addresses: {'-oProxyCommand=id': 10.0.0.1}", 'onprem[0].addresses["-oProxyCommand=id"]'),
        ("addresses: {dgx01: '-oProxyCommand=id'}", "onprem[0].addresses.dgx01"),
        ("storage: [{name: a, kind: nfs, source: 'nas:/$(id)', mount: /a}]", "onprem[0].storage[0].source"),
        ("storage: [{name: a, kind: nfs, source: 'nas:/a', mount: '/a;id'}]", "onprem[0].storage[0].mount"),
        ("local_nvme: {mount: /raid/../etc}", "onprem[0].local_nvme.mount"),
        ("network: everybody", "onprem[0].network"),
        (
            'management: {user: admin, bios: {SriovGlobalEnable: "{{ x }}"}}',
            "onprem[0].management.bios.SriovGlobalEnable",
        ),
    ],
)
def test_hostile_text_that_reaches_a_host_is_refused(checkout: Checkout, line: str, field: str) -> None:
    finding = checkout.changed(SITE, f"{SITE}    {line}\n")
    assert finding.field == field
    assert finding.rule == "bad-text"


def test_invalid_mapping_key_is_reported_on_its_line(checkout: Checkout) -> None:
    finding = checkout.changed(
        "{nvidia.com/gpu: true}", "\n          nvidia.com/gpu: true\n          'a;b': x"
    )
    assert finding.rule == "bad-text"
    assert finding.field == 'cloud[0].node_groups[0].labels["a;b"]'
    assert finding.line == 1 + VALID[: VALID.index("labels:")].count("\n") + 2


def test_password_in_a_url_is_not_printed(checkout: Checkout) -> None:
    url = "https://ada:s3cr$t@example.com/hook"
    finding = checkout.changed(SITE, f"{SITE}    monitoring: {{alerts: {{webhook: {{url: '{url}'}}}}}}\n")
    assert finding.rule == "bad-text"
    assert "s3cr" not in f"{finding.value}{finding.message}{finding.remedy}"
