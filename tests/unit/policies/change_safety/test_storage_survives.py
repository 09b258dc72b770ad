"""storage-survives: deletions, replacements, renames, retained resources, and keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policies.rules.change_safety.storage_survives import DATA
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import BUCKETS, INSTANCE, LUSTRE, VOLUME

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]
RULE = "storage-survives"
KEY = "aws:kms/key:Key"


def lustre(name: str = "checkpoints", **props: Any) -> Described:
    return {"type": LUSTRE, "name": name, "props": {"deploymentType": "PERSISTENT_2", **props}}


@pytest.mark.parametrize("kind", DATA)
def test_every_resource_with_data_is_kept(kind: str, ask: Ask) -> None:
    before: Described = {"type": kind, "name": "data", "props": {"size": 1}}
    (found,) = ask(RULE, [before])
    assert "deleted" in found.message
    (found,) = ask(RULE, [before], [{**before, "props": {"size": 2, "__replace": ["size"]}}])
    assert "replaced (by size)" in found.message
    assert found.violation.prop == "size"
    assert ask(RULE, [before], [{**before, "props": {"size": 2}}]) == []
    assert ask(RULE, [before], [before]) == []


def volume(policy: str | None = "Retain", name: str = "team-data") -> Described:
    spec = {} if policy is None else {"persistentVolumeReclaimPolicy": policy}
    return {
        "type": "kubernetes:core/v1:PersistentVolume",
        "name": "volume",
        "props": {"metadata": {"name": name}, "spec": spec},
    }


def claim(volume_name: str | None = "team-data") -> Described:
    spec = {} if volume_name is None else {"volumeName": volume_name}
    return {"type": "kubernetes:core/v1:PersistentVolumeClaim", "name": "claim", "props": {"spec": spec}}


def test_volume_that_kubernetes_retains_may_go_with_its_claim(ask: Ask) -> None:
    assert ask(RULE, [volume(), claim()]) == []
    replaced = {**claim(), "props": {"spec": {"volumeName": "other"}, "__replace": ["spec.volumeName"]}}
    assert ask(RULE, [volume(), claim()], [replaced]) == []


@pytest.mark.parametrize("policy", ["Delete", "Recycle", UNKNOWN, None])
def test_volume_that_may_be_deleted_with_its_data_is_kept_with_its_claim(ask: Ask, policy: Any) -> None:
    assert {each.urn.rpartition("::")[2] for each in ask(RULE, [volume(policy), claim()])} == {
        "volume",
        "claim",
    }


@pytest.mark.parametrize("before", [[claim()], [volume(name="other"), claim()], [volume(), claim(None)]])
def test_claim_of_a_volume_that_is_not_in_the_stack_is_kept(ask: Ask, before: list[Described]) -> None:
    (found,) = ask(RULE, before)
    assert found.urn.endswith("::claim")


def test_new_resources_and_those_without_data_pass(ask: Ask) -> None:
    assert ask(RULE, [], [lustre()]) == []
    assert ask(RULE, [{"type": INSTANCE, "name": "node"}]) == []


def test_rename_with_an_alias_passes_and_without_one_is_a_deletion(ask: Ask) -> None:
    renamed = {**lustre("ckpt"), "options": {"aliases": ["checkpoints"]}}
    assert ask(RULE, [lustre()], [renamed]) == []
    assert len(ask(RULE, [lustre()], [lustre("ckpt")])) == 1


def test_alias_does_not_hide_a_replacement(ask: Ask) -> None:
    renamed = {
        **lustre("ckpt", deploymentType="SCRATCH_2", __replace=["deploymentType"]),
        "options": {"aliases": ["checkpoints"]},
    }
    (found,) = ask(RULE, [lustre()], [renamed])
    assert found.urn.endswith("::ckpt")


def test_retained_resource_survives_a_deletion_and_not_a_replacement(ask: Ask) -> None:
    retained = {**lustre(), "options": {"retainOnDelete": True}}
    assert ask(RULE, [retained]) == []
    assert len(ask(RULE, [retained], [{**retained, "props": {"__replace": ["subnetIds"]}}])) == 1


def test_protection_is_not_an_exemption(ask: Ask) -> None:
    assert len(ask(RULE, [{**lustre(), "options": {"protect": True}}])) == 1


def test_scratch_may_be_deleted_if_the_settings_allow_it(ask: Ask) -> None:
    scratch = lustre(deploymentType="SCRATCH_2")
    assert len(ask(RULE, [scratch])) == 1
    assert ask(RULE, [scratch], settings={"scratch": True}) == []
    assert len(ask(RULE, [lustre()], settings={"scratch": True})) == 1


def test_file_system_changed_to_scratch_still_counts_as_persistent(ask: Ask) -> None:
    after = lustre(deploymentType="SCRATCH_2", __replace=["deploymentType"])
    assert len(ask(RULE, [lustre()], [after], settings={"scratch": True})) == 1


def test_key_that_encrypts_data_is_kept_and_another_is_not(ask: Ask) -> None:
    key: Described = {"type": KEY, "name": "key", "props": {"arn": "arn:key"}}
    encrypted = {**lustre(), "depends": {"kmsKeyId": ["key"]}}
    assert ask(RULE, [key]) == []
    (found,) = ask(RULE, [key, encrypted], [{**encrypted, "depends": {}}])
    assert found.urn.endswith("::key")
    assert "checkpoints" in found.message
    named = {"type": VOLUME, "name": "volume", "props": {"kmsKeyId": "arn:key"}}
    assert len(ask(RULE, [key, named], [named])) == 1


def test_key_of_a_bucket_may_be_in_a_separate_resource(ask: Ask) -> None:
    key: Described = {"type": KEY, "name": "key"}
    beside = {
        "type": "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
        "name": "encryption",
        "depends": {"rules": ["key"]},
    }
    bucket = {"type": BUCKETS[0], "name": "bucket"}
    (found,) = ask(RULE, [key, beside, bucket], [bucket])
    assert "encryption" in found.message


def test_new_environment_deletes_nothing(ask: Ask) -> None:
    assert ask(RULE, [], [lustre(), {"type": KEY, "name": "key"}]) == []


def bucket(**props: Any) -> Described:
    return {"type": BUCKETS[0], "name": "models", "props": {"bucket": "atlas-models", **props}}


def lifecycle(days: Any = None, *, former: Any = None, status: str = "Enabled") -> Described:
    rule: dict[str, Any] = {"status": status}
    if days is not None:
        rule["expiration"] = {"days": days}
    if former is not None:
        rule["noncurrentVersionExpiration"] = {"noncurrentDays": former}
    kind = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
    return {"type": kind, "name": "expiry", "props": {"bucket": "atlas-models", "rules": [rule]}}


@pytest.mark.parametrize(
    ("before", "after", "how"),
    [
        ([], [lifecycle(1)], "after 1 days instead of never"),
        ([lifecycle(90)], [lifecycle(30)], "after 30 days instead of after 90 days"),
        ([lifecycle(90, status="Disabled")], [lifecycle(90)], "after 90 days instead of never"),
        ([lifecycle(former=30)], [lifecycle(former=1)], "former versions"),
        ([lifecycle(90)], [lifecycle(UNKNOWN)], "unknown date"),
    ],
)
def test_bucket_must_not_expire_its_objects_sooner(
    before: list[Described], after: list[Described], how: str, ask: Ask
) -> None:
    (found,) = ask(RULE, [bucket(), *before], [bucket(), *after])
    assert how in found.message
    assert found.urn.endswith("::models")


def test_bucket_with_longer_same_or_new_retention_passes(ask: Ask) -> None:
    assert ask(RULE, [bucket(), lifecycle(30)], [bucket(), lifecycle(90)]) == []
    assert ask(RULE, [bucket(), lifecycle(30)], [bucket(), lifecycle(30)]) == []
    assert ask(RULE, [bucket(), lifecycle(30)], [bucket()]) == []
    assert ask(RULE, [], [bucket(), lifecycle(1)]) == []


def test_inline_lifecycle_rules_and_renames_count(ask: Ask) -> None:
    inside = bucket(lifecycleRules=[{"enabled": True, "expiration": {"days": 1}}])
    assert len(ask(RULE, [bucket()], [inside])) == 1
    assert len(ask(RULE, [bucket()], [{**inside, "name": "m2", "options": {"aliases": ["models"]}}])) == 1


def ours(**outputs: str) -> list[Described]:
    """A bucket of gpufleet's own component, as it is before its lifecycle is put."""
    component = {"type": "gpufleet:storage:Bucket", "name": "ours", "props": outputs}
    return [component, {**bucket(), "parent": "ours"}]


def test_lifecycle_of_an_interrupted_bucket_creation_shortens_nothing(ask: Ask) -> None:
    assert ask(RULE, ours(), [*ours(), lifecycle(30)]) == []


def test_removed_or_foreign_lifecycle_shortens_retention(ask: Ask) -> None:
    complete = ours(lifecycleId="atlas-models")
    assert len(ask(RULE, complete, [*complete, lifecycle(30)])) == 1
    other = [{**ours()[0], "type": "user:storage:Bucket"}, ours()[1]]
    assert len(ask(RULE, other, [*other, lifecycle(30)])) == 1
    assert len(ask(RULE, [*ours(), lifecycle(90)], [*ours(), lifecycle(30)])) == 1
