"""Exemptions: which violation they cover, and until when."""

from __future__ import annotations

import datetime as dt

import pytest
from pydantic import ValidationError

from gpufleet.errors import SpecError
from gpufleet.policies.rules.budget.budget_by_team import budget_by_team
from gpufleet.policy import exemptions
from gpufleet.policy.settings import configure
from gpufleet.spec.models import FleetSpec
from tests.unit.policies.change_safety.test_guardrails_loosened import fleet
from tests.unit.policy.samples import TODAY, box, exemption
from tests.unit.pricing.racks import PRICED_RACKS

NAME = "atlas-prod-box"
URN = box(NAME).urn
DAY = dt.timedelta(days=1)


def find(*granted: object, urn: str = URN, name: str = NAME) -> exemptions.ExemptionMatch | None:
    return exemptions.find(granted, "small-boxes", urn, name, TODAY)  # type: ignore[arg-type]


@pytest.mark.parametrize("resource", ["atlas-prod-box", URN, "atlas-prod-*"])
def test_resource_matches_by_name_urn_or_prefix(resource: str) -> None:
    granted = find(exemption(resource=resource))
    assert granted is not None
    assert granted.in_force


@pytest.mark.parametrize(
    "resource", ["other", "box", "atlas-prod-box2", "atlas-prod-boxes*", "Atlas-prod-box", "stack"]
)
def test_another_resource_is_not_covered(resource: str) -> None:
    assert find(exemption(resource=resource)) is None


def test_another_rule_is_not_covered() -> None:
    assert find(exemption(rule="few-boxes", resource=NAME)) is None


def test_exemption_applies_on_its_last_day_and_not_after() -> None:
    today = exemption(resource=NAME, expires=TODAY)
    yesterday = exemption(resource=NAME, expires=TODAY - DAY)
    on_the_day, afterwards = find(today), find(yesterday)
    assert on_the_day is not None
    assert on_the_day.in_force
    assert afterwards is not None
    assert not afterwards.in_force


def test_valid_exemption_overrides_an_earlier_expired_one() -> None:
    granted = find(exemption(resource=NAME, expires=TODAY - DAY), exemption(resource=NAME, reason="again"))
    assert granted is not None
    assert granted.in_force
    assert granted.exemption.reason == "again"


def test_stack_violations_are_exempted_only_as_stack() -> None:
    root = "urn:pulumi:test::project::pulumi:pulumi:Stack::project-test"
    for urn in ("", root):
        assert find(exemption(resource="stack"), urn=urn, name="") is not None
        assert find(exemption(resource="project-test"), urn=urn, name="project-test") is None
        assert find(exemption(resource="project-*"), urn=urn, name="project-test") is None


@pytest.mark.parametrize("resource", ["*", "**", " *", "a*", "at*as-prod-box", "urn:pulumi:*"])
def test_too_broad_exemption_is_refused(resource: str) -> None:
    with pytest.raises(ValidationError, match="at the end of a name"):
        exemption(resource=resource)


@pytest.mark.parametrize(
    "expires", ["2031-02-30", "tomorrow", "2031-6-1", 20310601, True, dt.datetime(2031, 6, 1)]
)
def test_invalid_expiry_date_is_refused(expires: object) -> None:
    with pytest.raises(ValidationError, match="not a date"):
        exemption(expires=expires)


@pytest.mark.parametrize("missing", ["rule", "resource", "reason", "approver", "expires"])
def test_every_field_is_required_and_not_blank(missing: str) -> None:
    given = exemption().model_dump()
    with pytest.raises(ValidationError):
        type(exemption()).model_validate({key: value for key, value in given.items() if key != missing})
    if missing != "expires":
        with pytest.raises(ValidationError):
            exemption(**{missing: "  "})


def test_verdict_lists_exemptions_with_approver_reason_expiry_and_status() -> None:
    listed = exemptions.to_json(exemption(), TODAY)
    assert listed == {
        "rule": "small-boxes",
        "resource": "box",
        "reason": "it is the last one",
        "approver": "Ada",
        "expires": "2031-07-15",
        "in_force": True,
    }
    assert exemptions.to_json(exemption(expires=TODAY - DAY), TODAY)["in_force"] is False


def test_exemption_without_a_near_end_does_not_count() -> None:
    near = find(exemption(resource=NAME, expires=TODAY + exemptions.LONGEST))
    assert near is not None and near.in_force
    far = find(exemption(resource=NAME, expires=TODAY + exemptions.LONGEST + DAY))
    assert far is not None and not far.in_force
    assert "366 days at most" in far.why_not


@pytest.mark.parametrize(
    ("resource", "wide"),
    [
        ("atlas-prod-*", True),
        ("atlas-prod-use1-*", True),
        ("atlas-prod-use1-bur*", True),
        ("atlas-prod-use1-burs*", False),
        ("atlas-prod-use1-burst", False),
        ("atlas-prod-lab-*", True),
        ("legacy-*", False),
        ("stack", False),
    ],
)
def test_exemption_of_a_whole_site_is_refused(resource: str, wide: bool) -> None:
    sites = [{"site": "use1", "provider": "aws", "region": "us-east-1", "zones": ["us-east-1a"]}]
    sites[0] |= {"network": {"cidr": "10.9.0.0/16"}, "scheduler": "slurm"}  # type: ignore[dict-item]
    granted = exemption(rule=budget_by_team.name, resource=resource)
    spec = FleetSpec.model_validate(fleet(cloud=sites, onprem=[{**PRICED_RACKS, "site": "lab"}])).model_copy(
        update={"exemptions": (granted,)}
    )
    if wide:
        with pytest.raises(SpecError) as caught:
            configure([budget_by_team], spec)
        (finding,) = caught.value.findings
        assert (finding.rule, finding.field) == ("exemption-too-wide", "exemptions[0].resource")
    else:
        configure([budget_by_team], spec)
