"""Lifecycles of the identity types: roles, policies, keys, and log groups."""

from __future__ import annotations

from tests.unit.lab.aws.provider.driver import Resource
from tests.unit.lab.aws.provider.scenarios import Scenario
from tests.unit.lab.aws.provider.world import World, allow, trust


def role_drift(world: World, resource: Resource) -> str:
    world.client("iam").update_assume_role_policy(
        RoleName=resource.id, PolicyDocument=trust("lambda.amazonaws.com")
    )
    return "assumeRolePolicy"


def role_policy_drift(world: World, resource: Resource) -> str:
    role, _, name = resource.id.partition(":")
    world.client("iam").put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=allow("*", "*"))
    return "policy"


def policy_drift(world: World, resource: Resource) -> str:
    world.client("iam").create_policy_version(
        PolicyArn=resource.id, PolicyDocument=allow("*", "*"), SetAsDefault=True
    )
    return "policy"


def profile_drift(world: World, resource: Resource) -> str:
    world.client("iam").tag_instance_profile(
        InstanceProfileName=resource.id, Tags=[{"Key": "owner", "Value": "somebody"}]
    )
    return "tags"


def oidc_drift(world: World, resource: Resource) -> str:
    world.client("iam").update_open_id_connect_provider_thumbprint(
        OpenIDConnectProviderArn=resource.id, ThumbprintList=["b" * 40]
    )
    return "thumbprintLists"


def key_drift(world: World, resource: Resource) -> str:
    world.client("kms").disable_key_rotation(KeyId=resource.id)
    return "enableKeyRotation"


def alias_drift(world: World, resource: Resource) -> str:
    world.client("kms").update_alias(AliasName=resource.id, TargetKeyId=world.key.id)
    return "targetKeyId"


def logs_drift(world: World, resource: Resource) -> str:
    world.client("logs").put_retention_policy(logGroupName=resource.id, retentionInDays=1)
    return "retentionInDays"


IDENTITY = (
    Scenario(
        "aws:iam/role:Role",
        lambda w: {"assumeRolePolicy": trust("ec2.amazonaws.com"), "managedPolicyArns": [w.policy.id]},
        lambda w: {"maxSessionDuration": 7200, "managedPolicyArns": [w.other_policy.id]},
        lambda w: {"path": "/gpufleet/"},
        role_drift,
    ),
    Scenario(
        "aws:iam/rolePolicy:RolePolicy",
        lambda w: {"role": w.pod_role.id, "policy": allow("s3:GetObject", "*")},
        lambda w: {"policy": allow("s3:*", "*")},
        lambda w: {"role": w.admin_role.id},
        role_policy_drift,
    ),
    Scenario(
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        lambda w: {"role": w.pod_role.id, "policyArn": "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"},
        replace=lambda w: {"policyArn": w.policy.id},
    ),
    Scenario(
        "aws:iam/policy:Policy",
        lambda w: {"policy": allow("s3:GetObject", "*"), "tags": {"Name": "reader"}},
        lambda w: {"policy": allow("s3:PutObject", "*")},
        lambda w: {"description": "another"},
        policy_drift,
    ),
    Scenario(
        "aws:iam/instanceProfile:InstanceProfile",
        lambda w: {"role": w.node_role.id},
        lambda w: {"role": w.pod_role.id},
        lambda w: {"path": "/gpufleet/"},
        profile_drift,
    ),
    Scenario(
        "aws:iam/openIdConnectProvider:OpenIdConnectProvider",
        lambda w: {
            "url": "https://oidc.eks.us-east-1.amazonaws.com/id/ABC", "clientIdLists": ["sts.amazonaws.com"],
            "thumbprintLists": ["a" * 40],
        },
        lambda w: {"thumbprintLists": ["c" * 40]},
        lambda w: {"url": "https://oidc.eks.us-east-1.amazonaws.com/id/DEF"},
        oidc_drift,
    ),
    Scenario(
        "aws:kms/key:Key",
        lambda w: {"enableKeyRotation": True, "deletionWindowInDays": 7},
        lambda w: {"description": "for EKS", "isEnabled": False},
        lambda w: {"multiRegion": True},
        key_drift,
    ),
    Scenario(
        "aws:kms/alias:Alias",
        lambda w: {"targetKeyId": w.key.id},
        lambda w: {"targetKeyId": w.other_key.id},
        lambda w: {"name": "alias/named"},
        alias_drift,
    ),
    Scenario(
        "aws:cloudwatch/logGroup:LogGroup",
        lambda w: {"retentionInDays": 30, "kmsKeyId": w.key.state["arn"]},
        lambda w: {"retentionInDays": 90},
        lambda w: {"name": "/named"},
        logs_drift,
    ),
)  # fmt: skip
