"""Listers of the other regional services."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpufleet.lab.aws.inventory.model import Clients, Lister, pages, tag_dict

Found = Iterator[tuple[str, dict[str, str]]]


def _clusters(clients: Clients) -> Found:
    eks = clients("eks")
    for name in pages(eks, "list_clusters", "clusters"):
        yield name, eks.describe_cluster(name=name)["cluster"].get("tags") or {}


def _node_groups(clients: Clients) -> Found:
    eks = clients("eks")
    for cluster in pages(eks, "list_clusters", "clusters"):
        for name in pages(eks, "list_nodegroups", "nodegroups", clusterName=cluster):
            group = eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
            yield f"{cluster}/{name}", group.get("tags") or {}


def _addons(clients: Clients) -> Found:
    eks = clients("eks")
    for cluster in pages(eks, "list_clusters", "clusters"):
        for name in pages(eks, "list_addons", "addons", clusterName=cluster):
            addon = eks.describe_addon(clusterName=cluster, addonName=name)["addon"]
            yield f"{cluster}/{name}", addon.get("tags") or {}


def _access_entries(clients: Clients) -> Found:
    eks = clients("eks")
    for cluster in pages(eks, "list_clusters", "clusters"):
        access = eks.describe_cluster(name=cluster)["cluster"].get("accessConfig") or {}
        if access.get("authenticationMode") == "CONFIG_MAP":
            # It has no entries, and EKS refuses to list them.
            continue
        for principal in pages(eks, "list_access_entries", "accessEntries", clusterName=cluster):
            entry = eks.describe_access_entry(clusterName=cluster, principalArn=principal)["accessEntry"]
            yield f"{cluster}/{principal}", entry.get("tags") or {}


def _pod_identities(clients: Clients) -> Found:
    eks = clients("eks")
    for cluster in pages(eks, "list_clusters", "clusters"):
        for one in pages(eks, "list_pod_identity_associations", "associations", clusterName=cluster):
            found = eks.describe_pod_identity_association(
                clusterName=cluster, associationId=one["associationId"]
            )
            yield f"{cluster}/{one['associationId']}", found["association"].get("tags") or {}


def _file_systems(clients: Clients) -> Found:
    for one in pages(clients("fsx"), "describe_file_systems", "FileSystems"):
        yield one["FileSystemId"], tag_dict(one.get("Tags"))


def _shared_file_systems(clients: Clients) -> Found:
    for one in pages(clients("efs"), "describe_file_systems", "FileSystems"):
        yield one["FileSystemId"], tag_dict(one.get("Tags"))


def _mount_targets(clients: Clients) -> Found:
    efs = clients("efs")
    for system in pages(efs, "describe_file_systems", "FileSystems"):
        for one in pages(efs, "describe_mount_targets", "MountTargets", FileSystemId=system["FileSystemId"]):
            yield one["MountTargetId"], {}


def _associations(clients: Clients) -> Found:
    for one in pages(clients("fsx"), "describe_data_repository_associations", "Associations"):
        yield one["AssociationId"], tag_dict(one.get("Tags"))


def _fsx_backups(clients: Clients) -> Found:
    for one in pages(clients("fsx"), "describe_backups", "Backups"):
        yield one["BackupId"], tag_dict(one.get("Tags"))


def _scaling_groups(clients: Clients) -> Found:
    for one in pages(clients("autoscaling"), "describe_auto_scaling_groups", "AutoScalingGroups"):
        yield one["AutoScalingGroupName"], tag_dict(one.get("Tags"))


def _keys(clients: Clients) -> Found:
    kms = clients("kms")
    aliases = pages(kms, "list_aliases", "Aliases")
    aws_own = {one.get("TargetKeyId") for one in aliases if one["AliasName"].startswith("alias/aws/")}
    for one in pages(kms, "list_keys", "Keys"):
        if one["KeyId"] in aws_own:
            continue
        key = kms.describe_key(KeyId=one["KeyId"])["KeyMetadata"]
        if key["KeyManager"] == "CUSTOMER" and key["KeyState"] != "PendingDeletion":
            tags = kms.list_resource_tags(KeyId=one["KeyId"])["Tags"]
            yield one["KeyId"], tag_dict(tags, "TagKey", "TagValue")


def _aliases(clients: Clients) -> Found:
    for one in pages(clients("kms"), "list_aliases", "Aliases"):
        if not one["AliasName"].startswith("alias/aws/"):
            yield one["AliasName"], {}


def _log_groups(clients: Clients) -> Found:
    logs = clients("logs")
    for one in pages(logs, "describe_log_groups", "logGroups"):
        yield one["logGroupName"], logs.list_tags_log_group(logGroupName=one["logGroupName"])["tags"]


def _topics(clients: Clients) -> Found:
    sns = clients("sns")
    for one in pages(sns, "list_topics", "Topics"):
        yield one["TopicArn"], tag_dict(sns.list_tags_for_resource(ResourceArn=one["TopicArn"])["Tags"])


def _subscriptions(clients: Clients) -> Found:
    for one in pages(clients("sns"), "list_subscriptions", "Subscriptions"):
        yield f"{one['TopicArn']} {one['Protocol']} {one['Endpoint']}", {}


def _queues(clients: Clients) -> Found:
    sqs = clients("sqs")
    for url in pages(sqs, "list_queues", "QueueUrls"):
        yield url, sqs.list_queue_tags(QueueUrl=url).get("Tags") or {}


def _rules(clients: Clients) -> Found:
    events = clients("events")
    for one in pages(events, "list_rules", "Rules"):
        yield one["Name"], tag_dict(events.list_tags_for_resource(ResourceARN=one["Arn"])["Tags"])


def _alarms(clients: Clients) -> Found:
    cloudwatch = clients("cloudwatch")
    for one in pages(cloudwatch, "describe_alarms", "MetricAlarms"):
        tags = cloudwatch.list_tags_for_resource(ResourceARN=one["AlarmArn"])["Tags"]
        yield one["AlarmName"], tag_dict(tags)


def _functions(clients: Clients) -> Found:
    client = clients("lambda")
    for one in pages(client, "list_functions", "Functions"):
        yield one["FunctionName"], client.list_tags(Resource=one["FunctionArn"])["Tags"]


def _shares(clients: Clients) -> Found:
    for one in pages(clients("ram"), "get_resource_shares", "resourceShares", resourceOwner="SELF"):
        if one["status"] != "DELETED":
            yield one["resourceShareArn"], {each["key"]: each["value"] for each in one.get("tags") or ()}


def _parameters(clients: Clients) -> Found:
    ssm = clients("ssm")
    for one in pages(ssm, "describe_parameters", "Parameters"):
        if not one["Name"].startswith("/aws/"):
            tags: Any = ssm.list_tags_for_resource(ResourceType="Parameter", ResourceId=one["Name"])
            yield one["Name"], tag_dict(tags["TagList"])


def _secrets(clients: Clients) -> Found:
    for one in pages(clients("secretsmanager"), "list_secrets", "SecretList"):
        yield one["Name"], tag_dict(one.get("Tags"))


def _gateway_associations(clients: Clients) -> Found:
    client = clients("directconnect")
    answer = client.describe_direct_connect_gateway_associations()
    for one in answer["directConnectGatewayAssociations"]:
        if one["associatedGateway"]["region"] == client.meta.region_name:
            yield one["associationId"], {}


def _gateway_proposals(clients: Clients) -> Found:
    client = clients("directconnect")
    answer = client.describe_direct_connect_gateway_association_proposals()
    for one in answer["directConnectGatewayAssociationProposals"]:
        if one["associatedGateway"]["region"] == client.meta.region_name:
            yield one["proposalId"], {}


def _resolver_tags(client: Any, arn: str) -> dict[str, str]:
    return tag_dict(client.list_tags_for_resource(ResourceArn=arn)["Tags"])


def _resolver_endpoints(clients: Clients) -> Found:
    resolver = clients("route53resolver")
    for one in pages(resolver, "list_resolver_endpoints", "ResolverEndpoints"):
        yield one["Id"], _resolver_tags(resolver, one["Arn"])


def _resolver_rules(clients: Clients) -> Found:
    resolver = clients("route53resolver")
    for one in pages(resolver, "list_resolver_rules", "ResolverRules"):
        yield one["Id"], _resolver_tags(resolver, one["Arn"])


def _resolver_associations(clients: Clients) -> Found:
    for one in pages(
        clients("route53resolver"), "list_resolver_rule_associations", "ResolverRuleAssociations"
    ):
        yield one["Id"], {}


LISTERS: list[tuple[str, Lister]] = [
    ("eks:cluster", _clusters),
    ("eks:node-group", _node_groups),
    ("eks:addon", _addons),
    ("eks:access-entry", _access_entries),
    ("eks:pod-identity-association", _pod_identities),
    ("efs:file-system", _shared_file_systems),
    ("efs:mount-target", _mount_targets),
    ("fsx:file-system", _file_systems),
    ("fsx:data-repository-association", _associations),
    ("fsx:backup", _fsx_backups),
    ("autoscaling:group", _scaling_groups),
    ("kms:key", _keys),
    ("kms:alias", _aliases),
    ("logs:log-group", _log_groups),
    ("sns:topic", _topics),
    ("sns:subscription", _subscriptions),
    ("sqs:queue", _queues),
    ("events:rule", _rules),
    ("cloudwatch:alarm", _alarms),
    ("lambda:function", _functions),
    ("ram:resource-share", _shares),
    ("ssm:parameter", _parameters),
    ("secretsmanager:secret", _secrets),
    ("route53resolver:endpoint", _resolver_endpoints),
    ("route53resolver:rule", _resolver_rules),
    ("route53resolver:rule-association", _resolver_associations),
    ("directconnect:association", _gateway_associations),
    ("directconnect:proposal", _gateway_proposals),
]
