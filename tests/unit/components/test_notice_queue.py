"""The queue of notices: what gets in, who reads it."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest

from gpufleet.components.notice_queue import PATTERNS, NoticeQueue, NoticeQueueArgs
from tests.unit.components.recording import ACCOUNT, EchoMocks, Recording, record

TAGS = {"gpufleet:fleet": "atlas", "gpufleet:site": "use1", "team": "ml"}
QUEUE_ARN = f"arn:aws:mock:us-east-1:{ACCOUNT}:Queue/atlas-notices"


@pytest.fixture(scope="module")
def made() -> Recording:
    return record(
        lambda: NoticeQueue("atlas-notices", NoticeQueueArgs(queue="atlas-notices", tags=TAGS)),
        EchoMocks(),
    )


def only_tls(queue: str) -> dict[str, Any]:
    """The statement that denies everybody, and every action, without TLS."""
    return {
        "Sid": "OnlyTls",
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Action": "sqs:*",
        "Resource": queue,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }


def document(value: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(value)["Statement"]
    return found


def test_queues_are_encrypted_and_what_fails_goes_to_the_second(made: Recording) -> None:
    queue, dead = made.one("Queue", "atlas-notices"), made.one("Queue", "atlas-notices-dead")
    assert queue.inputs["sqsManagedSseEnabled"] is True
    assert dead.inputs["sqsManagedSseEnabled"] is True
    assert json.loads(queue.inputs["redrivePolicy"])["maxReceiveCount"] == 20
    allowed = json.loads(dead.inputs["redriveAllowPolicy"])
    assert allowed == {
        "redrivePermission": "byQueue",
        "sourceQueueArns": [f"arn:aws:sqs:us-east-1:{ACCOUNT}:atlas-notices"],
    }


def test_only_the_rules_of_this_account_send(made: Recording) -> None:
    send, tls = document(made.one("QueuePolicy", "atlas-notices").inputs["policy"])
    assert send["Principal"] == {"Service": "events.amazonaws.com"}
    assert send["Action"] == "sqs:SendMessage"
    assert send["Resource"] == QUEUE_ARN
    assert len(send["Condition"]["ArnEquals"]["aws:SourceArn"]) == len(PATTERNS)
    assert send["Condition"]["StringEquals"] == {"aws:SourceAccount": ACCOUNT}
    assert tls == only_tls(QUEUE_ARN)


def test_nobody_sends_to_the_dead_letter_queue(made: Recording) -> None:
    statements = document(made.one("QueuePolicy", "atlas-notices-dead").inputs["policy"])
    assert statements == [only_tls(f"{QUEUE_ARN}-dead")]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("Queue", "atlas-notices"),
        ("Queue", "atlas-notices-dead"),
        ("Role", "atlas-notices"),
        ("InstanceProfile", "atlas-notices"),
    ],
)
def test_queues_and_the_role_of_their_reader_have_the_tags_of_the_site(
    made: Recording, kind: str, name: str
) -> None:
    assert made.one(kind, name).inputs["tags"] == {**TAGS, "Name": name}


@pytest.mark.parametrize("notice", PATTERNS)
def test_each_notice_has_a_rule_to_the_queue(made: Recording, notice: str) -> None:
    rule = made.one("EventRule", f"atlas-notices-{notice}")
    assert json.loads(rule.inputs["eventPattern"]) == PATTERNS[notice]
    assert made.one("EventTarget", f"atlas-notices-{notice}").inputs["targetId"] == "queue"
    assert rule.inputs["tags"]["gpufleet:fleet"] == "atlas"


def test_handler_reads_its_queue_and_ends_only_tagged_instances(made: Recording) -> None:
    read, describe, end = document(made.one("RolePolicy").inputs["policy"])
    assert set(read["Action"]) == {
        "sqs:ReceiveMessage",
        "sqs:DeleteMessage",
        "sqs:ChangeMessageVisibility",
        "sqs:GetQueueAttributes",
    }
    assert read["Resource"] == [QUEUE_ARN]
    assert (describe["Action"], describe["Resource"]) == (["ec2:DescribeInstances"], ["*"])
    assert end["Action"] == ["autoscaling:TerminateInstanceInAutoScalingGroup"]
    assert end["Resource"] == [
        f"arn:aws:autoscaling:us-east-1:{ACCOUNT}:autoScalingGroup:*:autoScalingGroupName/*"
    ]
    assert end["Condition"]["StringEquals"] == {
        "aws:ResourceTag/gpufleet:fleet": "atlas",
        "aws:ResourceTag/gpufleet:site": "use1",
    }


def test_instances_of_a_cluster_are_found_by_the_tag_that_eks_gives_its_groups() -> None:
    statements: list[list[dict[str, Any]]] = []

    def program() -> None:
        queue = NoticeQueue("n", NoticeQueueArgs(queue="n", cluster_name="atlas-use1", tags=TAGS))
        pulumi.Output.from_input(list(queue.statements)).apply(statements.append)

    made = record(program, EchoMocks())
    assert made.of("RolePolicy") == []
    ((*_, end),) = statements
    assert end["Action"] == ["autoscaling:TerminateInstanceInAutoScalingGroup"]
    assert end["Condition"] == {"StringEquals": {"aws:ResourceTag/eks:cluster-name": "atlas-use1"}}
