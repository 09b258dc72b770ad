"""The program with a cluster that asks for nodes, and an EC2 that has none, some, or takes them back."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from cloud_nodes.aws import NODE_TAG
from cloud_nodes.decide import Launch
from cloud_nodes.passes import Passes
from cloud_nodes.settings import Settings
from cloud_nodes.slurm import Slurm

from gpufleet.kinds import SLURM_NODE_TAG
from gpufleet.lab.aws.faults.plan import Shortage
from gpufleet.notices import cloud as notices
from tests.unit.ansible.slurm_cloud.conftest import (
    FILES,
    GROUP,
    RETRY_S,
    Account,
    Cluster,
    cluster_of,
    launched_at,
    numbers,
    tidy,
)
from tests.unit.ansible.slurm_cloud.stand_in_slurm import NODES, PREFIX, RESUME_S, StandInSlurm
from tests.unit.lab.two_zones import IMAGE, KIND, REGION


def test_job_gets_its_nodes_and_they_end_when_they_are_idle(cluster: Cluster) -> None:
    cluster.slurm.submit(1, nodes=3, seconds=60)
    cluster.live(60)
    assert len(cluster.account.instances()) == 3
    assert len({each.placement.zone for each in cluster.account.instances()}) == 1
    cluster.live(400)
    assert cluster.slurm.ended == {1}
    assert not cluster.account.instances()
    assert set(cluster.states().values()) == {"idle+cloud+powered_down"}


def test_nodes_of_a_job_are_launched_in_the_zone_that_has_room_for_all(cluster: Cluster) -> None:
    cluster.account.shortages = (Shortage(type=KIND, zone=f"{REGION}a", left=2),)
    cluster.slurm.submit(1, nodes=3, seconds=600)
    cluster.live(60)
    zones = [each.placement.zone for each in cluster.account.instances()]
    assert zones == [f"{REGION}b"] * 3


def test_without_capacity_for_all_nothing_is_launched_and_fewer_nodes_stay_usable(cluster: Cluster) -> None:
    cluster.account.shortages = (Shortage(type=KIND, left=2),)
    cluster.slurm.submit(1, nodes=3, seconds=60)
    cluster.live(20)
    assert not cluster.account.instances()
    # Two nodes stay: too few for the same job at once, enough for a smaller one.
    assert len(cluster.down()) == 4
    reasons = {numbers(cluster.slurm.nodes[name].reason) for name in cluster.down()}
    assert reasons == {"gpufleet cloud: InsufficientInstanceCapacity, again after TIME"}
    cluster.slurm.submit(2, nodes=2, seconds=60)
    cluster.live(200)
    assert cluster.slurm.ended == {2}
    cluster.account.shortages = ()
    cluster.live(RETRY_S + 300)
    assert cluster.slurm.ended == {1, 2}
    tidy(cluster)


def test_spot_falls_back_to_on_demand(account: Account) -> None:
    cluster = cluster_of(account, ("spot", "on-demand"))
    account.shortages = (Shortage(type=KIND, market="spot"),)
    cluster.slurm.submit(1, nodes=2, seconds=600)
    cluster.live(60)
    assert [each.lifecycle for each in account.instances()] == [None, None]
    account.shortages = ()
    cluster.slurm.submit(2, nodes=1, seconds=600)
    cluster.live(60)
    assert [each.lifecycle for each in account.instances() if each.lifecycle] == ["spot"]


@pytest.mark.parametrize("older", ["", "gpufleet cloud: its instance is gone"])
def test_node_that_never_registers_is_terminated_and_tried_again_later(cluster: Cluster, older: str) -> None:
    """From Slurm 23.02 on, Slurm's reason follows one that the service has not removed yet."""
    cluster.slurm.submit(1, nodes=1, seconds=60)
    if older:
        cluster.slurm.appends_reasons = True
    cluster.slurm.tick(10)
    for name in cluster.slurm.on(1) if older else ():
        cluster.slurm.nodes[name].reason = older
    cluster.call_resume_programs()
    (first,) = cluster.account.instances()
    cluster.account.times[first.id] = cluster.slurm.now + 10_000  # it never boots
    cluster.live(330)
    assert first.id not in [each.id for each in cluster.account.instances()]
    (down,) = cluster.down()
    assert numbers(cluster.slurm.nodes[down].reason) == (
        "gpufleet cloud: did not register in time, again after TIME"
    )
    cluster.live(RETRY_S + 400)
    assert cluster.slurm.ended == {1}
    assert not cluster.down()


def test_reclaimed_instance_puts_its_job_back_and_another_node_runs_it(cluster: Cluster) -> None:
    cluster.slurm.submit(1, nodes=2, seconds=300)
    cluster.live(120)
    cluster.account.reclaim(cluster.account.instances()[0].id)
    cluster.live(50)
    cluster.live(500)
    assert cluster.slurm.ended == {1}
    cluster.live(300)
    tidy(cluster)


def job_for_backfill(cluster: Cluster) -> StandInSlurm:
    """A job on all nodes, which the service knows as free, of a Slurm without its main scheduler."""
    cluster.service.run()
    cluster.slurm.only_backfill = True
    cluster.slurm.submit(1, NODES, 200)
    return cluster.slurm


def test_backfill_alone_uses_nodes_again_that_lost_their_instances(cluster: Cluster) -> None:
    slurm = job_for_backfill(cluster)
    cluster.live(120)
    reclaimed = cluster.account.instances()
    assert len(reclaimed) == NODES
    for each in reclaimed:
        cluster.account.reclaim(each.id)
    cluster.live(600)
    assert slurm.ended == {1}
    assert {node.reason for node in slurm.nodes.values()} == {"none"}
    cluster.live(300)
    tidy(cluster)


def test_backfill_alone_uses_a_node_again_that_registered_too_late(cluster: Cluster) -> None:
    slurm = job_for_backfill(cluster)
    slurm.tick(10)
    cluster.call_resume_programs()
    slow = cluster.account.instances()[0]
    cluster.account.times[slow.id] = slurm.now + 10_000
    cluster.live(RESUME_S + 20)
    (down,) = cluster.down()
    slurm.register_late(slurm.nodes[down])
    cluster.live(1_200)
    assert slurm.ended == {1}
    cluster.live(300)
    tidy(cluster)


def test_only_the_service_frees_nodes_and_each_once(cluster: Cluster) -> None:
    def freed() -> list[str]:
        return [words[2] for words in cluster.slurm.reported if "state=idle" in words]

    cluster.passes().run()
    assert not freed()
    cluster.service.run()
    assert freed() == [f"nodename={','.join(cluster.slurm.nodes)}"]
    cluster.slurm.submit(1, nodes=2, seconds=60)
    cluster.live(600)
    assert cluster.slurm.ended == {1}
    assert len(freed()) == 1
    # What it knows is old once the other controller has decided.
    cluster.service.forget()
    cluster.service.run()
    assert len(freed()) == 2


def test_nodes_whose_program_was_killed_before_it_launched_get_instances_from_the_service(
    cluster: Cluster,
) -> None:
    cluster.slurm.submit(1, nodes=2, seconds=60)
    cluster.slurm.tick(10)
    cluster.slurm.resumes.clear()
    cluster.service.run()
    assert not cluster.account.instances()
    cluster.slurm.tick(40)
    cluster.service.run()
    assert len(cluster.account.instances()) == 2


def test_instances_without_a_node_are_terminated_after_a_while(cluster: Cluster) -> None:
    cluster.account.ec2.run_instances(
        LaunchTemplate={"LaunchTemplateId": cluster.account.template, "Version": "1"}, MinCount=1, MaxCount=1
    )
    (stray,) = cluster.account.instances()
    launched = launched_at(stray)
    cluster.slurm.now = launched + 60
    cluster.service.run()
    assert cluster.account.instances()
    cluster.slurm.now = launched + 130
    cluster.service.run()
    assert not cluster.account.instances()


def test_instances_of_others_are_never_touched(cluster: Cluster) -> None:
    cluster.account.ec2.run_instances(
        ImageId=IMAGE,
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[
            {
                "ResourceType": "instance",
                "Tags": [
                    {"Key": "gpufleet:fleet", "Value": "atlas"},
                    {"Key": "gpufleet:site", "Value": "euw1"},
                    {"Key": "gpufleet:slurm-node", "Value": f"{PREFIX}1"},
                ],
            }
        ],
    )
    cluster.live(300)
    assert len(cluster.account.instances()) == 1


def test_servers_of_the_site_are_never_touched(cluster: Cluster) -> None:
    tags = [{"Key": key, "Value": value} for key, value in cluster.settings.sites[0].tags.items()]
    tags.append({"Key": "gpufleet:slurm-server", "Value": "controller"})
    cluster.account.ec2.run_instances(
        ImageId=IMAGE,
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )
    (server,) = cluster.account.instances()
    cluster.slurm.now = launched_at(server) + 300
    cluster.service.run()
    assert cluster.account.instances() == [server]


def test_instance_of_the_last_life_of_a_node_is_replaced(cluster: Cluster) -> None:
    cluster.slurm.submit(1, nodes=1, seconds=30)
    cluster.slurm.tick(10)
    cluster.call_resume_programs()
    (old,) = cluster.account.instances()
    # The instance survives a suspend that did not reach EC2; Slurm resumes the node.
    cluster.slurm.now = launched_at(old) + 1000
    cluster.passes().run([f"{PREFIX}1"], cluster.slurm.now)
    (new,) = cluster.account.instances()
    assert new.id != old.id


def test_node_keeps_one_of_two_instances(cluster: Cluster) -> None:
    cluster.slurm.submit(1, nodes=1, seconds=600)
    cluster.live(60)
    (kept,) = cluster.account.instances()
    cluster.account.ec2.run_instances(
        LaunchTemplate={"LaunchTemplateId": cluster.account.template, "Version": "1"},
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[
            {
                "ResourceType": "instance",
                "Tags": [
                    *({"Key": key, "Value": value} for key, value in cluster.settings.sites[0].tags.items()),
                    {"Key": "gpufleet:slurm-node", "Value": f"{PREFIX}1"},
                ],
            }
        ],
    )
    cluster.service.run()
    assert [each.id for each in cluster.account.instances()] == [kept.id]


def test_nodes_that_an_administrator_set_down_stay_down(cluster: Cluster) -> None:
    cluster.slurm.submit(1, nodes=1, seconds=6000)
    cluster.live(60)
    node = cluster.slurm.nodes[f"{PREFIX}1"]
    node.state, node.reason = "down", "disk is being replaced"
    cluster.live(RETRY_S + 100)
    assert (node.state, node.reason) == ("down", "disk is being replaced")
    assert cluster.account.of_node(f"{PREFIX}1")


def test_throttled_launch_is_tried_again_and_no_node_is_set_down(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cloud_nodes.aws import Ec2

    real, calls = Ec2._fleet, []

    def throttled(self: Ec2, *args: object) -> object:
        calls.append(args)
        return ([], "RequestLimitExceeded") if len(calls) == 1 else real(self, *args)

    monkeypatch.setattr(Ec2, "_fleet", throttled)
    cluster.slurm.submit(1, nodes=2, seconds=60)
    cluster.live(20)
    assert not cluster.account.instances() and not cluster.down()
    cluster.live(40)
    assert len(cluster.account.instances()) == 2


class LateNames:
    """EC2's CreateTags, which refuses the first calls with `errors`, every other instance with `refused`."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.errors: list[str] = []
        self.refused = ""
        self.calls: list[str] = []
        self._known: list[str] = []
        self._real = cluster.ec2._ec2.create_tags
        monkeypatch.setattr(cluster.ec2._ec2, "create_tags", self.create_tags)
        monkeypatch.setattr("cloud_nodes.aws.PAUSES_S", (0.0,) * 4)

    def create_tags(self, **given: Any) -> None:
        (instance,) = given["Resources"]
        self.calls.append(instance)
        if instance not in self._known:
            self._known.append(instance)
        code = self.errors.pop(0) if self.errors else ""
        if self.refused and self._known.index(instance) % 2:
            code = self.refused
        if code:
            raise ClientError({"Error": {"Code": code, "Message": "refused"}}, "CreateTags")
        self._real(**given)


@pytest.fixture
def names(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> LateNames:
    return LateNames(cluster, monkeypatch)


def test_new_instance_that_ec2_does_not_find_yet_is_named_later(cluster: Cluster, names: LateNames) -> None:
    names.errors = ["InvalidInstanceID.NotFound", "RequestLimitExceeded", "InvalidInstanceID.NotFound"]
    cluster.slurm.submit(1, nodes=2, seconds=600)
    cluster.slurm.tick(10)
    cluster.call_resume_programs()
    assert len(names.calls) == 5
    assert [len(cluster.account.of_node(name)) for name in cluster.slurm.on(1)] == [1, 1]
    cluster.live(60)
    tidy(cluster)


def test_job_whose_instances_cannot_all_be_named_gets_none_and_is_tried_again(
    cluster: Cluster, names: LateNames
) -> None:
    names.refused = "InvalidInstanceID.NotFound"
    cluster.slurm.submit(1, nodes=2, seconds=60)
    cluster.slurm.tick(10)
    cluster.call_resume_programs()
    assert len(set(names.calls)) == 2
    # No instance is left for EC2 to charge, and no node has one without the others.
    assert not cluster.account.instances() and not cluster.down()
    names.refused = ""
    cluster.live(60)
    assert len({each.placement.zone for each in cluster.account.instances()}) == 1
    tidy(cluster)
    cluster.live(200)
    assert cluster.slurm.ended == {1}


def test_nodes_without_a_common_job_keep_the_instances_that_could_be_named(
    cluster: Cluster, names: LateNames
) -> None:
    names.refused = "InvalidInstanceID.NotFound"
    cluster.slurm.submit(1, nodes=1, seconds=600)
    cluster.slurm.submit(2, nodes=1, seconds=600)
    cluster.slurm.tick(10)
    asked = [name for each in cluster.slurm.resumes for name in each]
    result = cluster.ec2.launch(Launch(cluster.settings.sites[0].groups[0], asked, False))
    assert (len(result.instances), result.code) == (1, "")
    assert [each.id for each in cluster.account.instances()] == list(result.instances.values())


def test_missing_right_to_name_instances_sets_nodes_down_until_the_next_try(
    cluster: Cluster, names: LateNames
) -> None:
    """Without a pause, each pass would launch instances again."""
    names.refused = "UnauthorizedOperation"
    cluster.slurm.submit(1, nodes=2, seconds=60)
    cluster.live(20)
    assert not cluster.account.instances()
    assert {numbers(cluster.slurm.nodes[name].reason) for name in cluster.down()} == {
        "gpufleet cloud: UnauthorizedOperation, again after TIME"
    }


def test_instances_that_ec2_does_not_find_yet_are_terminated_later(
    cluster: Cluster, names: LateNames, monkeypatch: pytest.MonkeyPatch
) -> None:
    names.refused = "InvalidInstanceID.NotFound"
    real, refused = cluster.ec2._ec2.terminate_instances, []

    def terminate(**given: Any) -> Any:
        if len(refused) < 2:
            refused.append(given)
            raise ClientError(
                {"Error": {"Code": names.refused, "Message": "not found"}}, "TerminateInstances"
            )
        return real(**given)

    monkeypatch.setattr(cluster.ec2._ec2, "terminate_instances", terminate)
    cluster.slurm.submit(1, nodes=2, seconds=60)
    cluster.slurm.tick(10)
    cluster.call_resume_programs()
    assert len(refused) == 2 and not cluster.account.instances()


def test_site_whose_aws_does_not_answer_is_left_alone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from cloud_nodes.aws import Ec2

    cluster.slurm.submit(1, nodes=2, seconds=600)
    cluster.live(60)
    before = cluster.states()

    def refused(_: Ec2) -> None:
        raise ClientError({"Error": {"Code": "ExpiredToken", "Message": "expired"}}, "DescribeInstances")

    monkeypatch.setattr(Ec2, "instances", refused)
    cluster.slurm.now += 100
    assert not cluster.service.run()
    assert cluster.states() == before
    assert "ExpiredToken" in capsys.readouterr().err


def test_only_the_controller_that_decides_makes_passes(cluster: Cluster) -> None:
    slurm = Slurm(cluster.slurm.run)
    assert slurm.acts_here("ctl02")
    assert not slurm.acts_here("ctl01")


def test_group_that_a_breach_of_the_budget_stopped_launches_nothing_until_it_is_resumed(
    account: Account,
) -> None:
    ssm = boto3.client("ssm", region_name=REGION)
    stopped = "/gpufleet/atlas/prod/stopped-groups"

    def record(groups: dict[str, list[int]]) -> None:
        ssm.put_parameter(Name=stopped, Value=json.dumps({"groups": groups}), Type="String", Overwrite=True)

    cluster = cluster_of(account, stopped=stopped)
    cluster.slurm.submit(1, nodes=1, seconds=30)
    cluster.live(60)
    # Without the record it is unknown whether the budget is spent.
    assert not account.instances() and not cluster.down()
    record({GROUP: [6, 0, 0]})
    cluster.live(20)
    assert not account.instances()
    assert {numbers(cluster.slurm.nodes[name].reason) for name in cluster.down()} == {
        "gpufleet cloud: the budget is spent, again after TIME"
    }
    record({"atlas-prod-use1-other": [6, 0, 0]})
    cluster.live(RETRY_S + 200)
    assert cluster.slurm.ended == {1}


def test_munge_key_is_put_where_nodes_read_it_once(cluster: Cluster) -> None:
    kms, ssm = (boto3.client(name, region_name=REGION) for name in ("kms", "ssm"))
    key = kms.create_key()["KeyMetadata"]["Arn"]
    ssm.put_parameter(Name="/munge", Value="not written yet", Type="SecureString", KeyId=key)
    site = dataclasses.replace(cluster.settings.sites[0], munge_parameter="/munge", munge_key_arn=key)
    settings = Settings((site,), RETRY_S)
    for _ in range(2):
        Passes(settings, Slurm(cluster.slurm.run), munge_key="k" * 64).run()
    found = ssm.get_parameter(Name="/munge", WithDecryption=True)["Parameter"]
    assert (found["Value"], found["Version"]) == ("k" * 64, 2)


def test_node_handler_of_notices_and_role_call_the_tag_of_a_node_the_same() -> None:
    # The programs of hosts import nothing of gpufleet.
    assert NODE_TAG == SLURM_NODE_TAG == notices.NODE_TAG
    program = (FILES.parents[1] / "slurm_cloud_node/files/cloud-node").read_text()
    assert f'"meta-data/tags/instance/{SLURM_NODE_TAG}"' in program
