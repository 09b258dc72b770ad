"""required-tags: valid and invalid cost tags."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pulumi.runtime.proto import analyzer_pb2
from pydantic import ValidationError

from gpufleet.policies.rules.tags.required_tags import RequiredTagsSettings, required_tags
from gpufleet.policy import examples, wire
from gpufleet.policy.context import RuleContext
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.aws_types import taggable_types
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import AUTO_SCALING_GROUP, AUTO_SCALING_TAG, VOLUME

Ask = Callable[..., list[RuleViolation]]
RULE = "required-tags"
GOOD = {"team": "research", "cost-center": "cc-4711", "project": "atlas"}


def volume(tags: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": VOLUME, "props": {"size": 100, **({} if tags is None else {"tags": tags})}, **more}


def group(tags: Any) -> dict[str, Any]:
    return {"type": AUTO_SCALING_GROUP, "props": {"maxSize": 1, "tags": tags}}


def as_list(tags: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value, "propagateAtLaunch": True} for key, value in tags.items()]


def test_all_required_keys_with_values_pass_in_a_map_and_a_list(ask: Ask) -> None:
    assert ask(RULE, volume({**GOOD, "Name": ""})) == []
    assert ask(RULE, group(as_list(GOOD))) == []


@pytest.mark.parametrize("tags", [None, {}, {"team": None}])
def test_resource_without_tags_lacks_every_key(ask: Ask, tags: Any) -> None:
    (found,) = ask(RULE, volume(tags))
    assert "team, cost-center, project" in found.message
    assert not found.violation.unknown


@pytest.mark.parametrize("token", [*sorted(taggable_types())[::97], AUTO_SCALING_GROUP])
def test_every_taggable_type_is_judged_even_without_tags(ask: Ask, token: str) -> None:
    assert len(ask(RULE, {"type": token, "props": {}})) == 1


def test_types_without_tag_support_are_not_judged(ask: Ask) -> None:
    assert ask(RULE, {"type": "aws:ec2/route:Route", "props": {}}) == []
    assert ask(RULE, {"type": "aws:devopsguru/resourceCollection:ResourceCollection", "props": {}}) == []


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "blank"),
        ("   ", "blank"),
        ("\u00a0\t", "blank"),
        (" research", "starts or ends with a blank"),
        ("research ", "starts or ends with a blank"),
        ("\u200b", "rejects"),
        ("a;b", "rejects"),
        ("x" * 257, "rejects"),
        (True, "not text"),
        ({"is": "research"}, "not text"),
    ],
)
def test_blank_or_placeholder_value_is_found(ask: Ask, value: Any, why: str) -> None:
    for resource in (volume({**GOOD, "team": value}), group(as_list({**GOOD, "team": value}))):
        (found,) = ask(RULE, resource)
        assert why in found.message
        assert found.violation.prop == "tags.team"


@pytest.mark.parametrize("spelling", ["Team", "TEAM", "team ", " team"])
def test_key_in_another_spelling_does_not_count_and_is_named(ask: Ask, spelling: str) -> None:
    tags = {**GOOD, spelling: "research"}
    del tags["team"]
    (found,) = ask(RULE, volume(tags))
    assert "lack team" in found.message
    assert spelling in found.message


def test_underscores_instead_of_dashes_are_another_key(ask: Ask) -> None:
    (found,) = ask(RULE, volume({"team": "a", "cost_center": "b", "project": "c"}))
    assert "cost_center" in found.message


@pytest.mark.parametrize("key", ["aws:createdBy", "AWS:x"])
def test_reserved_aws_keys_are_refused(ask: Ask, key: str) -> None:
    (found,) = ask(RULE, volume({**GOOD, key: "x"}))
    assert "AWS's own" in found.message
    assert ask(RULE, volume({**GOOD, "awsome": "x"})) == []


def test_unknown_tags_fail_closed(ask: Ask) -> None:
    for resource in (volume(UNKNOWN), group(UNKNOWN)):
        (found,) = ask(RULE, resource)
        assert found.violation.unknown


def test_unknown_value_of_a_required_key_fails_closed_and_of_another_passes(ask: Ask) -> None:
    for make in (volume, lambda tags: group(as_list(tags))):
        (found,) = ask(RULE, make({**GOOD, "team": UNKNOWN}))
        assert found.violation.unknown
        assert "'team'" in found.message
        assert ask(RULE, make({**GOOD, "owner": UNKNOWN})) == []


def test_unknown_list_entry_may_only_be_a_missing_key(ask: Ask) -> None:
    assert ask(RULE, group([*as_list(GOOD), UNKNOWN])) == []
    (found,) = ask(RULE, group([*as_list({"team": "a", "project": "b"}), UNKNOWN]))
    assert found.violation.unknown
    assert "cost-center" in found.message
    assert "team" not in found.message


def test_duplicate_key_in_a_list_is_found(ask: Ask) -> None:
    (found,) = ask(RULE, group([*as_list(GOOD), *as_list({"team": " "})]))
    assert "twice" in found.message


def test_engine_format_is_parsed() -> None:
    """The marks as both engines send them: one tag unknown, one secret, or the whole unknown."""

    def judged(tags: Any) -> list[Any]:
        request = analyzer_pb2.AnalyzeRequest(type=VOLUME, name="v", urn=examples.urn_of(VOLUME, "v"))
        request.properties.update({"tags": tags})
        return list(required_tags.evaluate(wire.resource(request), context))

    context = RuleContext(RequiredTagsSettings(values={"team": ("research",)}), examples.policy_context())
    secret = {wire.SIGNATURE: wire.SECRET, "value": "hush"}
    assert judged({**GOOD, "owner": wire.UNKNOWN_STRING}) == []
    assert [each.unknown for each in judged({**GOOD, "team": wire.UNKNOWN_STRING})] == [True]
    assert [each.unknown for each in judged(wire.UNKNOWN_STRING)] == [True]
    (found,) = judged({**GOOD, "team": secret})
    assert "not an allowed value" in found.message
    assert "hush" not in found.text


def test_secret_value_is_judged_and_never_shown(ask: Ask) -> None:
    settings = {"values": {"team": ["research"]}}
    for secrets in (["tags.team"], ["tags"]):
        (found,) = ask(RULE, volume({**GOOD, "team": "hush"}, secrets=secrets), settings=settings)
        assert "hush" not in found.message
        assert "[secret]" in found.message
    assert ask(RULE, volume(GOOD, secrets=["tags.team"]), settings=settings) == []


def test_allowed_values_and_patterns_match_exactly(ask: Ask) -> None:
    settings = {"values": {"team": ["research", "serving"]}, "patterns": {"cost-center": r"cc-\d{4}"}}
    assert ask(RULE, volume(GOOD), settings=settings) == []
    (team,) = ask(RULE, volume({**GOOD, "team": "Research"}), settings=settings)
    assert "write one of research, serving" in team.message
    (centre,) = ask(RULE, volume({**GOOD, "cost-center": "cc-4711-x"}), settings=settings)
    assert r"cc-\d{4}" in centre.message


def test_additional_keys_can_be_required_and_types_excluded(ask: Ask) -> None:
    (found,) = ask(RULE, volume(GOOD), settings={"keys": ["owner"], "values": {"tier": ["a"]}})
    assert "lack owner, tier" in found.message
    assert ask(RULE, volume({}), settings={"except_types": [VOLUME]}) == []
    assert len(ask(RULE, volume({}), settings={"except_types": ["aws:iam/role:Role"]})) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"except_types": ["aws:ec2/volume:Volume"]},
        {"patterns": {"team": "("}},
        {"keys": [" "]},
        {"values": {"aws:x": ["y"]}},
        {"key": ["team"]},
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RequiredTagsSettings.model_validate(settings)


def test_fleet_file_lists_the_required_keys(ask: Ask) -> None:
    fleet = {
        "apiVersion": "gpufleet/v1",
        "fleet": "atlas",
        "environment": "prod",
        "budget": {"monthly": "1 USD"},
        "tags": {"owner": "x"},
        "required_tags": ["owner"],
        "software": {"channel": "2026.11"},
    }
    assert ask(RULE, volume({"owner": "x"}), fleet=fleet) == []
    (found,) = ask(RULE, volume(GOOD), fleet=fleet)
    assert "lack owner" in found.message


@pytest.mark.parametrize("encode", [json.dumps, lambda value: value], ids=["JSON text", "an object"])
def test_default_tags_count_for_maps_and_not_for_lists(ask: Ask, encode: Callable[[Any], Any]) -> None:
    provider = {"defaultTags": encode({"tags": GOOD})}
    assert ask(RULE, volume(), provider=provider) == []
    assert ask(RULE, volume({"Name": "x"}), provider=provider) == []
    assert len(ask(RULE, group([]), provider=provider)) == 1


def test_own_tag_overrides_the_default_tag(ask: Ask) -> None:
    provider = {"defaultTags": json.dumps({"tags": GOOD})}
    (found,) = ask(RULE, volume({"team": " "}), provider=provider)
    assert "blank" in found.message


def test_unknown_tags_may_override_defaults_and_unknown_defaults_may_lack_a_key(ask: Ask) -> None:
    provider = {"defaultTags": json.dumps({"tags": GOOD})}
    assert [each.violation.unknown for each in ask(RULE, volume(UNKNOWN), provider=provider)] == [True]
    unknown = {"defaultTags": UNKNOWN}
    assert [each.violation.unknown for each in ask(RULE, volume({}), provider=unknown)] == [True]
    assert ask(RULE, volume(GOOD), provider=unknown) == []


def test_invalid_default_tag_is_found_and_its_value_not_shown(ask: Ask) -> None:
    provider = {"defaultTags": json.dumps({"tags": {**GOOD, "team": "hush "}})}
    (found,) = ask(RULE, volume(), provider=provider)
    assert "hush" not in found.message


def test_tags_computed_by_the_real_provider_count(ask: Ask) -> None:
    """Default tags of its environment variables are nowhere else."""
    worked_out = {"type": VOLUME, "props": {"tags": {"Name": "x"}, "tagsAll": {**GOOD, "Name": "x"}}}
    assert ask(RULE, worked_out) == []
    # One unknown tag makes the result unknown as a whole; the tags themselves stay known.
    assert ask(RULE, {"type": VOLUME, "props": {"tags": {**GOOD, "x": UNKNOWN}, "tagsAll": UNKNOWN}}) == []


def test_object_that_excludes_default_tags_lacks_them(ask: Ask) -> None:
    provider = {"defaultTags": json.dumps({"tags": GOOD})}
    thing = "aws:s3/bucketObjectv2:BucketObjectv2"
    assert ask(RULE, {"type": thing, "props": {}}, provider=provider) == []
    without = {"overrideProvider": {"defaultTags": {"tags": {}}}}
    assert len(ask(RULE, {"type": thing, "props": without}, provider=provider)) == 1


@pytest.mark.parametrize("value", [" ", "", UNKNOWN, None])
def test_separate_tag_resource_cannot_blank_a_required_tag(ask: Ask, value: Any) -> None:
    single = {"type": "aws:ec2/tag:Tag", "props": {"resourceId": "i-1", "key": "team", "value": value}}
    of_group = {
        "type": AUTO_SCALING_TAG,
        "props": {"autoscalingGroupName": "g", "tag": {"key": "team", "value": value}},
    }
    for resource in (single, of_group):
        (found,) = ask(RULE, resource)
        assert found.violation.unknown == (value is UNKNOWN)


def test_separate_tags_pass_if_they_have_a_value_or_are_not_required(ask: Ask) -> None:
    def single(key: Any, value: str) -> dict[str, Any]:
        return {"type": "aws:ec2/tag:Tag", "props": {"resourceId": "i-1", "key": key, "value": value}}

    assert ask(RULE, single("team", "research")) == []
    assert ask(RULE, single("owner", " ")) == []
    assert [each.violation.unknown for each in ask(RULE, single(UNKNOWN, "x"))] == [True]


def test_region_parent_alias_and_protection_do_not_change_the_result(ask: Ask) -> None:
    holder = {"type": "gpufleet:storage:SharedStorage", "name": "holder"}
    inner = {"type": "gpufleet:storage:Inner", "name": "inner", "parent": "holder"}
    hidden = volume({}, name="deep", parent="inner", region="eu-west-1", options={"protect": True})
    hidden["props"]["region"] = "ap-south-1"
    assert len(ask(RULE, holder, inner, hidden)) == 1
