"""From findings to results, and gpufleet's own results for a change."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from gpufleet.findings import Finding
from gpufleet.policy.change import ChangeStep
from gpufleet.policy.report import ReportedViolation
from gpufleet.policy.rule import Example, Rule, Settings
from gpufleet.policy.settings import ConfiguredRule
from gpufleet.resources.stack import Stack
from gpufleet.spec.load import LoadedFleet
from gpufleet.verdict import guard
from gpufleet.verdict.locate import Locator
from gpufleet.verdict.models import BaseVerdict, BaseViolation, GuardrailChanges, OpenChangeCost
from gpufleet.verdict.results import exemption_uses, rule_results, warnings_of
from tests.unit.verdict.conftest import exemption, line_of, resource, rule, violated

BUCKET = resource("aws:s3/bucket:Bucket", "b", tags={"gpufleet:site": "use1", "gpufleet:storage": "data"})
FILE = "stacks/prod/fleet.yaml"


@pytest.fixture
def locator(loaded: LoadedFleet) -> Locator:
    return Locator(loaded.spec, loaded.source, (Stack([BUCKET]),))


def _configured(enforcement: Any = "mandatory", scope: Any = "resource") -> ConfiguredRule:
    rule: Rule[Any] = Rule(
        name="closed-buckets",
        scope=scope,
        group="security",
        title="Buckets are closed",
        why="Open ones are read.",
        fix="Close it.",
        severity="high",
        enforcement="mandatory",
        types=frozenset(),
        settings=Settings,
        passes=Example(()),
        fails=Example(()),
        evaluate=lambda *_: (),
    )
    return ConfiguredRule(rule, enforcement, Settings())


def _found(level: str = "mandatory", **changes: Any) -> ReportedViolation:
    fields: dict[str, Any] = {
        "rule": "closed-buckets",
        "enforcement": "mandatory",
        "level": level,
        "urn": BUCKET.urn,
        "message": "open; close it",
        "remedy": "close it",
        "prop": "acl",
        "fleet_field": "",
        "unknown": False,
        "exempted": False,
    }
    return ReportedViolation(**{**fields, **changes})


def test_worst_violation_sets_the_status(locator: Locator) -> None:
    exempted = _found("advisory", exempted=True)
    for found, status in (
        ([], "passed"),
        ([_found("advisory")], "advisory"),
        ([exempted], "exempted"),
        ([exempted, _found("advisory")], "advisory"),
        ([exempted, _found("advisory"), _found()], "failed"),
    ):
        (result,) = rule_results([_configured()], found, locator)
        assert result.status == status


def test_disabled_rule_has_its_own_status(locator: Locator) -> None:
    (result,) = rule_results([_configured("disabled")], [], locator)
    assert (result.status, result.enforcement, result.note) == ("disabled", "disabled", "")


def test_change_rule_without_a_change_is_not_run_with_a_reason(locator: Locator) -> None:
    (result,) = rule_results([_configured(scope="change")], [], locator, no_change="no base")
    assert (result.status, result.enforcement, result.note) == ("disabled", "mandatory", "no base")
    (asked,) = rule_results([_configured()], [], locator, no_change="no base")
    assert (asked.status, asked.note) == ("passed", "")


def test_violation_has_its_place(locator: Locator) -> None:
    (result,) = rule_results([_configured()], [_found(unknown=True)], locator)
    (violation,) = result.violations
    assert (violation.resource, violation.name) == (BUCKET.urn, "b")
    assert (violation.file, violation.line) == (FILE, line_of("name: data"))
    assert (violation.effect, violation.unknown, violation.prop) == ("mandatory", True, "acl")


def test_stack_violation_belongs_to_the_stack(locator: Locator) -> None:
    root = "urn:pulumi:prod::gpufleet::pulumi:pulumi:Stack::gpufleet-prod"
    (result,) = rule_results([_configured()], [_found(urn=""), _found(urn=root)], locator)
    assert [each.resource for each in result.violations] == ["stack", "stack"]
    assert {each.line for each in result.violations} == {line_of("environment: prod")}


def test_active_expired_and_unused_exemptions_are_listed_separately(loaded: LoadedFleet) -> None:
    today = dt.date(2027, 1, 31)
    granted = [
        exemption(resource="b"),
        exemption(resource="b", expires="2027-01-30"),
        exemption(resource="c"),
        exemption(rule="other", resource="b"),
    ]
    uses = exemption_uses(granted, [_found(), _found(prop="x")], loaded.source, today)
    assert [(use.in_force, use.used) for use in uses] == [(True, 2), (False, 2), (True, 0), (True, 0)]
    unasked = exemption_uses(granted, [], loaded.source, today, {"other"})
    assert [use.used for use in unasked] == [0, 0, 0, None]


def _step(operation: Any, *, was: bool, stays: bool | None) -> ChangeStep:
    before = resource("aws:s3/bucket:Bucket", "b", protect=was)
    after = None if stays is None else resource("aws:s3/bucket:Bucket", "b", protect=stays)
    return ChangeStep(before.urn, operation, before, after, ("bucket",), ("bucket",))


def test_deletion_or_replacement_of_a_protected_resource_fails(locator: Locator) -> None:
    for step in (_step("delete", was=True, stays=None), _step("replace", was=True, stays=True)):
        result = guard.protection_result([step], locator)
        assert result.status == "failed"
        assert step.operation in result.violations[0].message


def test_unprotected_or_only_updated_resource_passes(locator: Locator) -> None:
    steps = [
        _step("delete", was=False, stays=None),
        _step("replace", was=True, stays=False),
        _step("update", was=True, stays=True),
        ChangeStep(BUCKET.urn, "create", None, BUCKET),
    ]
    assert guard.protection_result(steps, locator).status == "passed"


def test_open_change_without_a_price_fails_with_its_name(locator: Locator) -> None:
    open_changes = [
        OpenChangeCost("fine", Decimal(0)),
        OpenChangeCost("broken", None, "it has no environment prod"),
    ]
    result = guard.open_changes_result(open_changes, locator)
    assert result.status == "failed"
    (violation,) = result.violations
    assert "broken cannot be priced: it has no environment prod" in violation.message
    assert violation.unknown
    assert guard.open_changes_result(open_changes[:1], locator).status == "passed"


def test_loosened_change_settings_are_reported(loaded: LoadedFleet) -> None:
    spec = loaded.spec
    assert guard.loosened(spec, spec) == ()
    assert guard.loosened(None, spec) == ()
    budget = spec.budget.model_copy(update={"notify": ("a@example.com",)})
    assert guard.loosened(spec, spec.model_copy(update={"budget": budget})) == ()
    raised = spec.budget.model_copy(update={"upfront": spec.budget.monthly})
    exempt = {"exemptions": (exemption(),), "budget": raised, "required_tags": ("team",)}
    assert guard.loosened(spec, spec.model_copy(update=exempt)) == (
        "exemptions",
        "required_tags",
        "budget.upfront",
    )


def test_changed_rule_level_is_reported_in_both_directions(loaded: LoadedFleet) -> None:
    off = loaded.spec.model_copy(update={"policies": {"closed-buckets": {"enforcement": "disabled"}}})
    assert guard.loosened(loaded.spec, off) == ("policies.closed-buckets",)
    assert guard.loosened(off, loaded.spec) == ("policies.closed-buckets",)


def test_changed_rule_files_are_advice_at_file_or_line(locator: Locator) -> None:
    result = guard.guard_result(GuardrailChanges(("policies/rules/a.py",), ("budget.monthly",)), locator)
    assert result.status == "advisory"
    assert [(each.file, each.effect) for each in result.violations] == [
        ("policies/rules/a.py", "advisory"),
        ("stacks/base.yaml", "advisory"),
    ]
    assert guard.guard_result(GuardrailChanges(), locator).status == "passed"


def test_verdict_of_the_base_adds_what_the_change_does_not_find(locator: Locator) -> None:
    known = violated("open")
    same = BaseViolation("closed-buckets", known.resource, known.name, "open, says the base", "r", "f", 3)
    other = BaseViolation("tags", "urn:x", "x", "no tags", "add tags", "stacks/prod/fleet.yaml", 7)
    rules = [rule("closed-buckets", known)]
    result = guard.base_result(BaseVerdict("fail", (same, other)), rules, locator)
    assert result.status == "failed"
    (found,) = result.violations
    assert (found.resource, found.file, found.line) == ("urn:x", "stacks/prod/fleet.yaml", 7)
    assert found.message == "by the code of the base, tags: no tags"
    # An exempted or advisory violation of the change's own does not stand for the base's mandatory one.
    mild = [rule("closed-buckets", violated("open", effect="exempted"), status="exempted")]
    assert len(guard.base_result(BaseVerdict("fail", (same,)), mild, locator).violations) == 1
    assert guard.base_result(BaseVerdict("pass"), rules, locator).status == "passed"


def test_base_without_a_verdict_fails_the_change(locator: Locator) -> None:
    result = guard.base_result(BaseVerdict("none", reason="unknown field"), [], locator)
    assert result.status == "failed"
    assert "unknown field" in result.violations[0].message
    assert "change the code first" in result.violations[0].remedy


def test_many_files_of_one_folder_are_reported_once(locator: Locator) -> None:
    many = tuple(f"gpufleet/pricing/{number}.py" for number in range(9))
    result = guard.guard_result(GuardrailChanges((*many, "stacks/Pulumi.prod.yaml")), locator)
    first, second = result.violations
    assert "9 files of gpufleet/" in first.message
    assert second.file == "stacks/Pulumi.prod.yaml"


def test_extended_expiry_of_an_environment_is_reported(loaded: LoadedFleet) -> None:
    later = loaded.spec.model_copy(update={"expires": dt.date(2040, 1, 1)})
    assert guard.loosened(loaded.spec, later) == ("expires",)


def test_old_prices_are_a_warning_if_no_rule_reports_them(locator: Locator) -> None:
    finding = Finding(FILE, 6, "budget.monthly", "2024-09-25", "price-age", "6 prices are old", "", "warning")
    other = replace(finding, rule="budget-exceeded", message="too much")
    configured = [_configured("advisory")]
    silent = rule_results(configured, [], locator)
    assert warnings_of([finding, other], silent) == (
        f"{FILE}:6: budget.monthly: 6 prices are old",
        f"{FILE}:6: budget.monthly: too much",
    )
    renamed = replace(configured[0], rule=replace(configured[0].rule, name="price-catalog-age"))
    violated = rule_results([renamed], [_found("advisory", rule="price-catalog-age")], locator)
    assert warnings_of([finding, other], violated) == (f"{FILE}:6: budget.monthly: too much",)
