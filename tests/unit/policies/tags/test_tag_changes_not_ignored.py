"""tag-changes-not-ignored: options that keep tags as they were, and those that keep others' tags."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    AUTO_SCALING_TAG,
    INSTANCE,
    LAUNCH_TEMPLATE,
    LUSTRE,
    PROVIDER,
    VOLUME,
)

Ask = Callable[..., list[RuleViolation]]
RULE = "tag-changes-not-ignored"


def ignoring(path: str, kind: str = VOLUME, **props: Any) -> dict[str, Any]:
    return {"type": kind, "props": props, "options": {"ignoreChanges": [path]}}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("tags", VOLUME),
        ("tagsAll", VOLUME),
        ("*", VOLUME),
        ("tags.*", VOLUME),
        ("tags[*]", VOLUME),
        ("tags.team", VOLUME),
        ('tags["cost-center"]', VOLUME),
        ('tags["gpufleet:site"]', VOLUME),
        ("tagsAll.team", VOLUME),
        ("tags", AUTO_SCALING_GROUP),
        ("tags[0]", AUTO_SCALING_GROUP),
        ("tags[0].value", AUTO_SCALING_GROUP),
        ("tagSpecifications", LAUNCH_TEMPLATE),
        ("tagSpecifications[0]", LAUNCH_TEMPLATE),
        ("tagSpecifications[0].tags.team", LAUNCH_TEMPLATE),
        ("volumeTags", INSTANCE),
        ("rootBlockDevice.tags", INSTANCE),
        ("copyTagsToBackups", LUSTRE),
    ],
)
def test_ignored_changes_of_cost_tags_are_found(ask: Ask, path: str, kind: str) -> None:
    (found,) = ask(RULE, ignoring(path, kind))
    assert repr(path) in found.message


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("size", VOLUME),
        ("tagged", VOLUME),
        ('tags["kubernetes.io/cluster/atlas"]', VOLUME),
        ("tags.kubernetes.io/cluster/atlas", VOLUME),
        ("tags.Name", VOLUME),
        ("tags.teams", VOLUME),
        ("desiredCapacity", AUTO_SCALING_GROUP),
        ("imageId", LAUNCH_TEMPLATE),
        ('tagSpecifications[0].tags["x.example/y"]', LAUNCH_TEMPLATE),
    ],
)
def test_ignored_changes_of_other_properties_pass(ask: Ask, path: str, kind: str) -> None:
    assert ask(RULE, ignoring(path, kind)) == []


def test_additional_required_keys_count(ask: Ask) -> None:
    assert len(ask(RULE, ignoring("tags.owner"), settings={"keys": ["owner"]})) == 1


@pytest.mark.parametrize("path", ["value", "key", "*", "resourceId"])
def test_separate_tag_resource_of_a_cost_key_is_judged(ask: Ask, path: str) -> None:
    for key, count in (("team", 1), (UNKNOWN, 1), ("Name", 1 if path == "*" else 0)):
        assert len(ask(RULE, ignoring(path, "aws:ec2/tag:Tag", key=key, value="x"))) == count
    of_group = ignoring("tag.value", AUTO_SCALING_TAG, tag={"key": "team", "value": "x"})
    assert len(ask(RULE, of_group)) == 1


@pytest.mark.parametrize("encode", [json.dumps, lambda value: value], ids=["JSON text", "an object"])
@pytest.mark.parametrize(
    ("ignored", "count"),
    [
        ({"keys": ["team"]}, 1),
        ({"keys": ["gpufleet:site", "project", "Name"]}, 2),
        ({"keyPrefixes": ["cost-"]}, 1),
        ({"keyPrefixes": ["gpufleet:si"]}, 1),
        ({"keyPrefixes": ["gpu"]}, 1),
        ({"keyPrefixes": [""]}, 1),
        ({"keys": ["Team"], "keyPrefixes": ["kubernetes.io/"]}, 0),
        ({}, 0),
    ],
)
def test_tags_ignored_by_the_provider_must_not_be_cost_tags(
    ask: Ask, ignored: dict[str, Any], count: int, encode: Callable[[Any], Any]
) -> None:
    assert len(ask(RULE, {"type": PROVIDER, "props": {"ignoreTags": encode(ignored)}})) == count


@pytest.mark.parametrize("ignored", [UNKNOWN, {"keys": UNKNOWN}, {"keys": [UNKNOWN]}])
def test_unknown_ignore_list_of_the_provider_fails_closed(ask: Ask, ignored: Any) -> None:
    (found,) = ask(RULE, {"type": PROVIDER, "props": {"ignoreTags": ignored}})
    assert found.violation.unknown
    assert ask(RULE, {"type": PROVIDER, "props": {"region": UNKNOWN}}) == []
