"""Nodes that Slurm launches: how many there may be, and none after the end of their group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from gpufleet.components import launched_nodes
from gpufleet.components.launched_nodes import SAID, LaunchedNodesProvider

REGION, IMAGE = "us-east-1", "ami-12c6146b"
TAGS = {"gpufleet:site": "use1", "gpufleet:node-group": "sweep"}
PROPS: dict[str, Any] = {
    "launch_template_id": "lt-1",
    "instance_types": ["g6e.xlarge"],
    "spot": False,
    "most": 4.0,
    "max_price": None,
    "tags": TAGS,
    "region": REGION,
    "client": {},
}


@pytest.fixture
def ec2(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(launched_nodes, "POLL_S", 0.01)
    with mock_aws():
        yield boto3.client("ec2", region_name=REGION)


def launch(ec2: Any, tags: dict[str, str]) -> str:
    """A running instance with tags."""
    reported = [{"ResourceType": "instance", "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}]
    made = ec2.run_instances(ImageId=IMAGE, MinCount=1, MaxCount=1, TagSpecifications=reported)
    found: str = made["Instances"][0]["InstanceId"]
    return found


def states(ec2: Any) -> dict[str, str]:
    return {
        each["InstanceId"]: each["State"]["Name"]
        for reservation in ec2.describe_instances()["Reservations"]
        for each in reservation["Instances"]
    }


def test_nothing_is_asked_of_aws_at_its_creation(ec2: Any) -> None:
    made = LaunchedNodesProvider().create(PROPS)
    assert made.id == "lt-1"
    assert {key: made.outs[key] for key in SAID} == {key: PROPS[key] for key in SAID}
    assert states(ec2) == {}


def test_end_of_the_group_terminates_its_nodes_and_no_others(ec2: Any) -> None:
    mine = [launch(ec2, {**TAGS, "gpufleet:slurm-node": f"use1-sweep-{number}"}) for number in (1, 2)]
    other = launch(ec2, {**TAGS, "gpufleet:node-group": "pretrain"})
    LaunchedNodesProvider().delete("lt-1", PROPS)
    assert states(ec2) == {**dict.fromkeys(mine, "terminated"), other: "running"}
    LaunchedNodesProvider().delete("lt-1", PROPS)


def test_nodes_that_do_not_end_fail_the_deletion(ec2: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = launch(ec2, TAGS)
    monkeypatch.setattr(launched_nodes, "WAIT_S", 0.0)
    monkeypatch.setattr(launched_nodes, "_running", lambda *_: {stuck: "shutting-down"})
    with pytest.raises(Exception, match=f"1 instances that Slurm launched \\({stuck}\\) did not terminate"):
        LaunchedNodesProvider().delete("lt-1", PROPS)


@pytest.mark.parametrize(
    ("change", "replaces"),
    [
        ({"most": 8.0}, []),
        ({"spot": True}, []),
        ({"instance_types": ["g6e.2xlarge"]}, []),
        ({"launch_template_id": "lt-2"}, ["launch_template_id"]),
        ({"tags": {"gpufleet:site": "usw2"}}, ["tags"]),
    ],
)
def test_change_of_what_may_be_launched_is_a_change(change: dict[str, Any], replaces: list[str]) -> None:
    found = LaunchedNodesProvider().diff("lt-1", PROPS, {**PROPS, **change})
    assert found.changes and found.replaces == replaces
    same = LaunchedNodesProvider().diff("lt-1", PROPS, {**PROPS, "client": {"endpoint_url": "x"}})
    assert not same.changes
