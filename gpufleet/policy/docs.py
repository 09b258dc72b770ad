"""Write docs/reference/rules.md from the rules (`make docs`).

The page contains the actual messages of each rule for its examples.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec.structs import asdict

from gpufleet.policy import examples
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.policy.pack import load_rules
from gpufleet.policy.rule import Example, Group, Rule, Scope
from gpufleet.resources.resource import UNKNOWN
from gpufleet.yaml_text import dump_yaml

GROUPS: Mapping[Group, str] = {
    "budget": "Budget",
    "tags": "Cost tags",
    "capacity": "Capacity",
    "security": "Security",
    "change-safety": "Change safety",
}
SCOPES: Mapping[Scope, str] = {
    "resource": "each resource separately; by Pulumi and by gpufleet",
    "stack": "the stack as a whole; by Pulumi and by gpufleet",
    "change": "the operations on the stack; only by gpufleet (`check`, `preview`, `up`), since Pulumi does "
    "not pass them to policy packs",
}
UNKNOWN_SHOWN = "<not known yet>"
_MESSAGES_SHOWN = 3
_TYPES_SHOWN = 24
_INTRODUCTION = """\
# Rules

The rules of the policy pack in `policies/`. [The guide](../guide/policies.md) describes how to run, configure
and exempt them; `gpufleet rules` lists them in the terminal.

`make docs` writes this page from the rules, and a test keeps it current. Below each example are the messages
that the rule reports for it. `<not known yet>` in an example is a value that is known only when the resource
exists.
"""


def rules_text(rules: Sequence[Rule[Any]]) -> str:
    """Return the page."""
    parts = [_INTRODUCTION, *_index(rules)]
    for group, of_group in _by_group(rules):
        parts.append(f"## {GROUPS[group]}\n")
        parts += [rule_text(rule) for rule in of_group]
    return "\n".join(parts)


def rule_text(rule: Rule[Any]) -> str:
    """Return the section of one rule."""
    found = examples.evaluate(rule, rule.fails)
    parts = [
        f"### {rule.name}\n",
        f"{rule.title}.\n",
        f"**Why.** {rule.why}\n",
        _facts(rule),
        *_settings(rule),
        "Passes:\n",
        *_example(rule, rule.passes),
        "Fails:\n",
        *_example(rule, rule.fails),
        _messages(found),
        f"**How to fix.** {rule.fix}\n",
        "**How to exempt** one resource, until a date:\n",
        _fenced(exemption_text(rule, found)),
    ]
    return "\n".join(parts)


def describe(rule: Rule[Any]) -> dict[str, Any]:
    """Return a rule as JSON values, for `gpufleet rules --json`."""
    return {
        "name": rule.name,
        "group": rule.group,
        "scope": rule.scope,
        "title": rule.title,
        "why": rule.why,
        "fix": rule.fix,
        "severity": rule.severity,
        "enforcement": rule.enforcement,
        "remediates": rule.remediate is not None,
        "types": sorted(rule.types),
        "settings": {
            name: {"default": default, "type": kind, "description": text}
            for name, kind, default, text in settings_of(rule)
        },
        "framework": None
        if rule.framework is None
        else {
            "name": rule.framework.name,
            "control": rule.framework.control,
            "reference": rule.framework.reference,
        },
    }


def settings_of(rule: Rule[Any]) -> Iterator[tuple[str, str, Any, str]]:
    """Yield name, type, default (as a JSON value) and description of each setting."""
    schema = rule.settings.model_json_schema()
    defaults = rule.settings().model_dump(mode="json")
    for name, field in rule.settings.model_fields.items():
        yield name, _type_of(schema["properties"][name], schema), defaults[name], field.description or ""


def exemption_text(rule: Rule[Any], found: Sequence[RuleViolation]) -> str:
    """Return a template of an exemption. It loads only after reason, approver and date are filled in."""
    urn = found[0].urn if found else ""
    return (
        "exemptions:\n"
        f"  - rule: {rule.name}\n"
        f"    resource: {urn.rpartition('::')[2] or 'stack'}\n"
        '    reason: ""\n'
        '    approver: ""\n'
        "    expires: YYYY-MM-DD\n"
    )


def types_text(rule: Rule[Any], code: str = "") -> str:
    """Return the types that a rule checks as text; if there are many, the command that lists them."""
    if len(rule.types) > _TYPES_SHOWN:
        return f"{len(rule.types)} types: {code}gpufleet rules {rule.name} --json{code} lists them"
    return ", ".join(f"{code}{each}{code}" for each in sorted(rule.types)) or "all"


def _by_group(rules: Iterable[Rule[Any]]) -> Iterator[tuple[Group, list[Rule[Any]]]]:
    order = list(GROUPS)
    ordered = sorted(rules, key=lambda rule: (order.index(rule.group), rule.name))
    for group, of_group in groupby(ordered, key=lambda rule: rule.group):
        yield group, list(of_group)


def _index(rules: Iterable[Rule[Any]]) -> Iterator[str]:
    for group, of_group in _by_group(rules):
        yield f"**{GROUPS[group]}**\n"
        rows = [
            f"| [{r.name}](#{r.name}) | {_cell(r.title)} | {r.severity} | {r.enforcement} |" for r in of_group
        ]
        yield "\n".join(["| rule | what | severity | level |", "|---|---|---|---|", *rows]) + "\n"


def _facts(rule: Rule[Any]) -> str:
    rows = [
        ("severity", rule.severity),
        ("level", f"{rule.enforcement} unless configured otherwise"),
        ("checks", SCOPES[rule.scope]),
        ("resource types", types_text(rule, code="`")),
    ]
    if rule.remediate is not None:
        rows.append(("remediates", "yes, at level `remediate`"))
    if rule.framework is not None:
        framework = rule.framework
        rows.append(("control", f"[{framework.name} {framework.control}]({framework.reference})"))
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {_cell(text)} |" for name, text in rows)]) + "\n"


def _settings(rule: Rule[Any]) -> Iterator[str]:
    rows = [
        f"| `{name}` | {_cell(kind)} | `{_cell(_plain(default))}` | {_cell(text)} |"
        for name, kind, default, text in settings_of(rule)
    ]
    if rows:
        yield "\n".join(["| setting | type | default | |", "|---|---|---|---|", *rows]) + "\n"


def _plain(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    return str(value)


def _type_of(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """Return a JSON schema's type as text."""
    if "$ref" in schema:
        return _type_of(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "enum" in schema:
        return ", ".join(str(each) for each in schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    if "anyOf" in schema:
        words = dict.fromkeys(_type_of(each, root) for each in schema["anyOf"])
        return " or ".join("none" if each == "null" else each for each in words)
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type_of(schema.get('items', {}), root)}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"name to {_type_of(schema['additionalProperties'], root)}"
    return str(kind)


def _example(rule: Rule[Any], example: Example) -> Iterator[str]:
    """Yield the parts of an example as YAML: rule settings, fleet file, resources."""
    document: dict[str, Any] = {}
    for name, value in asdict(example).items():
        if value and name not in ("resources", "before"):
            document[name] = value
    if rule.scope == "change":
        document["before"] = list(example.before)
        document["after"] = list(example.resources)
    else:
        document["resources"] = list(example.resources)
    yield _fenced(dump_yaml(_for_yaml(document)))


def _for_yaml(value: Any) -> Any:
    if value is UNKNOWN:
        return UNKNOWN_SHOWN
    if isinstance(value, Mapping):
        return {str(key): _for_yaml(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value) if isinstance(value, (set, frozenset)) else value
        return [_for_yaml(item) for item in items]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _messages(found: Sequence[RuleViolation]) -> str:
    lines = [f"- {_inline(each.message)}" for each in found[:_MESSAGES_SHOWN]]
    if len(found) > _MESSAGES_SHOWN:
        lines.append(f"- and {len(found) - _MESSAGES_SHOWN} more")
    return "\n".join(lines) + "\n"


def _fenced(yaml: str) -> str:
    return f"```yaml\n{yaml.rstrip()}\n```\n"


def _inline(text: str) -> str:
    """Return text with Markdown characters escaped."""
    return "".join(f"\\{char}" if char in "\\`*_<>[]" else char for char in text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    from gpufleet.workspace import find_root

    sys.stdout.write(rules_text(load_rules(find_root())))
