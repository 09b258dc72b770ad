"""docs/reference/rules.md is the rules, and nothing older."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import Field, ValidationError

from gpufleet.policy import docs, examples
from gpufleet.policy.pack import load_rules
from gpufleet.policy.rule import Example, Rule, Settings, Violation, resource_rule
from gpufleet.resources.resource import UNKNOWN
from gpufleet.spec.policy import Exemption

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "reference" / "rules.md"
RULES = load_rules(ROOT)


def test_page_matches_the_rules() -> None:
    assert PAGE.read_text(encoding="utf-8") == docs.rules_text(RULES), "run `make docs`"


def test_every_rule_has_an_index_entry_and_a_section() -> None:
    text = docs.rules_text(RULES)
    for rule in RULES:
        assert f"[{rule.name}](#{rule.name})" in text
        assert f"\n### {rule.name}\n" in text
    assert text.count("\n### ") == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_yaml_of_a_rule_parses_to_its_examples(rule: Rule[Any]) -> None:
    section = docs.rule_text(rule)
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)]
    assert len(blocks) == 3
    passes, fails, exemption = blocks
    for shown, example in ((passes, rule.passes), (fails, rule.fails)):
        resources = shown["after" if rule.scope == "change" else "resources"]
        assert [each["type"] for each in resources] == [each["type"] for each in example.resources]
        assert shown.get("fleet") == example.fleet
    assert exemption["exemptions"][0]["rule"] == rule.name


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_exemption_template_is_refused_until_filled_in_and_then_covers_the_violation(
    rule: Rule[Any],
) -> None:
    found = examples.evaluate(rule, rule.fails)
    [shown] = yaml.safe_load(docs.exemption_text(rule, found))["exemptions"]
    for missing in ("reason", "approver", "expires"):
        filled = {"reason": "a trial", "approver": "ops", "expires": "2026-12-01"}
        filled[missing] = shown[missing]
        with pytest.raises(ValidationError):
            Exemption.model_validate(shown | filled)
    exemption = Exemption(
        rule=shown["rule"],
        resource=shown["resource"],
        reason="a trial",
        approver="ops",
        expires=dt.date(2026, 12, 1),
    )
    judged = examples.evaluate(rule, rule.fails, [exemption])
    assert judged[0].exempted and judged[0].level == "advisory"


class _Sizes(Settings):
    most: int = Field(3, description="Most | of them")
    names: list[str] = Field(default_factory=lambda: ["a"], description="Names")
    limit: float | None = Field(None, description="Limit, if any")


def _rule(**more: Any) -> Rule[Any]:
    metadata: dict[str, Any] = {
        "group": "capacity",
        "title": "Sizes are small",
        "why": "Because",
        "fix": "Make it smaller",
        "severity": "low",
        "types": ["aws:ec2/instance:Instance"],
        "settings": _Sizes,
        "passes": Example(({"type": "aws:ec2/instance:Instance", "props": {"size": 1}},)),
        "fails": Example(
            ({"type": "aws:ec2/instance:Instance", "name": "big", "props": {"size": UNKNOWN}},),
            settings={"most": 1},
        ),
        **more,
    }

    def judge(resource: Any, context: Any) -> Any:
        if resource.get("size") is UNKNOWN:
            for number in range(5):
                yield Violation(f"<{number}> of *many*", "less")

    return resource_rule("small-sizes", **metadata)(judge)


def test_settings_are_listed_with_type_default_and_description() -> None:
    section = docs.rule_text(_rule())
    assert "| `most` | integer | `3` | Most \\| of them |" in section
    assert "| `names` | list of string | `['a']` | Names |" in section
    assert "| `limit` | number or none | `none` | Limit, if any |" in section


def test_at_most_three_messages_are_shown_unchanged() -> None:
    section = docs.rule_text(_rule())
    assert "- \\<0\\> of \\*many\\*; less" in section
    assert "\\<3\\>" not in section
    assert "- and 2 more" in section


def test_unknown_value_and_example_settings_are_in_the_yaml() -> None:
    section = docs.rule_text(_rule())
    assert "size: <not known yet>" in section
    assert "settings:\n  most: 1\n" in section


def test_rule_without_settings_or_framework_has_no_such_section() -> None:
    section = docs.rule_text(_rule(settings=Settings, fails=Example(_rule().fails.resources)))
    assert "| setting |" not in section
    assert "| control |" not in section


def test_many_types_are_counted_instead_of_listed() -> None:
    section = docs.rule_text(
        _rule(types=[f"aws:t:T{number}" for number in range(400)] + ["aws:ec2/instance:Instance"])
    )
    assert "401 types: `gpufleet rules small-sizes --json` lists them" in section
    assert "aws:t:T7" not in section


def test_rule_json_has_everything_on_the_page() -> None:
    described = docs.describe(_rule())
    assert described["settings"]["most"] == {"default": 3, "type": "integer", "description": "Most | of them"}
    assert described["types"] == ["aws:ec2/instance:Instance"]
    assert described["framework"] is None
    assert described["remediates"] is False
