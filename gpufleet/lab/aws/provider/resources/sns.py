"""SNS topics, their policies and their subscriptions."""

from __future__ import annotations

from typing import Any, ClassVar

from gpufleet.lab.aws.provider.handler import AutoName, Aws, Defaults, Handler
from gpufleet.lab.aws.provider.mapper import tag_list, tags_to_map
from gpufleet.lab.aws.provider.resources.attributes import attribute_text, attribute_value, names_of
from gpufleet.lab.aws.provider.resources.iam import document, document_problem
from gpufleet.lab.aws.provider.resources.tagging import retag
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.waiting import settle
from gpufleet.lab.aws.provider.wire import Props

_FEEDBACK = tuple(
    f"{protocol}{kind}"
    for protocol in ("application", "firehose", "http", "lambda", "sqs")
    for kind in ("FailureFeedbackRoleArn", "SuccessFeedbackRoleArn", "SuccessFeedbackSampleRate")
)
_TOPIC = names_of(
    "archivePolicy", "contentBasedDeduplication", "deliveryPolicy", "displayName", "fifoThroughputScope",
    "fifoTopic",
    "kmsMasterKeyId", "policy", "signatureVersion", "tracingConfig", *_FEEDBACK,
)  # fmt: skip
# AWS writes the protocols HTTP and SQS in capitals.
_TOPIC |= {key: f"HTTP{key.removeprefix('http')}" for key in _FEEDBACK if key.startswith("http")}
_TOPIC |= {key: f"SQS{key.removeprefix('sqs')}" for key in _FEEDBACK if key.startswith("sqs")}


class Topic(Handler):
    """aws.sns.Topic."""

    pulumi_type = "aws:sns/topic:Topic"
    force_new = frozenset({"name", "namePrefix", "fifoTopic"})
    computed = frozenset(
        {"policy", "signatureVersion", "tracingConfig", "fifoThroughputScope", "maximumMessageSize"}
    )
    defaults: ClassVar[Defaults] = {"contentBasedDeduplication": False, "fifoTopic": False}
    documents = frozenset({"policy", "deliveryPolicy", "archivePolicy"})
    auto_name = AutoName(max_length=256)

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the topic with all its attributes."""
        given = {_TOPIC[key]: attribute_text(inputs[key]) for key in _TOPIC if _set(inputs, key)}
        tags = {"Tags": tag_list(inputs["tags"])} if inputs.get("tags") else {}
        made = aws.client("sns").create_topic(Name=inputs["name"], Attributes=given, **tags)
        return str(made["TopicArn"])

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the topic and its attributes."""
        sns = aws.client("sns")
        found = sns.get_topic_attributes(TopicArn=rid)["Attributes"]
        kinds = self.schema.outputs
        out: Props = {
            key: attribute_value(kinds[key], found[name]) for key, name in _TOPIC.items() if name in found
        }
        for key in ("displayName", "kmsMasterKeyId", "deliveryPolicy"):
            out[key] = out.get(key) or None
        return out | {
            "arn": rid,
            "name": rid.rsplit(":", 1)[1],
            "owner": found.get("Owner"),
            "tags": tags_to_map(sns.list_tags_for_resource(ResourceArn=rid).get("Tags")),
        }

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change attributes and tags in place."""
        sns = aws.client("sns")
        for key in sorted(changed & _TOPIC.keys()):
            sns.set_topic_attributes(
                TopicArn=rid, AttributeName=_TOPIC[key], AttributeValue=attribute_text(new.get(key, ""))
            )
        retag(sns, {"ResourceArn": rid}, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the topic with its subscriptions."""
        aws.client("sns").delete_topic(TopicArn=rid)


def _set(inputs: Props, key: str) -> bool:
    """Return whether an attribute must be sent: AWS rejects FIFO attributes of other topics."""
    value = inputs.get(key)
    return value is not None and not (key in {"contentBasedDeduplication", "fifoTopic"} and not value)


class TopicPolicy(Handler):
    """aws.sns.TopicPolicy."""

    pulumi_type = "aws:sns/topicPolicy:TopicPolicy"
    force_new = frozenset({"arn"})
    documents = frozenset({"policy"})
    delete_before_replace = True

    def check(self, inputs: Props) -> list[Problem]:
        """Check that the policy is JSON."""
        return document_problem(inputs, "policy")

    def create(self, aws: Aws, inputs: Props) -> str:
        """Set the policy of the topic."""
        self.update(aws, str(inputs["arn"]), {}, inputs, frozenset({"policy"}))
        return str(inputs["arn"])

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The topic's policy."""
        found = aws.client("sns").get_topic_attributes(TopicArn=rid)["Attributes"]
        return {"arn": rid, "owner": found.get("Owner"), "policy": found.get("Policy")}

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Write the new document."""
        aws.client("sns").set_topic_attributes(
            TopicArn=rid, AttributeName="Policy", AttributeValue=document(new["policy"])
        )

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Restore AWS' default policy of a topic: its owner may use it."""
        statement = {
            "Sid": "__default_statement_ID", "Effect": "Allow", "Principal": {"AWS": "*"}, "Resource": rid,
            "Action": [
                "SNS:GetTopicAttributes", "SNS:SetTopicAttributes", "SNS:AddPermission",
                "SNS:RemovePermission",
                "SNS:DeleteTopic", "SNS:Subscribe", "SNS:ListSubscriptionsByTopic", "SNS:Publish",
            ],
            "Condition": {"StringEquals": {"AWS:SourceOwner": aws.account}},
        }  # fmt: skip
        policy = {"Version": "2008-10-17", "Id": "__default_policy_ID", "Statement": [statement]}
        self.update(aws, rid, {}, {"policy": document(policy)}, frozenset({"policy"}))


_SUBSCRIPTION = names_of(
    "deliveryPolicy", "filterPolicy", "filterPolicyScope", "rawMessageDelivery", "redrivePolicy",
    "replayPolicy",
    "subscriptionRoleArn",
)  # fmt: skip


class TopicSubscription(Handler):
    """aws.sns.TopicSubscription."""

    pulumi_type = "aws:sns/topicSubscription:TopicSubscription"
    force_new = frozenset({"endpoint", "protocol", "topic"})
    computed = frozenset({"filterPolicyScope"})
    defaults: ClassVar[Defaults] = {
        "confirmationTimeoutInMinutes": 1,
        "endpointAutoConfirms": False,
        "rawMessageDelivery": False,
    }
    documents = frozenset({"deliveryPolicy", "filterPolicy", "redrivePolicy", "replayPolicy"})

    def create(self, aws: Aws, inputs: Props) -> str:
        """Subscribe; an e-mail address stays pending until its owner confirms."""
        given = {_SUBSCRIPTION[key]: attribute_text(inputs[key]) for key in _SUBSCRIPTION if inputs.get(key)}
        made = aws.client("sns").subscribe(
            TopicArn=inputs["topic"], Protocol=inputs["protocol"], Endpoint=inputs["endpoint"],
            Attributes=given,
            ReturnSubscriptionArn=True,
        )  # fmt: skip
        return str(made["SubscriptionArn"])

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The subscription."""
        found: dict[str, Any] = aws.client("sns").get_subscription_attributes(SubscriptionArn=rid)[
            "Attributes"
        ]
        kinds = self.schema.outputs
        out: Props = {
            key: attribute_value(kinds[key], found[name])
            for key, name in _SUBSCRIPTION.items()
            if name in found
        }
        return out | {
            "arn": rid,
            "topic": found.get("TopicArn"),
            "protocol": found.get("Protocol"),
            "endpoint": found.get("Endpoint"),
            "ownerId": found.get("Owner"),
            "pendingConfirmation": found.get("PendingConfirmation") == "true",
            "confirmationWasAuthenticated": found.get("ConfirmationWasAuthenticated") == "true",
        }

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change attributes in place."""
        for key in sorted(changed & _SUBSCRIPTION.keys()):
            aws.client("sns").set_subscription_attributes(
                SubscriptionArn=rid,
                AttributeName=_SUBSCRIPTION[key],
                AttributeValue=attribute_text(new.get(key, "")),
            )

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Unsubscribe."""
        sns = aws.client("sns")
        settle(
            lambda: sns.unsubscribe(SubscriptionArn=rid),
            codes="InvalidParameter",
            message="pending",
            timeout_s=1.0,
        )


HANDLERS = (Topic(), TopicPolicy(), TopicSubscription())
