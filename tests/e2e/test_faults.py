"""`gpufleet up` on a cloud that throttles, lacks capacity, is late, slow or fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpufleet.lab.aws import daemon
from tests.e2e.place import NODES, Place

pytestmark = pytest.mark.xdist_group("e2e-faults")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    daemon.ensure(made.checkout.root / ".gpufleet" / "sandbox")
    yield made
    made.checkout.run("sandbox", "stop")


def test_up_survives_throttling_and_backs_off(place: Place) -> None:
    # 14 endpoints, and the bucket of CreateVpcEndpoint holds 4 and refills once in 3.3 s.
    place.write({"cloud[near].network.nat": "none"})
    place.faults("--throttle")
    done = place.up()
    assert done["ok"], done
    counts = place.faults()["injected"]
    assert counts["admitted ec2:CreateVpcEndpoint"] == 14
    refused = counts["throttled ec2:CreateVpcEndpoint"]
    # Ten requests wait 17 s each on average: retried at once or every 100 ms they would be thousands.
    assert 0 < refused < 150
    assert done["duration_s"] > (14 - 4) / 0.3


def test_capacity_shortage_names_type_zone_and_remedy_and_the_next_run_finishes(place: Place) -> None:
    place.write({f"{NODES}.capacity": {"reserved": {"odcr": {"nodes": 1}}}})
    place.faults("--no-capacity", "g6e.2xlarge:us-east-1a")
    (reported,) = [each for each in place.failures() if "InsufficientInstanceCapacity" in each]
    assert "g6e.2xlarge" in reported
    assert "us-east-1a" in reported
    assert "use another zone or type" in reported
    changes = place.finished()
    assert changes["create"] >= 3
    assert changes["same"] > 30


def test_node_group_without_capacity_fails_with_the_reason_and_the_next_run_finishes(place: Place) -> None:
    place.write(
        {
            "cloud[near].scheduler": "kubernetes",
            f"{NODES}.capacity": {"on_demand": {"min": 1, "max": 1}},
        }
    )
    place.faults("--no-capacity", "g6e.2xlarge")
    (reported,) = [each for each in place.failures() if "InsufficientInstanceCapacity" in each]
    assert "g6e.2xlarge" in reported
    assert "us-east-1a" in reported
    assert "use another zone or type" in reported
    place.finished()
    eks = place.checkout.json("sandbox", "status")["url"]
    assert _node_group_states(eks) == {"ACTIVE"}


def test_slurm_group_without_capacity_fails_with_the_reason_and_the_next_run_finishes(place: Place) -> None:
    place.write({f"{NODES}.capacity": {"on_demand": {"min": 0, "max": 2, "desired": 2}}})
    place.faults("--no-capacity", "g6e.2xlarge")
    (reported,) = [each for each in place.failures() if "none is in service" in each]
    assert "asks for 2 nodes" in reported
    assert "sufficient g6e.2xlarge capacity in the Availability Zone you requested (us-east-1a)" in reported
    assert "use another zone or type" in reported
    # The next run waits again instead of passing without nodes, and changes nothing else.
    again = place.up(code=4)
    assert [each for each in again["failures"] if "none is in service" in each.get("error", "")]
    assert {again["changes"][key] for key in ("create", "update", "replace", "delete")} == {0}
    place.finished()
    nodes = place.checkout.json("outputs", "test")["nodes"]
    assert len(nodes) == 2


def _node_group_states(url: str) -> set[str]:
    import boto3

    from gpufleet.lab.aws.credentials import ACCESS_KEY_ID, SECRET_ACCESS_KEY

    eks = boto3.client(
        "eks",
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id=ACCESS_KEY_ID,
        aws_secret_access_key=SECRET_ACCESS_KEY,
    )
    (cluster,) = eks.list_clusters()["clusters"]
    return {
        eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]["status"]
        for name in eks.list_nodegroups(clusterName=cluster)["nodegroups"]
    }


def test_up_waits_for_resources_that_are_listed_late(place: Place) -> None:
    place.faults("--late", "1.5")
    assert place.up()["ok"]
    late = {what: count for what, count in place.faults()["injected"].items() if what.startswith("late")}
    assert {"late ec2:DescribeSubnets", "late iam:GetRole"} <= set(late)


def test_slow_response_is_waited_for_and_a_server_error_is_retried(place: Place) -> None:
    place.faults("--slow", "ec2:CreateInternetGateway=2", "--fail", "ec2:DescribeVpcs#1")
    done = place.up()
    assert done["ok"]
    assert done["duration_s"] > 2
    assert place.faults()["injected"] == {"failed ec2:DescribeVpcs": 1, "slow ec2:CreateInternetGateway": 1}


def test_failed_creation_is_not_sent_again_and_the_next_run_finishes(
    place: Place,
) -> None:
    place.faults("--fail", "ec2:CreateVpc#1")
    (reported,) = [each for each in place.failures() if "InternalError" in each]
    assert "whether it was created is unknown" in reported
    assert place.faults()["injected"] == {"failed ec2:CreateVpc": 1}
    place.finished()


def test_error_at_the_nth_call_fails_one_resource_and_the_next_run_finishes(place: Place) -> None:
    place.faults("--fail", "ec2:CreateSubnet#3=SubnetLimitExceeded")
    reported = place.failures()
    assert len([each for each in reported if "SubnetLimitExceeded" in each]) == 1
    place.finished()
    again = place.up()["changes"]
    counts = {key: again[key] for key in ("create", "update", "replace", "delete")}
    assert counts == {"create": 0, "update": 0, "replace": 0, "delete": 0}


def test_invalid_faults_are_refused(place: Place) -> None:
    reported = place.checkout.run("sandbox", "faults", "--fail", "nonsense")
    assert reported.returncode == 2
    assert "--fail 'nonsense' is not an action of a service" in reported.stderr
    assert place.faults()["faults"] == {
        "failures": [],
        "late_s": 0.0,
        "shortages": [],
        "slow": [],
        "throttle": False,
    }
