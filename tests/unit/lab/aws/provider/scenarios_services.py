"""Lifecycles of the types around a cluster: storage, messages, budgets."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.lab.aws.provider.driver import Resource
from tests.unit.lab.aws.provider.scenarios import Inputs, Scenario, retagged
from tests.unit.lab.aws.provider.world import World, allow, archive

SPOT = json.dumps({"source": ["aws.ec2"], "detail-type": ["EC2 Spot Instance Interruption Warning"]})
PUBLISH = {"Principal": {"Service": "budgets.amazonaws.com"}}


def bucket_drift(world: World, resource: Resource) -> str:
    world.client("s3").put_bucket_tagging(
        Bucket=resource.id, Tagging={"TagSet": [{"Key": "owner", "Value": "somebody"}]}
    )
    return "tags"


def block_drift(world: World, resource: Resource) -> str:
    world.client("s3").put_public_access_block(
        Bucket=resource.id, PublicAccessBlockConfiguration={"BlockPublicAcls": True}
    )
    return "restrictPublicBuckets"


def encryption_drift(world: World, resource: Resource) -> str:
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms"}}
    world.client("s3").put_bucket_encryption(
        Bucket=resource.id, ServerSideEncryptionConfiguration={"Rules": [rule]}
    )
    return "rules"


def versioning_drift(world: World, resource: Resource) -> str:
    world.client("s3").put_bucket_versioning(
        Bucket=resource.id, VersioningConfiguration={"Status": "Enabled"}
    )
    return "versioningConfiguration"


def lifecycle_drift(world: World, resource: Resource) -> str:
    rule = {"ID": "tidy", "Status": "Disabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}
    world.client("s3").put_bucket_lifecycle_configuration(
        Bucket=resource.id, LifecycleConfiguration={"Rules": [rule]}
    )
    return "rules"


def file_system_drift(world: World, resource: Resource) -> str:
    tag = {"Key": "owner", "Value": "somebody"}
    world.client("efs").tag_resource(ResourceId=resource.id, Tags=[tag])
    return "tags"


def mount_target_drift(world: World, resource: Resource) -> str:
    world.client("efs").modify_mount_target_security_groups(
        MountTargetId=resource.id, SecurityGroups=[world.group.id]
    )
    return "securityGroups"


def lustre_drift(world: World, resource: Resource) -> str:
    world.client("fsx").update_file_system(
        FileSystemId=resource.id, LustreConfiguration={"DataCompressionType": "LZ4"}
    )
    return "dataCompressionType"


def association_drift(world: World, resource: Resource) -> str:
    world.client("fsx").update_data_repository_association(
        AssociationId=resource.id, S3={"AutoImportPolicy": {"Events": ["NEW"]}}
    )
    return "s3"


def topic_drift(world: World, resource: Resource) -> str:
    world.client("sns").set_topic_attributes(
        TopicArn=resource.id, AttributeName="DisplayName", AttributeValue="changed"
    )
    return "displayName"


def subscription_drift(world: World, resource: Resource) -> str:
    world.client("sns").set_subscription_attributes(
        SubscriptionArn=resource.id, AttributeName="RawMessageDelivery", AttributeValue="false"
    )
    return "rawMessageDelivery"


def queue_drift(world: World, resource: Resource) -> str:
    world.client("sqs").set_queue_attributes(QueueUrl=resource.id, Attributes={"VisibilityTimeout": "77"})
    return "visibilityTimeoutSeconds"


def budget(world: World) -> Inputs:
    return {
        "budgetType": "COST",
        "timeUnit": "MONTHLY",
        "limitAmount": "250000",
        "limitUnit": "USD",
        "costFilters": [{"name": "TagKeyValue", "values": ["user:project$atlas"]}],
        "notifications": [notification(world, 80)],
    }


def notification(world: World, threshold: int) -> dict[str, Any]:
    return {
        "comparisonOperator": "GREATER_THAN", "notificationType": "ACTUAL", "threshold": threshold,
        "thresholdType": "PERCENTAGE", "subscriberSnsTopicArns": [world.topic.id],
    }  # fmt: skip


def budget_drift(world: World, resource: Resource) -> str:
    account, _, name = resource.id.partition(":")
    budgets = world.client("budgets")
    new = budgets.describe_budget(AccountId=account, BudgetName=name)["Budget"]
    new["BudgetLimit"] = {"Amount": "1", "Unit": "USD"}
    budgets.update_budget(AccountId=account, NewBudget={k: v for k, v in new.items() if k not in {
        "CalculatedSpend", "LastUpdatedTime", "HealthStatus"}})  # fmt: skip
    return "limitAmount"


def rule_drift(world: World, resource: Resource) -> str:
    world.client("events").put_rule(Name=resource.id, EventPattern='{"source": ["aws.s3"]}')
    return "eventPattern"


def target_drift(world: World, resource: Resource) -> str:
    target = {"Id": resource.state["targetId"], "Arn": world.other_queue.state["arn"]}
    world.client("events").put_targets(Rule=world.rule.id, Targets=[target])
    return "arn"


def sends_to(queue: str) -> Any:
    return lambda world: {
        "queueUrl": getattr(world, queue).id,
        "policy": queue_policy(world, "sqs:SendMessage"),
    }


def queue_policy(world: World, action: str) -> str:
    return allow(action, world.queue.state["arn"], Principal={"Service": "events.amazonaws.com"})


def lustre(world: World) -> Inputs:
    return {
        "subnetIds": world.subnets[0].id,
        "storageCapacity": 1200,
        "deploymentType": "PERSISTENT_2",
        "perUnitStorageThroughput": 125,
        "securityGroupIds": [world.lustre_group.id],
        "kmsKeyId": world.key.state["arn"],
        "dataCompressionType": "LZ4",
    }


def bucket_policy(world: World, effect: str) -> str:
    statement = {
        "Effect": effect, "Principal": "*", "Action": "s3:*", "Resource": f"arn:aws:s3:::{world.bucket.id}",
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }  # fmt: skip
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def elsewhere(world: World) -> Inputs:
    return {"bucket": world.other_bucket.id}


def encrypted(world: World) -> Inputs:
    default = {"sseAlgorithm": "aws:kms", "kmsMasterKeyId": world.key.state["arn"]}
    rule = {"applyServerSideEncryptionByDefault": default, "bucketKeyEnabled": True}
    return {"bucket": world.bucket.id, "rules": [rule]}


def lifecycle(world: World) -> Inputs:
    rule = {
        "id": "tidy", "status": "Enabled", "filter": {"prefix": ""},
        "abortIncompleteMultipartUpload": {"daysAfterInitiation": 7},
        "noncurrentVersionExpiration": {"noncurrentDays": 30},
    }  # fmt: skip
    return {"bucket": world.bucket.id, "rules": [rule]}


STORAGE = (
    Scenario(
        "aws:efs/fileSystem:FileSystem",
        lambda w: {"encrypted": True, "kmsKeyId": w.key.state["arn"], "throughputMode": "elastic"},
        retagged,
        lambda w: {"kmsKeyId": w.other_key.state["arn"]},
        file_system_drift,
    ),
    Scenario(
        "aws:efs/mountTarget:MountTarget",
        lambda w: {
            "fileSystemId": w.shared_files.id, "subnetId": w.subnets[0].id,
            "securityGroups": [w.bare_group.id],
        },
        lambda w: {"securityGroups": [w.other_group.id]},
        lambda w: {"subnetId": w.subnets[1].id},
        mount_target_drift,
    ),
    Scenario("aws:s3/bucket:Bucket", lambda w: {"forceDestroy": True}, retagged,
    lambda w: {"bucket": "named"}, bucket_drift),
    Scenario(
        "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
        lambda w: {
            "bucket": w.bucket.id, "blockPublicAcls": True, "blockPublicPolicy": True,
            "ignorePublicAcls": True,
            "restrictPublicBuckets": True,
        },
        lambda w: {"blockPublicPolicy": False},
        elsewhere,
        block_drift,
    ),
    Scenario(
        "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
        encrypted,
        lambda w: {"rules": [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "AES256"}}]},
        elsewhere,
        encryption_drift,
    ),
    Scenario(
        "aws:s3/bucketVersioning:BucketVersioning",
        lambda w: {"bucket": w.bucket.id, "versioningConfiguration": {"status": "Enabled"}},
        lambda w: {"versioningConfiguration": {"status": "Suspended"}},
        elsewhere,
        versioning_drift,
        stays=True,
    ),
    Scenario(
        "aws:s3/bucketOwnershipControls:BucketOwnershipControls",
        lambda w: {"bucket": w.bucket.id, "rule": {"objectOwnership": "BucketOwnerEnforced"}},
        lambda w: {"rule": {"objectOwnership": "BucketOwnerPreferred"}},
        elsewhere,
    ),
    Scenario(
        "aws:s3/bucketPolicy:BucketPolicy",
        lambda w: {"bucket": w.bucket.id, "policy": bucket_policy(w, "Deny")},
        lambda w: {"policy": bucket_policy(w, "Allow")},
        elsewhere,
    ),
    Scenario(
        "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration",
        lifecycle,
        lambda w: {"rules": [{"id": "old", "status": "Enabled", "filter": {"prefix": "tmp/"},
        "expiration": {"days": 3}}]},
        elsewhere,
        lifecycle_drift,
    ),
    Scenario(
        "aws:fsx/lustreFileSystem:LustreFileSystem",
        lustre,
        lambda w: {"storageCapacity": 2400, "dataCompressionType": "NONE"},
        lambda w: {"deploymentType": "SCRATCH_2", "perUnitStorageThroughput": None},
        lustre_drift,
    ),
    Scenario(
        "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation",
        lambda w: {
            "fileSystemId": w.file_system.id, "fileSystemPath": "/data", "dataRepositoryPath": f"s3://{w.bucket.id}",
            "s3": {"autoImportPolicy": {"events": ["NEW", "CHANGED", "DELETED"]}},
        },
        lambda w: {"s3": {"autoImportPolicy": {"events": ["NEW", "CHANGED"]}}},
        lambda w: {"fileSystemPath": "/other"},
        association_drift,
    ),
)  # fmt: skip


def code(text: str) -> Inputs:
    return {"code": archive(text)}


def function_drift(world: World, resource: Resource) -> str:
    world.client("lambda").update_function_configuration(FunctionName=resource.id, Timeout=77)
    return "timeout"


def parameter_drift(world: World, resource: Resource) -> str:
    world.client("ssm").put_parameter(Name=resource.id, Value="changed", Type="String", Overwrite=True)
    return "insecureValue"


FUNCTIONS = (
    Scenario(
        "aws:lambda/function:Function",
        lambda w: {
            **code("def handler(event, context): ..."), "role": w.function_role.state["arn"],
            "runtime": "python3.13", "handler": "index.handler", "timeout": 60, "memorySize": 256,
            "environment": {"variables": {"TOPIC": "alerts"}},
        },
        lambda w: {**code("def handler(event, context): return 1"), "timeout": 90, "tags": {"Name": "f"}},
        lambda w: {"name": "named-function"},
        function_drift,
    ),
    Scenario(
        "aws:lambda/permission:Permission",
        lambda w: {
            "function": w.function.id, "action": "lambda:InvokeFunction", "principal": "sns.amazonaws.com",
            "sourceArn": w.topic.id, "sourceAccount": "123456789012",
        },
        None,
        lambda w: {"sourceArn": w.other_topic.id},
    ),
    Scenario(
        "aws:ssm/parameter:Parameter",
        lambda w: {
            "name": "/fleet/prod/stopped", "type": "String", "insecureValue": "{}", "description": "some",
        },
        lambda w: {"insecureValue": "{1}", "tags": {"Name": "p"}},
        lambda w: {"name": "/fleet/prod/other"},
        parameter_drift,
    ),
)  # fmt: skip

MESSAGES_AND_MONEY = (
    Scenario(
        "aws:sns/topic:Topic",
        lambda w: {"displayName": "alerts", "kmsMasterKeyId": w.key.state["arn"]},
        lambda w: {"displayName": "alarms", "tags": {"Name": "t"}},
        lambda w: {"name": "named-topic"},
        topic_drift,
    ),
    Scenario(
        "aws:sns/topicPolicy:TopicPolicy",
        lambda w: {"arn": w.topic.id, "policy": allow("SNS:Publish", w.topic.id, **PUBLISH)},
        lambda w: {"policy": allow("SNS:GetTopicAttributes", w.topic.id, **PUBLISH)},
        lambda w: {"arn": w.other_topic.id},
        stays=True,
    ),
    Scenario(
        "aws:sns/topicSubscription:TopicSubscription",
        lambda w: {"topic": w.topic.id, "protocol": "sqs", "endpoint": w.queue.state["arn"]},
        lambda w: {"rawMessageDelivery": True},
        lambda w: {"endpoint": w.other_queue.state["arn"]},
        subscription_drift,
    ),
    Scenario(
        "aws:sqs/queue:Queue",
        lambda w: {"messageRetentionSeconds": 300, "sqsManagedSseEnabled": True},
        lambda w: {"visibilityTimeoutSeconds": 60, "tags": {"Name": "q"}},
        lambda w: {"name": "named-queue"},
        queue_drift,
    ),
    Scenario(
        "aws:sqs/queuePolicy:QueuePolicy",
        lambda w: {"queueUrl": w.queue.id, "policy": queue_policy(w, "sqs:SendMessage")},
        lambda w: {"policy": queue_policy(w, "sqs:*")},
        lambda w: {"queueUrl": w.other_queue.id},
    ),
    Scenario(
        "aws:budgets/budget:Budget",
        budget,
        lambda w: {"limitAmount": "300000", "notifications": [notification(w, 50), notification(w, 100)]},
        lambda w: {"name": "named-budget"},
        budget_drift,
    ),
    Scenario(
        "aws:costexplorer/anomalyMonitor:AnomalyMonitor",
        lambda w: {
            "monitorType": "CUSTOM", "name": "spend",
            "monitorSpecification": json.dumps({"Tags": {"Key": "fleet", "Values": ["atlas"]}}),
        },
        lambda w: {"name": "spending"},
        lambda w: {"monitorSpecification": json.dumps({"Tags": {"Key": "fleet", "Values": ["other"]}})},
    ),
    Scenario(
        "aws:costexplorer/anomalySubscription:AnomalySubscription",
        lambda w: {
            "frequency": "IMMEDIATE", "monitorArnLists": [w.monitor.id],
            "subscribers": [{"type": "SNS", "address": w.topic.id}],
            "thresholdExpression": {"dimension": {
                "key": "ANOMALY_TOTAL_IMPACT_ABSOLUTE", "matchOptions": ["GREATER_THAN_OR_EQUAL"],
                "values": ["100"],
            }},
        },
        lambda w: {"thresholdExpression": {"dimension": {
            "key": "ANOMALY_TOTAL_IMPACT_ABSOLUTE", "matchOptions": ["GREATER_THAN_OR_EQUAL"],
            "values": ["500"],
        }}},
        lambda w: {"name": "named-subscription"},
    ),
    Scenario(
        "aws:cloudwatch/eventRule:EventRule",
        lambda w: {"eventPattern": SPOT, "description": "spot"},
        lambda w: {"state": "DISABLED"},
        lambda w: {"name": "named-rule"},
        rule_drift,
    ),
    Scenario(
        "aws:cloudwatch/eventTarget:EventTarget",
        lambda w: {"rule": w.rule.id, "arn": w.queue.state["arn"]},
        lambda w: {"arn": w.topic.id},
        lambda w: {"rule": w.other_rule.id},
        target_drift,
    ),
)  # fmt: skip
