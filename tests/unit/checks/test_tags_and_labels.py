"""Tags, labels and taints."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checks.fleets import GONE, Judge

GROUP = "cloud.0.node_groups.0"


def test_missing_required_tags_are_reported_one_by_one(judge: Judge) -> None:
    reported = judge({"tags.team": GONE, "tags.project": GONE})
    assert reported.rules == {"required-tags"}
    assert [finding.value for finding in reported.of("required-tags")] == ["team", "project"]


def test_empty_required_tag_is_refused(judge: Judge) -> None:
    finding = judge({"tags.team": ""}).only("required-tags")
    assert finding.field == "tags.team"
    assert "empty" in finding.message
    assert judge({"tags.team": " "}).only("required-tags").value == " "


def test_required_tag_in_another_spelling_is_named(judge: Judge) -> None:
    finding = judge({"tags": {"team": "a", "Cost_Center": "b", "project": "c"}}).only("required-tags")
    assert "'Cost_Center'" in finding.remedy


def test_environment_may_require_other_tags(judge: Judge) -> None:
    assert judge({"required_tags": ["owner"], "tags": {"owner": "jo"}}).rules == set()
    judge({"required_tags": ["owner"]}).only("required-tags")


@pytest.mark.parametrize("key", ["aws:team", "AWS:x", "gpufleet:site", "what#", "k" * 129, "a#b"])
def test_reserved_tag_keys_are_refused(judge: Judge, key: str) -> None:
    finding = judge({"tags": {"team": "a", "cost-center": "b", "project": "c", key: "x"}}).only("tag-key")
    assert finding.value == key


def test_empty_tag_key_is_refused_by_its_length(judge: Judge) -> None:
    finding = judge({"tags": {"team": "a", "cost-center": "b", "project": "c", "": "x"}}).only("tag-key")
    assert "has 1 to 128 characters, but this one has 0" in finding.message


def test_tag_keys_that_differ_only_in_case_are_refused(judge: Judge) -> None:
    judge({"tags.Team": "x"}).only("tag-key")


@pytest.mark.parametrize("value", ["a#b", "x" * 257, "50%"])
def test_tag_values_that_aws_refuses_are_refused(judge: Judge, value: str) -> None:
    finding = judge({"tags.note": value}).only("tag-value")
    assert finding.field == "tags.note"


def test_longest_tags_with_every_valid_character_pass(judge: Judge) -> None:
    assert judge({"tags.note": "x" * 256, f"tags.{'k' * 128}": ""}).rules == set()
    assert judge({"tags.note": "Fr\u00e9d\u00e9ric's".replace("'", "") + " 1_.:/=+-@"}).rules == set()


def test_too_many_tags_are_refused(judge: Judge) -> None:
    tags = {"team": "a", "cost-center": "b", "project": "c"}
    most: dict[str, Any] = {"tags": tags | {f"k{number}": "v" for number in range(38)}}
    assert judge(most).rules == set()
    judge({"tags": most["tags"] | {"one-more": "v"}}).only("tag-count")


@pytest.mark.parametrize(
    "key", [".x", "a b", "Example.com/x", "kubernetes.io/role", "node.k8s.io/x", "gpufleet.io/gpu", "a" * 64]
)
def test_reserved_label_keys_are_refused(judge: Judge, key: str) -> None:
    finding = judge({f"{GROUP}.labels": {key: "x"}}).only("label-legal")
    assert finding.value == key


@pytest.mark.parametrize("value", ["a b", ".x", "v" * 64, ""])
def test_label_values_that_eks_refuses_are_refused(judge: Judge, value: str) -> None:
    judge({f"{GROUP}.labels": {"example.com/x": value}}).only("label-legal")


def test_ordinary_labels_and_taints_pass(judge: Judge) -> None:
    reported = judge(
        {
            f"{GROUP}.labels": {"example.com/tier": "gold", "zone_kind": "A.1", "k" * 63: "v" * 63},
            f"{GROUP}.taints": [{"key": "example.com/only"}, {"key": "nvidia.com/gpu", "value": "present"}],
        }
    )
    assert reported.rules == set()


@pytest.mark.parametrize(
    "taints",
    [
        [{"key": "a b"}],
        [{"key": "kubernetes.io/x"}],
        [{"key": "x", "value": "a b"}],
        [{"key": "x"}, {"key": "x", "value": "other"}],
    ],
)
def test_taints_that_kubernetes_refuses_are_refused(judge: Judge, taints: list[dict[str, str]]) -> None:
    finding = judge({f"{GROUP}.taints": taints}).only("taint-legal")
    assert finding.field.startswith("cloud[0].node_groups[0].taints[")


def test_same_key_with_two_effects_passes(judge: Judge) -> None:
    taints = [{"key": "x"}, {"key": "x", "effect": "NoExecute"}]
    assert judge({f"{GROUP}.taints": taints}).rules == set()


def test_labels_in_a_slurm_site_are_a_warning(judge: Judge) -> None:
    changes: dict[str, Any] = {
        "cloud.0.scheduler": "slurm",
        "cloud.0.kubernetes": GONE,
        "cloud.0.node_groups.0.team": GONE,
        f"{GROUP}.labels": {"a": "b"},
    }
    reported = judge(changes)
    assert reported.rules == {"labels-without-kubernetes", "slurm-cloud-unconnected"}
    assert [finding.field for finding in reported.of("labels-without-kubernetes")] == [
        "cloud[0].node_groups[0].labels"
    ]
    assert {finding.severity for finding in reported.of("labels-without-kubernetes")} == {"warning"}


def test_kubernetes_settings_in_a_slurm_site_are_refused(judge: Judge) -> None:
    reported = judge({"cloud.0.scheduler": "slurm", "cloud.0.node_groups.0.team": GONE})
    assert reported.rules == {"one-scheduler", "slurm-cloud-unconnected"}
    (finding,) = reported.of("one-scheduler")
    assert (finding.field, finding.severity) == ("cloud[0].kubernetes", "error")
