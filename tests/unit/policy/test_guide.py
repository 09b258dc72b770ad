"""Examples in docs/guide/policies.md are valid, and the names in it exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from gpufleet.engine.policy_config import read_policy_config
from gpufleet.policy.pack import load_rules
from gpufleet.policy.settings import PackConfig, configure
from gpufleet.spec.models import FleetSpec

ROOT = Path(__file__).resolve().parents[3]
GUIDE = ROOT / "docs" / "guide" / "policies.md"
TEXT = GUIDE.read_text(encoding="utf-8")
RULES = load_rules(ROOT)


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def _fleet(**more: Any) -> FleetSpec:
    return FleetSpec.model_validate(
        {
            "apiVersion": "gpufleet/v1",
            "fleet": "atlas",
            "environment": "prod",
            "budget": {"monthly": "1000 USD"},
            "tags": {"team": "ml", "cost-center": "cc-1", "project": "atlas"},
            "software": {"channel": "2026.11"},
            **more,
        }
    )


def test_fleet_files_of_the_guide_are_valid() -> None:
    policies, exemptions = (yaml.safe_load(block) for block in _blocks("yaml"))
    assert set(policies) == {"policies"} and set(exemptions) == {"exemptions"}
    configure(RULES, _fleet(**policies, **exemptions))


def test_policy_configuration_of_the_guide_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "policy-config.json"
    path.write_text(_blocks("json")[0])
    settings = read_policy_config(path)
    given = {
        name: PackConfig(setting.level or None, setting.properties)  # type: ignore[arg-type]
        for name, setting in settings.items()
    }
    by_name = {each.rule.name: each for each in configure(RULES, pack_config=given)}
    assert by_name["cost-allocation-tags"].enforcement == "advisory"
    assert by_name["price-catalog-age"].enforcement == "disabled"
    assert by_name["log-retention"].enforcement == "mandatory"
    assert by_name["imdsv2-required"].settings.model_dump() == {"hop_limit": 2}


def test_trust_policy_of_the_guide_names_one_environment() -> None:
    policy = json.loads(_blocks("json")[1])
    [statement] = policy["Statement"]
    [(subject, value)] = [
        (key, value) for key, value in statement["Condition"]["StringEquals"].items() if key.endswith(":sub")
    ]
    assert subject.startswith("token.actions.githubusercontent.com")
    assert value.endswith(":environment:prod") and "*" not in value


def test_rules_and_files_named_in_the_guide_exist() -> None:
    names = {rule.name for rule in RULES} | {"guard-touched", "policy-config", "judged-by-base"}
    for word in re.findall(r"`([a-z]+(?:-[a-z0-9]+)+)`", TEXT):
        assert word in names or word in ("role-duration-seconds", "dev-preview", "prod-preview", "runs-on"), (
            word
        )
    for target in re.findall(r"\]\((\.\./[^)#]+)", TEXT):
        assert (GUIDE.parent / target).resolve().is_file(), target
