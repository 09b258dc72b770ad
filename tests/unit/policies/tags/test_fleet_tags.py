"""fleet-tags: tags that contradict the fleet file, and their remediation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import struct_pb2
from msgspec.structs import replace

from gpufleet.plan.marks import fleet_tags
from gpufleet.policies.rules.tags.fleet_tags import fleet_tags as rule
from gpufleet.policy import examples, wire
from gpufleet.policy.context import RuleContext
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.policy.rule import Settings
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import AUTO_SCALING_GROUP, AUTO_SCALING_TAG, LAUNCH_TEMPLATE, VOLUME
from gpufleet.spec.models import FleetSpec

Ask = Callable[..., list[RuleViolation]]
RULE = "fleet-tags"
FLEET: dict[str, Any] = {
    "apiVersion": "gpufleet/v1",
    "fleet": "atlas",
    "environment": "prod",
    "budget": {"monthly": "1000 USD"},
    "tags": {"team": "ml", "cost-center": "cc-1", "project": "atlas"},
    "software": {"channel": "2026.11"},
    "cloud": [
        {
            "site": "use1",
            "region": "us-east-1",
            "zones": ["us-east-1a"],
            "network": {"cidr": "10.40.0.0/16"},
            "scheduler": "slurm",
            "node_groups": [
                {
                    "name": "sweep",
                    "instance_types": ["p4d.24xlarge"],
                    "capacity": {"on_demand": {"min": 0, "max": 1}},
                    "team": "research",
                },
                {
                    "name": "open",
                    "instance_types": ["p4d.24xlarge"],
                    "capacity": {"on_demand": {"min": 0, "max": 1}},
                },
            ],
            "storage": [{"name": "data", "bucket": {"name": "atlas-data"}}],
        }
    ],
}
EVERYWHERE = fleet_tags(FleetSpec.model_validate(FLEET))
SITE = {"gpufleet:site": "use1"}
GOOD = {**EVERYWHERE, **SITE}


def volume(tags: Any, **more: Any) -> dict[str, Any]:
    return {"type": VOLUME, "props": {"tags": tags}, **more}


def as_list(tags: dict[str, Any], passed_on: bool = True) -> list[dict[str, Any]]:
    return [{"key": key, "value": value, "propagateAtLaunch": passed_on} for key, value in tags.items()]


def template(tags: Any, specified: Any) -> dict[str, Any]:
    entries = [{"resourceType": "instance", "tags": specified}]
    return {"type": LAUNCH_TEMPLATE, "props": {"tags": tags, "tagSpecifications": entries}}


@pytest.mark.parametrize(
    "more",
    [
        {},
        SITE,
        {"Name": UNKNOWN, "owner": "anybody"},
        {**SITE, "gpufleet:node-group": "sweep", "gpufleet:team": "research"},
        {**SITE, "gpufleet:node-group": "open"},
        {**SITE, "gpufleet:storage": "data"},
    ],
)
def test_tags_of_fleet_and_place_and_additional_ones_pass(ask: Ask, more: dict[str, Any]) -> None:
    assert ask(RULE, volume({**GOOD, **more}), fleet=FLEET) == []


@pytest.mark.parametrize("key", list(EVERYWHERE))
@pytest.mark.parametrize("value", ["other", "", "ML", "Prod", "atlas ", UNKNOWN])
def test_value_that_differs_from_the_fleet_file_is_found(ask: Ask, key: str, value: Any) -> None:
    for resource in (
        volume({**GOOD, key: value}),
        {"type": AUTO_SCALING_GROUP, "props": {"tags": as_list({**GOOD, key: value})}},
        template(GOOD, {**GOOD, key: value}),
    ):
        (found,) = ask(RULE, resource, fleet=FLEET)
        assert repr(key) in found.message
        assert found.violation.unknown == (value is UNKNOWN)


def test_missing_fleet_tags_are_found_together(ask: Ask) -> None:
    (found,) = ask(RULE, volume({"team": "ml"}), fleet=FLEET)
    assert "cost-center, project, gpufleet:environment, gpufleet:fleet, gpufleet:site" in found.message
    (unclear,) = ask(RULE, volume(UNKNOWN), fleet=FLEET)
    assert unclear.violation.unknown


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"gpufleet:site": "moon"}, "gpufleet:site"),
        ({"gpufleet:site": "Use1"}, "gpufleet:site"),
        ({"gpufleet:site": UNKNOWN}, "gpufleet:site"),
        ({**SITE, "gpufleet:node-group": "nobody"}, "gpufleet:node-group"),
        ({"gpufleet:node-group": UNKNOWN}, "gpufleet:node-group"),
        ({**SITE, "gpufleet:storage": "nothing"}, "gpufleet:storage"),
        ({**SITE, "gpufleet:node-group": "sweep", "gpufleet:team": "other"}, "gpufleet:team"),
        ({**SITE, "gpufleet:node-group": "open", "gpufleet:team": "research"}, "gpufleet:team"),
        ({"gpufleet:expires": "2031-01-01"}, "gpufleet:expires"),
        ({**SITE, "gpufleet:slurm-server": "controller"}, "gpufleet:slurm-server"),
        ({"gpufleet:Site": "use1"}, "gpufleet:Site"),
    ],
)
def test_place_outside_the_fleet_is_found(ask: Ask, more: dict[str, Any], key: str) -> None:
    (found,) = ask(RULE, volume({**GOOD, **more}), fleet=FLEET)
    assert repr(key) in found.message


@pytest.mark.parametrize(("team", "wrong"), [("red", 0), ("blue", 1), ("green", 1)])
def test_role_of_a_team_with_buckets_has_its_tag_and_no_node_group(ask: Ask, team: str, wrong: int) -> None:
    teams = [{"name": "red", "gpus": 8, "buckets": [{"storage": "data"}]}, {"name": "blue", "gpus": 8}]
    site = {**FLEET["cloud"][0], "scheduler": "kubernetes", "kubernetes": {"teams": teams}}
    role = {"type": "aws:iam/role:Role", "props": {"tags": {**GOOD, "gpufleet:team": team}}}
    found = ask(RULE, role, fleet={**FLEET, "cloud": [site]})
    assert ["site use1 has no such team" in each.message for each in found] == [True] * wrong


@pytest.mark.parametrize("own_region", [True, False])
def test_site_tag_in_another_region_is_found(ask: Ask, own_region: bool) -> None:
    elsewhere = volume({**GOOD, **SITE}, region="us-east-1" if own_region else "eu-west-1")
    if own_region:
        elsewhere["props"]["region"] = "eu-west-1"
    (found,) = ask(RULE, elsewhere, fleet=FLEET)
    assert "which is in us-east-1, and this is in eu-west-1" in found.message


def test_billed_resources_of_a_site_name_it_and_those_of_the_account_need_not(ask: Ask) -> None:
    for resource in (
        volume(EVERYWHERE),
        {"type": AUTO_SCALING_GROUP, "props": {"tags": as_list(EVERYWHERE)}},
        template(GOOD, EVERYWHERE),
    ):
        (found,) = ask(RULE, resource, fleet=FLEET)
        assert "lack the fleet's gpufleet:site" in found.message
    assert ask(RULE, {"type": "aws:budgets/budget:Budget", "props": {"tags": EVERYWHERE}}, fleet=FLEET) == []
    nowhere = {key: value for key, value in FLEET.items() if key != "cloud"}
    assert ask(RULE, volume(EVERYWHERE), fleet=nowhere) == []


@pytest.mark.parametrize("launched", [{}, {"gpufleet:node-group": "open"}])
def test_launched_resources_belong_to_the_node_group_of_their_template(
    ask: Ask, launched: dict[str, Any]
) -> None:
    of_group = {**GOOD, "gpufleet:node-group": "sweep"}
    assert ask(RULE, template(of_group, of_group), fleet=FLEET) == []
    (found,) = ask(RULE, template(of_group, {**GOOD, **launched}), fleet=FLEET)
    assert found.violation.prop == "tagSpecifications[0].tags.gpufleet:node-group"


def test_last_day_of_a_temporary_environment_is_on_everything(ask: Ask) -> None:
    fleet = {**FLEET, "expires": "2031-06-30"}
    (missing,) = ask(RULE, volume(GOOD), fleet=fleet)
    assert "gpufleet:expires" in missing.message
    (later,) = ask(RULE, volume({**GOOD, "gpufleet:expires": "2039-01-01"}), fleet=fleet)
    assert "2031-06-30" in later.message
    assert ask(RULE, volume({**GOOD, "gpufleet:expires": "2031-06-30"}), fleet=fleet) == []


def test_separate_tag_resource_cannot_contradict(ask: Ask) -> None:
    def single(key: str, value: Any) -> dict[str, Any]:
        return {"type": "aws:ec2/tag:Tag", "props": {"resourceId": "i-1", "key": key, "value": value}}

    for key, value in (
        ("team", "other"),
        ("gpufleet:site", "moon"),
        ("gpufleet:team", "x"),
        ("team", UNKNOWN),
    ):
        assert len(ask(RULE, single(key, value), fleet=FLEET)) == 1
    for key, value in (
        ("team", "ml"),
        ("gpufleet:site", "use1"),
        ("gpufleet:storage", "data"),
        ("Name", "x"),
    ):
        assert ask(RULE, single(key, value), fleet=FLEET) == []
    of_group = {"type": AUTO_SCALING_TAG, "props": {"tag": {"key": "team", "value": "other"}}}
    assert len(ask(RULE, of_group, fleet=FLEET)) == 1


def test_secret_value_is_not_shown(ask: Ask) -> None:
    (found,) = ask(RULE, volume({**GOOD, "team": "hush"}, secrets=["tags.team"]), fleet=FLEET)
    assert "hush" not in found.message


def test_missing_fleet_file_fails_closed(ask: Ask) -> None:
    (found,) = ask(RULE, volume(GOOD))
    assert found.violation.unknown
    assert "no fleet file" in found.message


# -- remediation


def remedied(described: dict[str, Any], fleet: dict[str, Any] | None = FLEET) -> dict[str, Any] | None:
    context = RuleContext(Settings(), examples.policy_context(fleet))
    assert rule.remediate is not None
    resource = examples.resource(described)
    changed = rule.remediate(resource, context)
    if changed is None:
        return None
    again = replace(resource, props={**resource.props, **changed})
    assert rule.remediate(again, context) is None, "the second time there is nothing left to do"
    return dict(changed)


@pytest.mark.parametrize("tags", [None, {}, {"team": "other"}, {"team": UNKNOWN}])
def test_fleet_tags_are_added_and_other_tags_kept(ask: Ask, tags: Any) -> None:
    described = {"type": VOLUME, "props": {"size": 1, "tags": tags}}
    changed = remedied(described)
    assert changed == {"tags": {**(tags or {}), **GOOD}}
    assert ask(RULE, {"type": VOLUME, "props": changed}, fleet=FLEET) == []
    kept = remedied(volume({"Name": "x", "owner": UNKNOWN, "Team": "y"}))
    assert kept == {"tags": {"Name": "x", "owner": UNKNOWN, "Team": "y", **GOOD}}


def test_correct_tags_are_unchanged() -> None:
    assert remedied(volume({**GOOD, "Name": "x"})) is None
    assert remedied({"type": AUTO_SCALING_GROUP, "props": {"tags": as_list(GOOD)}}) is None


def test_unknown_tags_cannot_be_remediated() -> None:
    assert remedied(volume(UNKNOWN)) is None
    assert remedied({"type": AUTO_SCALING_GROUP, "props": {"tags": UNKNOWN}}) is None


def test_tag_list_keeps_its_order_and_propagation(ask: Ask) -> None:
    before = [
        {"key": "Name", "value": "x", "propagateAtLaunch": False},
        UNKNOWN,
        {"key": "team", "value": "other", "propagateAtLaunch": False},
    ]
    changed = remedied({"type": AUTO_SCALING_GROUP, "props": {"tags": before}})
    assert changed is not None
    assert changed["tags"][:3] == [before[0], UNKNOWN, {**before[2], "value": "ml"}]
    assert {each["key"] for each in changed["tags"][3:]} == set(GOOD) - {"team"}
    assert {"key": "gpufleet:site", "value": "use1", "propagateAtLaunch": True} in changed["tags"]
    assert all(each["propagateAtLaunch"] for each in changed["tags"][3:])
    assert ask(RULE, {"type": AUTO_SCALING_GROUP, "props": changed}, fleet=FLEET) == []


def test_specifications_of_a_launch_template_are_fixed_and_completed() -> None:
    changed = remedied(template({**GOOD, "Name": "x"}, {"Name": "node", "team": "other"}))
    assert changed is not None
    assert "tags" not in changed
    first, *others = changed["tagSpecifications"]
    assert first == {"resourceType": "instance", "tags": {"Name": "node", **GOOD}}
    assert others == [{"resourceType": kind, "tags": GOOD} for kind in ("volume", "network-interface")]


@pytest.mark.parametrize("entries", [UNKNOWN, [UNKNOWN]])
def test_unknown_specifications_are_unchanged(entries: Any) -> None:
    described = {"type": LAUNCH_TEMPLATE, "props": {"tags": GOOD, "tagSpecifications": entries}}
    assert remedied(described) is None


def test_no_kind_is_added_beside_an_unknown_one() -> None:
    entries = [{"resourceType": UNKNOWN, "tags": {}}]
    changed = remedied({"type": LAUNCH_TEMPLATE, "props": {"tags": GOOD, "tagSpecifications": entries}})
    assert changed == {"tagSpecifications": [{"resourceType": UNKNOWN, "tags": GOOD}]}


def test_iam_gets_no_two_spellings_of_a_key() -> None:
    role = {"type": "aws:iam/role:Role", "props": {"tags": {"Team": "ml", "Name": "x"}}}
    assert remedied(role) == {"tags": {"Name": "x", **EVERYWHERE}}


def test_site_is_added_only_if_the_region_has_one_and_none_is_named() -> None:
    assert remedied(volume({}, region="eu-west-1")) == {"tags": EVERYWHERE}
    assert remedied(volume({"gpufleet:site": "moon"})) == {"tags": {"gpufleet:site": "moon", **EVERYWHERE}}
    network = {"cidr": "10.41.0.0/16"}
    twice = {**FLEET, "cloud": [*FLEET["cloud"], {**FLEET["cloud"][0], "site": "use1b", "network": network}]}
    assert remedied(volume({}), fleet=twice) == {"tags": EVERYWHERE}


def test_result_of_the_real_provider_is_fixed_with_the_tags() -> None:
    props = {"tags": {"Name": "x"}, "tagsAll": {"Name": "x", "by": "provider"}}
    changed = remedied({"type": VOLUME, "props": props})
    assert changed == {"tags": {"Name": "x", **GOOD}, "tagsAll": {"Name": "x", "by": "provider", **GOOD}}


def test_separate_tags_and_stacks_without_a_fleet_file_are_unchanged() -> None:
    assert remedied({"type": "aws:ec2/tag:Tag", "props": {"key": "team", "value": "x"}}) is None
    assert remedied(volume({}), fleet=None) is None


def test_secret_values_return_to_the_engine_as_secrets() -> None:
    tags = {"owner": "hush", "later": UNKNOWN}
    resource = examples.resource(volume(tags, secrets=["tags.owner"]))
    assert rule.remediate is not None
    changed = rule.remediate(resource, RuleContext(Settings(), examples.policy_context(FLEET)))
    assert changed is not None
    sent = struct_pb2.Struct()
    wire.write(sent, "tags", changed["tags"], resource.secrets)
    secrets: set[str] = set()
    assert wire.properties(sent, secrets) == {"tags": {"owner": "hush", "later": UNKNOWN, **GOOD}}
    assert secrets == {"tags.owner"}


def test_tag_of_the_autoscaler_names_a_cluster_of_the_fleet_that_has_one(ask: Ask) -> None:
    site = {**FLEET["cloud"][0], "scheduler": "kubernetes", "kubernetes": {"autoscaler": {}}}

    def judged(value: Any, **kubernetes: Any) -> list[str]:
        tag = {"key": "gpufleet:autoscaler", "value": value}
        resource = {"type": AUTO_SCALING_TAG, "props": {"tag": tag}}
        fleet = {**FLEET, "cloud": [{**site, "kubernetes": kubernetes}]}
        return [each.message for each in ask(RULE, resource, fleet=fleet)]

    assert judged("atlas-prod-use1", autoscaler={}) == []
    for found in (
        judged("atlas-prod-use2", autoscaler={}),
        judged("atlas-prod-use1"),
        judged("atlas-prod-use1", autoscaler={"kind": "none"}),
    ):
        assert len(found) == 1
        assert "no autoscaler of the fleet has that name" in found[0]
    (unknown,) = judged(UNKNOWN, autoscaler={})
    assert "must be one of the fleet file" in unknown


def test_tag_of_groups_that_drain_is_of_a_budget_that_drains_them(ask: Ask) -> None:
    def judged(value: str, on_breach: str) -> list[str]:
        tag = {"key": "gpufleet:budget-drain", "value": value}
        resource = {"type": AUTO_SCALING_TAG, "props": {"tag": tag}}
        budget = {**FLEET["budget"], "on_breach": on_breach}
        return [each.message for each in ask(RULE, resource, fleet={**FLEET, "budget": budget})]

    assert judged("spot", "drain-spot") == []
    for value, on_breach in (("spot", "stop-scale-out"), ("all", "drain-spot")):
        assert "no budget of the fleet drains it" in judged(value, on_breach)[0]
