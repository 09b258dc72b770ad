"""Listers of the services without a region: IAM, S3, Budgets, Cost Explorer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from gpufleet.lab.aws.credentials import ACCOUNT_ID
from gpufleet.lab.aws.inventory.model import Clients, Lister, pages, tag_dict

Found = Iterator[tuple[str, dict[str, str]]]


def _roles(clients: Clients) -> Found:
    iam = clients("iam")
    for one in pages(iam, "list_roles", "Roles"):
        if not one["Path"].startswith("/aws-service-role/"):
            yield one["RoleName"], tag_dict(iam.list_role_tags(RoleName=one["RoleName"])["Tags"])


def _policies(clients: Clients) -> Found:
    iam = clients("iam")
    for one in pages(iam, "list_policies", "Policies", Scope="Local"):
        yield one["Arn"], tag_dict(iam.list_policy_tags(PolicyArn=one["Arn"])["Tags"])


def _profiles(clients: Clients) -> Found:
    iam = clients("iam")
    for one in pages(iam, "list_instance_profiles", "InstanceProfiles"):
        name = one["InstanceProfileName"]
        found: Any = iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
        yield name, tag_dict(found.get("Tags"))


def _oidc_providers(clients: Clients) -> Found:
    iam = clients("iam")
    for one in pages(iam, "list_open_id_connect_providers", "OpenIDConnectProviderList"):
        found = iam.get_open_id_connect_provider(OpenIDConnectProviderArn=one["Arn"])
        yield one["Arn"], tag_dict(found.get("Tags"))


def _users(clients: Clients) -> Found:
    iam = clients("iam")
    for one in pages(iam, "list_users", "Users"):
        yield one["UserName"], tag_dict(iam.list_user_tags(UserName=one["UserName"])["Tags"])


def _buckets(clients: Clients) -> Found:
    s3 = clients("s3")
    for one in pages(s3, "list_buckets", "Buckets"):
        try:
            tags = s3.get_bucket_tagging(Bucket=one["Name"])["TagSet"]
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchTagSet":
                raise
            tags = []
        yield one["Name"], tag_dict(tags)


def _budgets(clients: Clients) -> Found:
    budgets = clients("budgets")
    for one in pages(budgets, "describe_budgets", "Budgets", AccountId=ACCOUNT_ID):
        arn = f"arn:aws:budgets::{ACCOUNT_ID}:budget/{one['BudgetName']}"
        yield one["BudgetName"], tag_dict(budgets.list_tags_for_resource(ResourceARN=arn)["ResourceTags"])


def _monitors(clients: Clients) -> Found:
    ce = clients("ce")
    for one in pages(ce, "get_anomaly_monitors", "AnomalyMonitors"):
        arn = one["MonitorArn"]
        yield arn, tag_dict(ce.list_tags_for_resource(ResourceArn=arn)["ResourceTags"])


def _subscriptions(clients: Clients) -> Found:
    ce = clients("ce")
    for one in pages(ce, "get_anomaly_subscriptions", "AnomalySubscriptions"):
        arn = one["SubscriptionArn"]
        yield arn, tag_dict(ce.list_tags_for_resource(ResourceArn=arn)["ResourceTags"])


LISTERS: list[tuple[str, Lister]] = [
    ("iam:role", _roles),
    ("iam:policy", _policies),
    ("iam:instance-profile", _profiles),
    ("iam:oidc-provider", _oidc_providers),
    ("iam:user", _users),
    ("s3:bucket", _buckets),
    ("budgets:budget", _budgets),
    ("ce:anomaly-monitor", _monitors),
    ("ce:anomaly-subscription", _subscriptions),
]
