"""SQS queues and their policies."""

from __future__ import annotations

from typing import ClassVar

from gpufleet.lab.aws.provider.handler import AutoName, Aws, Defaults, Handler
from gpufleet.lab.aws.provider.resources.attributes import attribute_text, attribute_value, names_of
from gpufleet.lab.aws.provider.resources.iam import document, document_problem
from gpufleet.lab.aws.provider.resources.tagging import retag
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.waiting import until_gone
from gpufleet.lab.aws.provider.wire import Props

_ATTRIBUTES = {
    **names_of(
        "contentBasedDeduplication", "deduplicationScope", "delaySeconds", "fifoQueue", "fifoThroughputLimit",
        "kmsDataKeyReusePeriodSeconds", "kmsMasterKeyId", "policy", "receiveWaitTimeSeconds",
        "redriveAllowPolicy",
        "redrivePolicy",
    ),
    "maxMessageSize": "MaximumMessageSize",
    "messageRetentionSeconds": "MessageRetentionPeriod",
    "sqsManagedSseEnabled": "SqsManagedSseEnabled",
    "visibilityTimeoutSeconds": "VisibilityTimeout",
}  # fmt: skip
_FIFO_ONLY = {"contentBasedDeduplication", "fifoQueue", "deduplicationScope", "fifoThroughputLimit"}


class Queue(Handler):
    """aws.sqs.Queue."""

    pulumi_type = "aws:sqs/queue:Queue"
    force_new = frozenset({"name", "namePrefix", "fifoQueue"})
    computed = frozenset({
        "deduplicationScope", "fifoThroughputLimit", "kmsDataKeyReusePeriodSeconds", "policy",
        "redriveAllowPolicy",
        "redrivePolicy", "sqsManagedSseEnabled",
    })  # fmt: skip
    defaults: ClassVar[Defaults] = {
        "contentBasedDeduplication": False, "delaySeconds": 0, "fifoQueue": False, "maxMessageSize": 262144,
        "messageRetentionSeconds": 345600, "receiveWaitTimeSeconds": 0, "visibilityTimeoutSeconds": 30,
    }  # fmt: skip
    documents = frozenset({"policy", "redrivePolicy", "redriveAllowPolicy"})
    auto_name = AutoName(max_length=80)

    def check(self, inputs: Props) -> list[Problem]:
        """Check that AWS' own keys and a customer's are not both set, and names of FIFO queues."""
        found = []
        if inputs.get("sqsManagedSseEnabled") and inputs.get("kmsMasterKeyId"):
            found.append(
                Problem("sqsManagedSseEnabled", "set one of sqsManagedSseEnabled and kmsMasterKeyId")
            )
        if inputs.get("fifoQueue") is True and not str(inputs["name"]).endswith(".fifo"):
            found.append(Problem("name", f"{inputs['name']!r}: the name of a FIFO queue must end in '.fifo'"))
        return found

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the queue with all its attributes."""
        fifo = bool(inputs.get("fifoQueue"))
        given = {
            name: attribute_text(inputs[key])
            for key, name in _ATTRIBUTES.items()
            if inputs.get(key) is not None and (fifo or key not in _FIFO_ONLY)
        }
        tags = {"tags": inputs["tags"]} if inputs.get("tags") else {}
        return str(
            aws.client("sqs").create_queue(QueueName=inputs["name"], Attributes=given, **tags)["QueueUrl"]
        )

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the queue and its attributes."""
        sqs = aws.client("sqs")
        found = sqs.get_queue_attributes(QueueUrl=rid, AttributeNames=["All"])["Attributes"]
        kinds = self.schema.outputs
        out: Props = {
            key: attribute_value(kinds[key], found[name])
            for key, name in _ATTRIBUTES.items()
            if name in found
        }
        out |= {key: out.get(key, False) for key in ("contentBasedDeduplication", "fifoQueue")}
        out.setdefault("kmsMasterKeyId", None)
        return out | {
            "arn": found["QueueArn"],
            "name": found["QueueArn"].rsplit(":", 1)[1],
            "url": rid,
            "tags": dict(sqs.list_queue_tags(QueueUrl=rid).get("Tags") or {}),
        }

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change attributes and tags in place."""
        sqs = aws.client("sqs")
        given = {_ATTRIBUTES[key]: attribute_text(new.get(key, "")) for key in changed & _ATTRIBUTES.keys()}
        if given:
            sqs.set_queue_attributes(QueueUrl=rid, Attributes=given)
        retag(sqs, {"QueueUrl": rid}, old, new, form=dict, suffix="queue")

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the queue and wait until it is gone."""
        sqs = aws.client("sqs")
        sqs.delete_queue(QueueUrl=rid)
        until_gone(
            lambda: sqs.get_queue_attributes(QueueUrl=rid, AttributeNames=["QueueArn"]), timeout_s=90,
            what=f"the deletion of queue {rid}",
        )  # fmt: skip


class QueuePolicy(Handler):
    """aws.sqs.QueuePolicy."""

    pulumi_type = "aws:sqs/queuePolicy:QueuePolicy"
    force_new = frozenset({"queueUrl"})
    documents = frozenset({"policy"})
    delete_before_replace = True

    def check(self, inputs: Props) -> list[Problem]:
        """Check that the policy is JSON."""
        return document_problem(inputs, "policy")

    def create(self, aws: Aws, inputs: Props) -> str:
        """Set the policy of the queue."""
        self.update(aws, str(inputs["queueUrl"]), {}, inputs, frozenset({"policy"}))
        return str(inputs["queueUrl"])

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the queue's policy; None if it has none any more."""
        found = (
            aws.client("sqs").get_queue_attributes(QueueUrl=rid, AttributeNames=["Policy"]).get("Attributes")
            or {}
        )
        return {"queueUrl": rid, "policy": found["Policy"]} if found.get("Policy") else None

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Write the new document."""
        aws.client("sqs").set_queue_attributes(QueueUrl=rid, Attributes={"Policy": document(new["policy"])})

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Set an empty policy, which removes it."""
        aws.client("sqs").set_queue_attributes(QueueUrl=rid, Attributes={"Policy": ""})


HANDLERS = (Queue(), QueuePolicy())
