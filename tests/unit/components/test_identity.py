"""IamRoles and PodRole: least privilege."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpufleet.components.identity import (
    IamRoles,
    IamRolesArgs,
    PodRole,
    PodRoleArgs,
    TeamBucketArgs,
    team_bucket_statements,
)
from gpufleet.errors import InputError
from tests.unit.components.recording import Recording, record

BUCKET = "arn:aws:s3:::atlas-data"


def roles(**changes: Any) -> Recording:
    args: dict[str, Any] = {"scheduler": "kubernetes", "tags": {"team": "ml"}}
    return record(lambda: IamRoles("site", IamRolesArgs(**args | changes)))


def attached(built: Recording) -> set[str]:
    return {
        r.inputs["policyArn"].removeprefix("arn:aws:iam::aws:policy/")
        for r in built.of("RolePolicyAttachment")
    }


def test_kubernetes_nodes_have_no_network_plugin_permissions() -> None:
    assert attached(roles()) == {
        "AmazonEKSWorkerNodePolicy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonSSMManagedInstanceCore",
        "AmazonEKSClusterPolicy",
    }


def test_slurm_site_has_no_cluster_role() -> None:
    seen: list[Any] = []
    built = record(lambda: seen.append(IamRoles("site", IamRolesArgs(scheduler="slurm", tags={}))))
    assert attached(built) == {"AmazonSSMManagedInstanceCore"}
    assert [r.name for r in built.of("Role")] == ["site-node"]
    assert seen[0].cluster_role_arn is None


def test_each_role_trusts_one_service() -> None:
    trusted = {
        r.name: json.loads(r.inputs["assumeRolePolicy"])["Statement"][0]["Principal"]
        for r in roles().of("Role")
    }
    assert trusted == {
        "site-node": {"Service": ["ec2.amazonaws.com"]},
        "site-cluster": {"Service": ["eks.amazonaws.com"]},
    }


def test_nodes_can_access_only_the_listed_buckets() -> None:
    policy = json.loads(roles(bucket_arns=[BUCKET]).one("RolePolicy").inputs["policy"])
    resources = {arn for statement in policy["Statement"] for arn in statement["Resource"]}
    assert resources == {BUCKET, f"{BUCKET}/*"}
    assert roles().of("RolePolicy") == []


def test_nodes_can_use_exactly_the_keys_of_their_buckets() -> None:
    key = "arn:aws:kms:us-east-1:123456789012:key/data"
    built = roles(bucket_arns=[BUCKET], bucket_key_arns=[key])
    statements = json.loads(built.one("RolePolicy").inputs["policy"])["Statement"]
    (of_keys,) = [s for s in statements if any(a.startswith("kms:") for a in s["Action"])]
    assert set(of_keys["Action"]) == {"kms:Decrypt", "kms:GenerateDataKey"}
    assert of_keys["Resource"] == [key]


def test_buckets_without_own_keys_grant_no_key_permission() -> None:
    assert "kms:" not in roles(bucket_arns=[BUCKET]).one("RolePolicy").inputs["policy"]


def test_no_statement_has_a_wildcard_action() -> None:
    policy = json.loads(roles(bucket_arns=[BUCKET]).one("RolePolicy").inputs["policy"])
    assert not [a for s in policy["Statement"] for a in s["Action"] if "*" in a]


def test_pod_role_is_for_one_service_account_by_pod_identity() -> None:
    built = record(
        lambda: PodRole(
            "csi",
            PodRoleArgs(
                cluster_name="atlas",
                namespace="kube-system",
                service_account="ebs-csi",
                managed_policies=["service-role/AmazonEBSCSIDriverPolicy"],
                tags={"team": "ml"},
            ),
        )
    )
    (statement,) = json.loads(built.one("Role").inputs["assumeRolePolicy"])["Statement"]
    assert statement["Principal"] == {"Service": ["pods.eks.amazonaws.com"]}
    assert set(statement["Action"]) == {"sts:AssumeRole", "sts:TagSession"}
    association = built.one("PodIdentityAssociation")
    assert (association.inputs["namespace"], association.inputs["serviceAccount"]) == (
        "kube-system",
        "ebs-csi",
    )
    assert built.one("RolePolicyAttachment").urn in association.dependencies


KEY = "arn:aws:kms:us-east-1:123456789012:key/1"
ARCHIVE, ARCHIVE_KEY = "arn:aws:s3:::atlas-archive", "arn:aws:kms:us-east-1:123456789012:key/2"
BOTH = (
    TeamBucketArgs(arn=BUCKET, key_arn=KEY),
    TeamBucketArgs(arn=ARCHIVE, key_arn=ARCHIVE_KEY, write=False),
)


def pods(team: str = "red", buckets: tuple[TeamBucketArgs, ...] = BOTH) -> dict[str, dict[str, Any]]:
    """The statements of a team's role by their actions."""
    made = record(
        lambda: PodRole(
            "red-data",
            PodRoleArgs(
                cluster_name="atlas",
                namespace=team,
                service_account="gpufleet-data",
                statements=team_bucket_statements(team, buckets, "us-east-1"),
                tags={},
            ),
        )
    )
    policy = json.loads(made.one("RolePolicy").inputs["policy"])
    return {" ".join(each["Action"]): each for each in policy["Statement"]}


def test_pods_of_a_team_write_below_its_prefix_of_writable_buckets_only() -> None:
    (writes,) = [each for action, each in pods().items() if "s3:PutObject" in action]
    assert writes["Resource"] == [f"{BUCKET}/red/*"]
    (keys,) = [each for action, each in pods().items() if "kms:GenerateDataKey" in action]
    assert keys["Resource"] == [KEY]


def test_pods_of_a_team_read_its_prefix_and_the_shared_one() -> None:
    assert pods()["s3:GetObject"]["Resource"] == [
        f"{arn}/{prefix}/*" for arn in (BUCKET, ARCHIVE) for prefix in ("red", "shared")
    ]
    assert pods()["kms:Decrypt"]["Resource"] == [KEY, ARCHIVE_KEY]


def test_pods_of_a_team_list_only_these_prefixes() -> None:
    condition = pods()["s3:ListBucket"]["Condition"]
    assert condition == {"StringLike": {"s3:prefix": ["red/*", "shared/*"]}}
    allowed = {action for actions in pods() for action in actions.split()}
    assert not any("*" in action for action in allowed)
    assert not any(each["Resource"] == "*" for each in pods().values())


def test_keys_are_used_only_through_s3_of_the_region() -> None:
    for action, statement in pods().items():
        if "kms:" in action:
            assert statement["Condition"] == {
                "StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"}
            }


def test_pods_that_only_read_get_no_permission_to_write() -> None:
    allowed = {action for actions in pods(buckets=BOTH[1:]) for action in actions.split()}
    assert allowed == {"s3:GetBucketLocation", "s3:ListBucket", "s3:GetObject", "kms:Decrypt"}


@pytest.mark.parametrize("team", ["", "*", "red/*", "red/../blue", "?"])
def test_team_that_is_no_safe_prefix_is_refused(team: str) -> None:
    with pytest.raises(InputError, match="no prefix of a bucket"):
        team_bucket_statements(team, BOTH, "us-east-1")
