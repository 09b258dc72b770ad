"""The stable contract of `gpufleet check --json`."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from gpufleet.report.verdict_json import verdict_to_json
from tests.unit.verdict.conftest import cost_line, costs, rule, verdict, violated


def _json(*rules: Any, **changes: Any) -> dict[str, Any]:
    made = verdict_to_json(verdict(*rules, **changes))
    assert json.loads(json.dumps(made)) == made
    return made


def test_every_key_of_the_contract_exists() -> None:
    document = _json(rule("closed-buckets", violated()))
    assert {"verdict", "rules", "cost", "changes", "exemptions"} <= document.keys()
    (found,) = document["rules"]
    assert {"name", "enforcement", "status", "violations"} <= found.keys()
    assert {"resource", "message", "file", "line"} <= found["violations"][0].keys()
    assert {"before", "after", "at_max", "currency", "unknown"} <= document["cost"].keys()
    assert {"rule", "resource", "reason", "approver", "expires"} <= document["exemptions"][0].keys()


def test_mandatory_violation_fails_and_advice_does_not() -> None:
    assert _json(rule("a", violated()))["verdict"] == "fail"
    advice = rule("a", violated(effect="advisory"), status="advisory")
    exempted = rule("b", violated(effect="exempted"), status="exempted")
    assert _json(advice, exempted, rule("c"))["verdict"] == "pass"


def test_money_is_rounded_to_cents_and_unknown_prices_are_named() -> None:
    lines = (cost_line("unpriced", 5, None, reason="no price was read", urn="urn:x"),)
    cost = _json(costs=costs(*lines))["cost"]
    assert (cost["before"], cost["after"], cost["at_max"], cost["currency"]) == (
        1000.0,
        1234.56,
        2500.0,
        "USD",
    )
    assert cost["unknown"] == [
        {
            "resource": "urn:x",
            "what": "unpriced",
            "site": "use1",
            "owner": "burst",
            "reason": "no price was read",
        }
    ]
    assert cost["lines"][0]["after"] is None


def test_verdict_without_a_base_has_no_before() -> None:
    document = _json(base=None, costs=costs(before=None, at_max_before=None, upfront_before=None))
    assert document["base"] is None
    assert document["cost"]["before"] is None


def test_changes_are_counted_and_listed_with_replacement_reasons() -> None:
    changes = _json()["changes"]
    assert {key: changes[key] for key in ("create", "update", "replace", "delete", "same")} == {
        "create": 1,
        "update": 0,
        "replace": 1,
        "delete": 0,
        "same": 50,
    }
    replaced = changes["resources"][0]
    assert (replaced["operation"], replaced["replace_keys"], replaced["site"], replaced["owner"]) == (
        "replace",
        ["bucket"],
        "use1",
        "data",
    )
    assert changes["resources"][1]["site"] is None


def test_racks_exemptions_guard_and_open_changes_are_included() -> None:
    document = _json()
    (racks,) = document["onprem"]
    assert (racks["before"]["nodes"], racks["after"]["nodes"], racks["changed"]) == (2, 4, True)
    assert racks["after"]["power_kw"] == float(Decimal("40.8"))
    assert document["licences"]["known"] == []
    (exemption,) = document["exemptions"]
    assert (exemption["in_force"], exemption["used"], exemption["expires"]) == (True, 1, "2027-01-31")
    assert document["guard"] == {"files": ["policies/rules/a.py"], "settings": ["budget.monthly"]}
    assert [each["increase"] for each in document["open_changes"]] == [70.0, None]
