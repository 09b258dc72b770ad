"""Properties that hold policy documents, by resource type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpufleet.policies.rules.security._documents import parse
from gpufleet.policies.rules.security._flags import expanded
from gpufleet.resources.resource import Resource

IDENTITY: Mapping[str, str] = {
    "aws:iam/policy:Policy": "policy",
    "aws:iam/rolePolicy:RolePolicy": "policy",
    "aws:iam/userPolicy:UserPolicy": "policy",
    "aws:iam/groupPolicy:GroupPolicy": "policy",
    "aws:iam/role:Role": "inlinePolicies[].policy",
    "aws:ssoadmin/permissionSetInlinePolicy:PermissionSetInlinePolicy": "inlinePolicy",
}
"""Identity policies: they define what a role, user or group may do."""

RESOURCE: Mapping[str, str] = {
    "aws:s3/bucket:Bucket": "policy",
    "aws:s3/bucketV2:BucketV2": "policy",
    "aws:s3/bucketPolicy:BucketPolicy": "policy",
    "aws:s3/accessPoint:AccessPoint": "policy",
    "aws:sns/topic:Topic": "policy",
    "aws:sns/topicPolicy:TopicPolicy": "policy",
    "aws:sqs/queue:Queue": "policy",
    "aws:sqs/queuePolicy:QueuePolicy": "policy",
    "aws:kms/key:Key": "policy",
    "aws:kms/keyPolicy:KeyPolicy": "policy",
    "aws:kms/externalKey:ExternalKey": "policy",
    "aws:kms/replicaKey:ReplicaKey": "policy",
    "aws:kms/replicaExternalKey:ReplicaExternalKey": "policy",
    "aws:secretsmanager/secret:Secret": "policy",
    "aws:secretsmanager/secretPolicy:SecretPolicy": "policy",
    "aws:ecr/repositoryPolicy:RepositoryPolicy": "policy",
    "aws:ecr/registryPolicy:RegistryPolicy": "policy",
    "aws:efs/fileSystemPolicy:FileSystemPolicy": "policy",
    "aws:backup/vaultPolicy:VaultPolicy": "policy",
    "aws:dynamodb/resourcePolicy:ResourcePolicy": "policy",
    "aws:cloudwatch/eventBusPolicy:EventBusPolicy": "policy",
    "aws:cloudwatch/logResourcePolicy:LogResourcePolicy": "policyDocument",
}
"""Resource policies: they define who may use the resource that they are attached to."""


_NAMES = ("policy", "policyDocument", "accessPolicy", "accessPolicies", "resourcePolicy", "repositoryPolicy")
_OF_ENDPOINTS = ("aws:ec2/vpcEndpoint:VpcEndpoint", "aws:ec2/vpcEndpointPolicy:VpcEndpointPolicy")
"""The policy of an endpoint restricts who passes through it, and gives nobody access."""


def resource_documents(resource: Resource) -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of each policy on who may use the resource, of every type of pulumi_aws.

    A type that is not in `RESOURCE` has one if a property of that name is a document with statements.
    """
    if resource.type in RESOURCE:
        yield from documents(resource, RESOURCE)
    elif resource.type.startswith("aws:") and resource.type not in (*IDENTITY, *_OF_ENDPOINTS):
        for name in _NAMES:
            value = resource.get(name)
            if any(True for _ in parse(value)):
                yield name, value


def documents(resource: Resource, paths: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of each policy document that the resource holds."""
    for path in expanded(resource, paths[resource.type]):
        value = resource.get(path)
        if value is not None:
            yield path, value
