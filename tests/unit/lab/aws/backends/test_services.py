"""Sandbox extensions of IAM, SSM, KMS and CloudWatch Logs."""

from __future__ import annotations

import json
from typing import Any

import pytest

MANAGED = "arn:aws:iam::aws:policy/"


@pytest.mark.parametrize(
    "policy",
    [
        "AmazonEKSClusterPolicy",
        "AmazonEKSWorkerNodePolicy",
        "AmazonEKS_CNI_Policy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonSSMManagedInstanceCore",
        "service-role/AmazonEBSCSIDriverPolicy",
    ],
)
def test_managed_policy_exists_when_it_is_used(aws: Any, role: str, policy: str) -> None:
    iam = aws("iam")
    iam.attach_role_policy(RoleName="node", PolicyArn=MANAGED + policy)
    attached = {
        one["PolicyArn"] for one in iam.list_attached_role_policies(RoleName="node")["AttachedPolicies"]
    }
    assert MANAGED + policy in attached
    found = iam.get_policy(PolicyArn=MANAGED + policy)["Policy"]
    version = iam.get_policy_version(PolicyArn=MANAGED + policy, VersionId=found["DefaultVersionId"])
    assert version["PolicyVersion"]["Document"]["Statement"]
    iam.detach_role_policy(RoleName="node", PolicyArn=MANAGED + policy)
    assert iam.list_policies(Scope="Local")["Policies"] == []


def test_unknown_managed_policy_is_refused(aws: Any, role: str, refused: Any) -> None:
    with refused("NoSuchEntity"):
        aws("iam").attach_role_policy(RoleName="node", PolicyArn=MANAGED + "AmazonEKSClusterPolicyy")
    with refused("NoSuchEntity"):
        aws("iam").attach_role_policy(
            RoleName="node", PolicyArn=MANAGED + "wrong/path/AmazonEKSClusterPolicy"
        )


AMIS = [
    "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/nvidia/recommended/image_id",
    "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/arm64/standard/recommended/image_id",
    "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id",
    "/aws/service/bottlerocket/aws-k8s-1.34-nvidia/x86_64/latest/image_id",
    "/aws/service/canonical/ubuntu/server/22.04/stable/current/amd64/hvm/ebs-gp2/ami-id",
]


@pytest.mark.parametrize("name", AMIS)
def test_public_parameter_always_names_the_same_image(aws: Any, name: str) -> None:
    ssm, ec2 = aws("ssm"), aws("ec2")
    found = ssm.get_parameter(Name=name)["Parameter"]
    assert found["Value"].startswith("ami-")
    assert ssm.get_parameters(Names=[name])["Parameters"][0]["Value"] == found["Value"]
    (image,) = ec2.describe_images(ImageIds=[found["Value"]])["Images"]
    assert image["Architecture"] == ("arm64" if "arm64" in name else "x86_64")
    assert image["RootDeviceName"]
    assert image["Name"].startswith("fictitious-")
    elsewhere = aws("ssm", "us-west-2").get_parameter(Name=name)["Parameter"]["Value"]
    assert elsewhere != found["Value"], "an image belongs to one region"


def test_recommended_image_is_also_in_one_document(aws: Any) -> None:
    base = AMIS[0].removesuffix("/image_id")
    document = json.loads(aws("ssm").get_parameter(Name=base)["Parameter"]["Value"])
    assert document["image_id"] == aws("ssm").get_parameter(Name=AMIS[0])["Parameter"]["Value"]
    release = aws("ssm").get_parameter(Name=f"{base}/release_version")["Parameter"]["Value"]
    assert release == document["release_version"]


@pytest.mark.parametrize(
    "name",
    [
        "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/amd/recommended/image_id",
        "/aws/service/deeplearning/ami/x86_64/base/oldest/ami-id",
        "/somebody/elses",
    ],
)
def test_unknown_public_parameter_is_refused(aws: Any, refused: Any, name: str) -> None:
    with refused("ParameterNotFound"):
        aws("ssm").get_parameter(Name=name)


def test_key_rotation_has_its_period(aws: Any, refused: Any) -> None:
    kms = aws("kms")
    key = kms.create_key()["KeyMetadata"]["KeyId"]
    status = kms.get_key_rotation_status(KeyId=key)
    assert status["KeyRotationEnabled"] is False
    assert "RotationPeriodInDays" not in status
    kms.enable_key_rotation(KeyId=key)
    assert kms.get_key_rotation_status(KeyId=key)["RotationPeriodInDays"] == 365
    kms.enable_key_rotation(KeyId=key, RotationPeriodInDays=180)
    assert kms.get_key_rotation_status(KeyId=key)["RotationPeriodInDays"] == 180
    kms.disable_key_rotation(KeyId=key)
    assert kms.get_key_rotation_status(KeyId=key)["KeyRotationEnabled"] is False
    signing = kms.create_key(KeySpec="RSA_2048", KeyUsage="SIGN_VERIFY")["KeyMetadata"]["KeyId"]
    with refused("UnsupportedOperationException"):
        kms.enable_key_rotation(KeyId=signing)
    assert kms.get_key_rotation_status(KeyId=signing)["KeyRotationEnabled"] is False


def test_key_of_a_log_group_can_be_changed(aws: Any, refused: Any) -> None:
    logs = aws("logs")
    logs.create_log_group(logGroupName="/aws/eks/atlas/cluster")
    logs.associate_kms_key(logGroupName="/aws/eks/atlas/cluster", kmsKeyId="arn:aws:kms:us-east-1:1:key/1")
    (group,) = logs.describe_log_groups(logGroupNamePrefix="/aws/eks/atlas")["logGroups"]
    assert group["kmsKeyId"] == "arn:aws:kms:us-east-1:1:key/1"
    logs.disassociate_kms_key(logGroupName="/aws/eks/atlas/cluster")
    (group,) = logs.describe_log_groups(logGroupNamePrefix="/aws/eks/atlas")["logGroups"]
    assert "kmsKeyId" not in group
    with refused("ResourceNotFoundException"):
        logs.associate_kms_key(logGroupName="/absent", kmsKeyId="arn:aws:kms:us-east-1:1:key/1")


def test_protected_log_group_is_not_deleted(aws: Any, refused: Any) -> None:
    logs = aws("logs")
    logs.create_log_group(logGroupName="/kept")
    logs.put_log_group_deletion_protection(logGroupIdentifier="/kept", deletionProtectionEnabled=True)
    (group,) = logs.describe_log_groups(logGroupNamePrefix="/kept")["logGroups"]
    assert group["deletionProtectionEnabled"] is True
    with refused("ValidationException"):
        logs.delete_log_group(logGroupName="/kept")
    logs.put_log_group_deletion_protection(
        logGroupIdentifier=group["logGroupArn"], deletionProtectionEnabled=False
    )
    logs.delete_log_group(logGroupName="/kept")
    assert logs.describe_log_groups(logGroupNamePrefix="/kept")["logGroups"] == []


def test_audiences_of_an_identity_provider_can_be_changed(aws: Any, refused: Any) -> None:
    iam = aws("iam")
    name = {
        "OpenIDConnectProviderArn": iam.create_open_id_connect_provider(
            Url="https://oidc.eks.us-east-1.amazonaws.com/id/ABC", ClientIDList=["sts.amazonaws.com"]
        )["OpenIDConnectProviderArn"]
    }
    iam.add_client_id_to_open_id_connect_provider(**name, ClientID="other")
    iam.add_client_id_to_open_id_connect_provider(**name, ClientID="other")
    iam.remove_client_id_from_open_id_connect_provider(**name, ClientID="sts.amazonaws.com")
    assert iam.get_open_id_connect_provider(**name)["ClientIDList"] == ["other"]
    iam.delete_open_id_connect_provider(**name)
    with refused("NoSuchEntity"):
        iam.add_client_id_to_open_id_connect_provider(**name, ClientID="other")


@pytest.mark.parametrize("region", ["us-east-1", "us-west-2"])
def test_deep_learning_image_is_found_by_its_exact_name_only(aws: Any, region: str) -> None:
    ec2 = aws("ec2", region)
    name = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) 20260929"

    def found(value: str, **changes: Any) -> list[Any]:
        images: list[Any] = ec2.describe_images(
            **{"Owners": ["amazon"], "Filters": [{"Name": "name", "Values": [value]}]} | changes
        )["Images"]
        return images

    (image,) = found(name, IncludeDeprecated=True)
    assert (image["OwnerId"], image["RootDeviceName"], image["Architecture"]) == (
        "898082745236",
        "/dev/sda1",
        "x86_64",
    )
    assert found(name) == [image]
    assert found(name.replace("22.04", "32.04x")) == []
    assert found(name, Owners=["self"]) == []
