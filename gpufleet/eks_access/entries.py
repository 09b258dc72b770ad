"""The access entries of a cluster that the fleet did not make: its creator's, and those made by hand."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct

from gpufleet.eks_access.identity import AwsIdentity, same_principal
from gpufleet.errors import CloudError

ADMIN_POLICY = "AmazonEKSClusterAdminPolicy"
FLEET_TAGS = ("gpufleet:fleet", "gpufleet:environment")
"""Tags of every access entry that a stack of this fleet makes."""


class ClusterEntries(Struct, frozen=True):
    """Whether the cluster `exists`, and its entries by others (`principals`), of whom `admins` administer it.

    Of a cluster that does not exist, its creator will be the only one: the identity that asks.
    """

    exists: bool
    principals: Collection[str]
    admins: Collection[str]

    def foreign(self, arn: str) -> str | None:
        """Return the principal of the entry that others have made for this role or user, if there is one."""
        return same_principal(arn, sorted(self.principals))

    def is_admin(self, arn: str) -> bool:
        """Return whether such an entry administers the whole cluster."""
        return same_principal(arn, sorted(self.admins)) is not None


def cluster_entries(
    cluster: str, region: str, identity: AwsIdentity, client: Mapping[str, str], tags: Mapping[str, str]
) -> ClusterEntries:
    """Ask EKS for the entries of a cluster that lack the fleet's `tags`.

    `client` are options of boto3 clients in addition to the identity. Raises CloudError if EKS does not
    answer.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    options = {key: value for key, value in client.items() if key != "profile"}
    session = identity.session(region)
    eks = session.client("eks", region_name=region, **options)
    try:
        principals = _principals(eks, cluster)
        if principals is None:
            caller = session.client("sts", region_name=region, **options).get_caller_identity()["Arn"]
            return ClusterEntries(False, (str(caller),), (str(caller),))
        own = {key: tags[key] for key in FLEET_TAGS if key in tags}
        others = [arn for arn in principals if not own.items() <= _tags(eks, cluster, arn).items()]
        return ClusterEntries(True, others, [arn for arn in others if _administers(eks, cluster, arn)])
    except (BotoCoreError, ClientError) as error:
        raise CloudError(
            f"the access entries of cluster {cluster} cannot be read: {error}",
            remedy="allow eks:ListAccessEntries, eks:DescribeAccessEntry and"
            " eks:ListAssociatedAccessPolicies",
        ) from None


def _principals(eks: Any, cluster: str) -> list[str] | None:
    """Return the principals with an entry; None if there is no such cluster."""
    try:
        pages = eks.get_paginator("list_access_entries").paginate(clusterName=cluster)
        return [str(arn) for page in pages for arn in page["accessEntries"]]
    except eks.exceptions.ResourceNotFoundException:
        return None


def _tags(eks: Any, cluster: str, principal: str) -> Mapping[str, str]:
    entry = eks.describe_access_entry(clusterName=cluster, principalArn=principal)["accessEntry"]
    return entry.get("tags") or {}


def _administers(eks: Any, cluster: str, principal: str) -> bool:
    pages = eks.get_paginator("list_associated_access_policies").paginate(
        clusterName=cluster, principalArn=principal
    )
    return any(
        policy["policyArn"].endswith(f"/{ADMIN_POLICY}") and policy["accessScope"]["type"] == "cluster"
        for page in pages
        for policy in page["associatedAccessPolicies"]
    )
