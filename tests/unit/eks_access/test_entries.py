"""Access entries that others made are distinguished from those of the fleet, on the emulated AWS."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws

from gpufleet.eks_access.entries import cluster_entries
from gpufleet.eks_access.identity import AwsIdentity
from gpufleet.errors import CloudError
from gpufleet.lab.aws.backends import install

TAGS = {"gpufleet:fleet": "atlas", "gpufleet:environment": "dev"}
ROLES = {
    name: f"arn:aws:iam::123456789012:role/{name}" for name in ("ours", "other-fleet", "by-hand", "viewer")
}
CREATOR = "arn:aws:iam::123456789012:user/moto"
POLICY = "arn:aws:eks::aws:cluster-access-policy/{}"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The emulated AWS in this process."""
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    install("ec2", "eks", "iam")
    with mock_aws():
        yield


def make_cluster() -> None:
    session = boto3.Session(region_name="us-east-1")
    ec2, iam, eks = (session.client(name) for name in ("ec2", "iam", "eks"))
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{i}.0/24", AvailabilityZone=f"us-east-1{zone}")[
            "Subnet"
        ]["SubnetId"]
        for i, zone in enumerate("ab")
    ]
    role = iam.create_role(RoleName="cluster", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    eks.create_cluster(
        name="atlas",
        roleArn=role,
        resourcesVpcConfig={"subnetIds": subnets},
        accessConfig={"authenticationMode": "API"},
    )
    entries: dict[str, tuple[dict[str, str], str]] = {
        "ours": (TAGS, "AmazonEKSClusterAdminPolicy"),
        "other-fleet": (TAGS | {"gpufleet:fleet": "hermes"}, "AmazonEKSClusterAdminPolicy"),
        "by-hand": ({}, "AmazonEKSViewPolicy"),
        "viewer": (TAGS, "AmazonEKSAdminViewPolicy"),
    }
    for name, (tags, policy) in entries.items():
        entry = {"clusterName": "atlas", "principalArn": ROLES[name]}
        eks.create_access_entry(**entry, tags=tags)
        eks.associate_access_policy(**entry, policyArn=POLICY.format(policy), accessScope={"type": "cluster"})


def test_creator_of_a_cluster_that_does_not_exist_is_the_caller_and_later_its_own_entry(
    aws: None,
) -> None:
    before = cluster_entries("atlas", "us-east-1", AwsIdentity(), {}, TAGS)
    assert (before.exists, before.principals) == (False, before.admins)
    assert [arn.rpartition(":")[2] for arn in before.principals] == ["user/moto"]
    make_cluster()
    found = cluster_entries("atlas", "us-east-1", AwsIdentity(), {}, TAGS)
    assert found.exists
    assert set(found.principals) == {CREATOR, ROLES["other-fleet"], ROLES["by-hand"]}
    assert set(found.admins) == {CREATOR, ROLES["other-fleet"]}
    assert found.foreign(ROLES["ours"]) is None
    assert found.foreign("arn:aws:sts::123456789012:assumed-role/by-hand/me") == ROLES["by-hand"]
    assert not found.is_admin(ROLES["by-hand"])


def test_refused_question_names_the_permissions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    closed = {"endpoint_url": "http://127.0.0.1:9", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(CloudError, match="access entries of cluster atlas") as error:
        cluster_entries("atlas", "us-east-1", AwsIdentity(), closed, TAGS)
    assert "eks:ListAccessEntries" in error.value.remedy
