"""propagated-tags: tags of every way to start an instance."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.components.launch_template import TAGGED_AT_LAUNCH
from gpufleet.policies.rules.tags._launched import REQUIRED
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    AUTO_SCALING_TAG,
    BATCH,
    FLEET,
    INSTANCE,
    LAUNCH_CONFIGURATION,
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    SPOT_FLEET,
    SPOT_INSTANCE_REQUEST,
)

Ask = Callable[..., list[RuleViolation]]
RULE = "propagated-tags"
GOOD = {"team": "research", "cost-center": "cc-4711", "project": "atlas"}
VOLUME_ALONE = {"launched": ["volume"]}


def specifications(*kinds: str, tags: Any = GOOD) -> list[dict[str, Any]]:
    return [{"resourceType": kind, "tags": tags} for kind in kinds]


def template(entries: Any = None, **more: Any) -> dict[str, Any]:
    entries = specifications(*REQUIRED) if entries is None else entries
    props = {"name": "lt", "tags": GOOD, "tagSpecifications": entries}
    return {"type": LAUNCH_TEMPLATE, "name": "lt", "props": props, **more}


def node_group(name: str = "nodes", **props: Any) -> dict[str, Any]:
    props = {"launchTemplate": {"id": UNKNOWN, "version": UNKNOWN}, "tags": GOOD, **props}
    return {"type": NODE_GROUP, "name": name, "props": props, "depends": {"launchTemplate": ["lt"]}}


def group(tags: Any = (), **props: Any) -> dict[str, Any]:
    props = {"maxSize": 1, "launchTemplate": {"id": UNKNOWN, "version": "$Latest"}, "tags": tags, **props}
    return {
        "type": AUTO_SCALING_GROUP,
        "name": "group",
        "props": props,
        "depends": {"launchTemplate": ["lt"]},
    }


def entries(tags: dict[str, Any], passed_on: Any = True) -> list[dict[str, Any]]:
    return [{"key": key, "value": value, "propagateAtLaunch": passed_on} for key, value in tags.items()]


def kinds_of(found: list[RuleViolation]) -> set[str]:
    return {kind for kind in REQUIRED for each in found if f"each {kind} it launches" in each.message}


def test_required_kinds_equal_those_of_the_components() -> None:
    assert set(REQUIRED) == set(TAGGED_AT_LAUNCH)


def test_template_that_tags_all_three_kinds_passes_with_its_group(ask: Ask) -> None:
    assert ask(RULE, template(), node_group()) == []
    assert ask(RULE, template(), group()) == []


@pytest.mark.parametrize("missing", REQUIRED)
def test_each_missing_kind_is_found_once_for_any_number_of_groups(ask: Ask, missing: str) -> None:
    left = specifications(*(kind for kind in REQUIRED if kind != missing))
    (found,) = ask(RULE, template(left), node_group("a"), node_group("b"))
    assert kinds_of([found]) == {missing}
    assert found.urn.endswith("::lt")


def test_unused_template_is_judged(ask: Ask) -> None:
    assert kinds_of(ask(RULE, template([]))) == set(REQUIRED)
    assert ask(RULE, template()) == []


def test_node_group_without_a_launch_template_is_found_despite_its_tags(ask: Ask) -> None:
    single = {**node_group(launchTemplate=None), "depends": {}}
    (found,) = ask(RULE, single)
    assert "no launch template" in found.message
    assert found.violation.prop == "launchTemplate"


def test_foreign_template_or_older_version_fails_closed(ask: Ask) -> None:
    elsewhere = node_group(launchTemplate={"id": "lt-elsewhere", "version": "1"})
    del elsewhere["depends"]
    (found,) = ask(RULE, elsewhere)
    assert found.violation.unknown
    pinned = template()
    pinned["props"]["latestVersion"] = 7
    found_pinned = ask(RULE, pinned, node_group(launchTemplate={"id": UNKNOWN, "version": "3"}))
    assert [each.violation.unknown for each in found_pinned] == [True]


@pytest.mark.parametrize("value", ["", "  ", "research "])
def test_blank_value_at_launch_is_found(ask: Ask, value: str) -> None:
    bad = specifications("instance", tags={**GOOD, "team": value})
    (found,) = ask(RULE, template([*bad, *specifications("volume", "network-interface")]), node_group())
    assert "each instance it launches" in found.message


def test_key_in_another_spelling_does_not_count(ask: Ask) -> None:
    wrong = {"Team": "research", "cost-center": "cc-4711", "project": "atlas"}
    found = ask(RULE, template(specifications(*REQUIRED, tags=wrong)))
    assert kinds_of(found) == set(REQUIRED)
    assert all("Team" in each.message for each in found)


def test_unknown_specifications_fail_closed_and_an_unknown_other_value_passes(ask: Ask) -> None:
    for unclear in (UNKNOWN, [UNKNOWN], specifications(UNKNOWN), specifications(*REQUIRED, tags=UNKNOWN)):
        found = ask(RULE, template(unclear), node_group())
        assert found
        assert all(each.violation.unknown for each in found)
    assert ask(RULE, template(specifications(*REQUIRED, tags={**GOOD, "Name": UNKNOWN}))) == []


def test_secret_value_is_not_shown(ask: Ask) -> None:
    bad = template(specifications(*REQUIRED, tags={**GOOD, "team": "hush "}))
    found = ask(RULE, {**bad, "secrets": [f"tagSpecifications[{index}].tags" for index in range(3)]})
    assert found
    assert not any("hush" in each.message for each in found)


def test_tags_of_an_auto_scaling_group_reach_instances_only_if_propagated(ask: Ask) -> None:
    half = template(specifications("volume", "network-interface"))
    assert ask(RULE, half, group(entries(GOOD))) == []
    assert kinds_of(ask(RULE, half, group(entries(GOOD, passed_on=False)))) == {"instance"}
    (unclear,) = ask(RULE, half, group(entries(GOOD, passed_on=UNKNOWN)))
    assert unclear.violation.unknown


def test_tags_of_an_auto_scaling_group_never_reach_volumes(ask: Ask) -> None:
    found = ask(RULE, template(specifications("instance")), group(entries(GOOD)))
    assert kinds_of(found) == {"volume", "network-interface"}


def test_blank_tag_of_the_group_overrides_the_template(ask: Ask) -> None:
    (found,) = ask(RULE, template(), group(entries({"team": " "})))
    assert "blank" in found.message


def test_group_with_a_launch_configuration_cannot_tag_its_volumes(ask: Ask) -> None:
    old = {
        "type": LAUNCH_CONFIGURATION,
        "name": "old",
        "props": {"name": "old", "instanceType": "p5.48xlarge"},
    }
    using = group(entries(GOOD), launchTemplate=None, launchConfiguration="old")
    found = ask(RULE, old, {**using, "depends": {"launchConfiguration": ["old"]}})
    assert kinds_of(found) == {"volume", "network-interface"}


def test_separate_tag_resource_does_not_count_since_it_follows_the_first_launch(ask: Ask) -> None:
    half = template(specifications("volume", "network-interface"))
    later = [
        {
            "type": AUTO_SCALING_TAG,
            "name": key,
            "props": {
                "autoscalingGroupName": "g",
                "tag": {"key": key, "value": value, "propagateAtLaunch": True},
            },
        }
        for key, value in GOOD.items()
    ]
    assert kinds_of(ask(RULE, half, group(), *later)) == {"instance"}


def test_tags_of_a_fleet_do_not_count_and_those_of_its_templates_do(ask: Ask) -> None:
    fleet = {
        "type": FLEET,
        "name": "fleet",
        "props": {
            "tags": GOOD,
            "targetCapacitySpecification": {"totalTargetCapacity": 1},
            "launchTemplateConfigs": [{"launchTemplateSpecification": {"launchTemplateId": UNKNOWN}}],
        },
        "depends": {"launchTemplateConfigs": ["lt"]},
    }
    assert kinds_of(ask(RULE, template([]), fleet)) == set(REQUIRED)
    assert ask(RULE, template(), fleet) == []


def test_spot_fleet_without_templates_tags_instances_and_never_volumes(ask: Ask) -> None:
    def spot_fleet(tags: Any) -> dict[str, Any]:
        launch = {"ami": "ami-1", "instanceType": "p4d.24xlarge", "tags": tags}
        return {"type": SPOT_FLEET, "props": {"targetCapacity": 1, "launchSpecifications": [launch]}}

    assert kinds_of(ask(RULE, spot_fleet(GOOD))) == {"volume"}
    assert kinds_of(ask(RULE, spot_fleet({}))) == {"instance", "volume"}


def test_spot_instance_request_tags_only_itself(ask: Ask) -> None:
    request = {"type": SPOT_INSTANCE_REQUEST, "props": {"instanceType": "g6e.xlarge", "tags": GOOD}}
    assert kinds_of(ask(RULE, request)) == {"instance", "volume"}


def test_batch_tags_its_instances_and_has_none_on_fargate(ask: Ask) -> None:
    def batch(**props: Any) -> dict[str, Any]:
        return {"type": BATCH, "props": {"tags": GOOD, "computeResources": {"maxVcpus": 4, **props}}}

    assert ask(RULE, batch(type="EC2", tags=GOOD)) == []
    assert kinds_of(ask(RULE, batch(type="EC2"))) == {"instance"}
    assert ask(RULE, batch(type="FARGATE")) == []


@pytest.mark.parametrize(
    ("props", "fine"),
    [
        ({}, False),
        ({"volumeTags": GOOD}, True),
        ({"rootBlockDevice": {"tags": GOOD}}, True),
        ({"rootBlockDevice": {"volumeSize": 9}}, False),
        ({"rootBlockDevice": {"tags": GOOD}, "ebsBlockDevices": [{"tags": {}}]}, False),
        ({"ebsBlockDevices": [{"tags": GOOD}]}, False),
        ({"volumeTags": UNKNOWN}, False),
        ({"volumeTags": {**GOOD, "team": " "}}, False),
    ],
)
def test_volumes_of_a_single_instance_need_their_own_tags(
    ask: Ask, props: dict[str, Any], fine: bool
) -> None:
    found = ask(RULE, {"type": INSTANCE, "props": {"instanceType": "p5.48xlarge", "tags": GOOD, **props}})
    assert (found == []) == fine
    assert kinds_of(found) == (set() if fine else {"volume"})


def test_default_tags_reach_volumes_of_an_instance_and_no_launch_template(ask: Ask) -> None:
    provider = {"defaultTags": json.dumps({"tags": GOOD})}
    assert ask(RULE, {"type": INSTANCE, "props": {"instanceType": "t3.micro"}}, provider=provider) == []
    assert kinds_of(ask(RULE, template([]), node_group(), provider=provider)) == set(REQUIRED)


def test_required_kinds_are_a_setting(ask: Ask) -> None:
    assert ask(RULE, template(specifications("volume")), node_group(), settings=VOLUME_ALONE) == []
    spot = {"launched": ["spot-instances-request"]}
    (found,) = ask(RULE, template(), node_group(), settings=spot)
    assert "spot-instances-request" in found.message


def test_template_in_a_component_and_another_region_is_judged(ask: Ask) -> None:
    holder = {"type": "gpufleet:node_group:NodeGroup", "name": "holder"}
    hidden = template([], parent="holder", region="eu-west-1", options={"ignoreChanges": ["imageId"]})
    assert kinds_of(ask(RULE, holder, hidden)) == set(REQUIRED)
