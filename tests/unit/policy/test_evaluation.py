"""The judge: which rules run, what counts, and that an exception in a rule is a violation."""

from __future__ import annotations

import datetime as dt

from gpufleet.resources.stack import Stack
from tests.unit.policy.samples import TODAY, box, broken_rule, exemption, few_boxes, judge, small_boxes


def test_violation_has_value_rule_and_remedy() -> None:
    (found,) = judge(small_boxes()).resource(box(size=11))
    assert found.message == "size is 11, and 10 is the most; make it smaller"
    assert found.urn == box().urn
    assert found.level == "mandatory"
    assert judge(small_boxes()).resource(box(size=10)) == []


def test_settings_reach_the_rule() -> None:
    assert judge(small_boxes(), settings={"most": 20}).resource(box(size=11)) == []


def test_resource_rule_runs_only_on_its_types() -> None:
    assert judge(small_boxes()).resource(box(kind="aws:test/box:Crate", size=99)) == []
    assert judge(small_boxes()).stack(Stack([box(size=99)])) == []


def test_rule_without_types_runs_on_every_resource() -> None:
    assert len(judge(broken_rule()).resource(box(kind="aws:test/box:Crate"))) == 1


def test_disabled_rule_never_runs() -> None:
    assert judge(broken_rule(), enforcement="disabled").resource(box()) == []


def test_advisory_violation_is_advice() -> None:
    (found,) = judge(small_boxes(), enforcement="advisory").resource(box(size=11))
    assert found.level == "advisory"


def test_violation_left_after_remediation_is_mandatory() -> None:
    (found,) = judge(small_boxes(), enforcement="remediate").resource(box(size=11))
    assert found.level == "mandatory"


def test_exception_in_a_rule_is_a_mandatory_violation() -> None:
    (found,) = judge(broken_rule()).resource(box())
    assert found.level == "mandatory"
    assert found.violation.unknown
    assert "the rule failed with" in found.message
    assert "KeyError" in found.message


def test_exempted_violation_is_advice_with_approver_reason_and_expiry() -> None:
    (found,) = judge(small_boxes(), exemptions=(exemption(),)).resource(box(size=11))
    assert found.exempted
    assert found.level == "advisory"
    for part in ("exempted until 2031-07-15", "Ada", "it is the last one", "size is 11"):
        assert part in found.message


def test_expired_exemption_has_no_effect_and_is_reported() -> None:
    granted = exemption(expires=TODAY - dt.timedelta(days=1))
    (found,) = judge(small_boxes(), exemptions=(granted,)).resource(box(size=11))
    assert not found.exempted
    assert found.level == "mandatory"
    assert found.message.endswith("(the exemption by Ada expired on 2031-06-14)")


def test_sibling_of_an_exempted_resource_is_not_exempt() -> None:
    asked = judge(small_boxes(), exemptions=(exemption(),))
    (found,) = asked.resource(box("crate", size=11))
    assert found.level == "mandatory"
    assert found.exemption_match is None


def test_stack_violation_is_exempted_as_stack() -> None:
    stack = Stack([box("a"), box("b")])
    (counts,) = judge(few_boxes(), exemptions=(exemption(rule="few-boxes", resource="a"),)).stack(stack)
    (exempted,) = judge(few_boxes(), exemptions=(exemption(rule="few-boxes", resource="stack"),)).stack(stack)
    assert counts.level == "mandatory"
    assert counts.urn == ""
    assert exempted.level == "advisory"


def test_remediations_are_selected_by_level_and_type() -> None:
    mending = small_boxes(remediate=lambda resource, context: {"size": 1})
    assert [rule.name for rule, _ in judge(mending, enforcement="remediate").remediations(box())] == [
        "small-boxes"
    ]
    assert list(judge(mending).remediations(box())) == []
    assert list(judge(small_boxes(), enforcement="remediate").remediations(box())) == []
    assert list(judge(mending, enforcement="remediate").remediations(box(kind="aws:x/y:Z"))) == []
