"""Cloud nodes of a real Slurm: launched in the emulated AWS when jobs need them, terminated when idle."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.rack.cloud_cluster import ADDRESSES, DRAINED, KIND, LIMIT_S, NODES, PARTITION, Burst, cloud_cluster
from tests.rack.roles.test_slurm import wait_for


@pytest.fixture(scope="module")
def burst(can_hold_racks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Burst]:
    with cloud_cluster(tmp_path_factory.mktemp("burst"), tmp_path_factory.mktemp("aws")) as made:
        yield made


def test_job_runs_on_launched_nodes_with_their_gpus_and_they_end_when_they_are_idle(burst: Burst) -> None:
    burst.wait_until_asleep()
    job = burst.cloud_job()
    burst.wait_for_end(job)
    found = {burst.lab.sh(host, f"cat /tmp/job-{job}").strip() for host in ADDRESSES.values()}
    assert found == {f"{node} 0,1,2,3,4,5,6,7 ada 10.90.0.37" for node in NODES}
    burst.wait_until_asleep()
    # Nodes of the rack never sleep.
    assert "power" not in burst.lab.sh("ctl01", "sinfo -hN -n dgx01 -O StateComplete:40").lower()


def test_without_capacity_for_all_no_node_is_launched_and_the_job_runs_later(burst: Burst) -> None:
    burst.wait_until_asleep()
    burst.instances.faults(json.dumps({"shortages": [{"type": KIND, "left": 1}]}))
    job = burst.cloud_job()
    wait_for(lambda: any("InsufficientInstanceCapacity" in each for each in burst.reasons()), LIMIT_S)
    assert "gpufleet cloud: InsufficientInstanceCapacity, again after TIME" in burst.reasons()
    assert not burst.instances.alive()
    assert burst.state(job).startswith("PENDING")
    burst.instances.faults("{}")
    burst.wait_for_end(job)


def test_node_that_never_comes_up_is_replaced(burst: Burst) -> None:
    burst.wait_until_asleep()
    burst.instances.boots = False
    job = burst.cloud_job(nodes=1)
    wait_for(burst.instances.alive, LIMIT_S)
    (first,) = burst.instances.alive()
    wait_for(lambda: "gpufleet cloud: did not register in time, again after TIME" in burst.reasons(), LIMIT_S)
    burst.instances.boots = True
    burst.wait_for_end(job)
    assert first["InstanceId"] not in [each["InstanceId"] for each in burst.instances.alive()]


def test_job_on_a_reclaimed_node_is_queued_again_and_ends_on_another_instance(burst: Burst) -> None:
    burst.wait_until_asleep()
    job = burst.cloud_job("110")
    burst.wait_until_running(job)
    lost = burst.instances.alive()[0]["InstanceId"]
    burst.instances.client("ec2").terminate_instances(InstanceIds=[lost])
    wait_for(lambda: not burst.state(job).startswith("RUNNING"), LIMIT_S)
    burst.wait_for_end(job)
    assert burst.ada(f"sacct -X -n -P -D -j {job} -o State").split() == ["NODE_FAIL", "COMPLETED"]
    burst.wait_until_asleep()


def test_controller_that_takes_over_during_a_resume_finishes_it(burst: Burst) -> None:
    burst.wait_until_asleep()
    lab = burst.lab
    # The primary dies with its programs before they have launched anything.
    lab.sh("ctl01", "systemctl stop gpufleet-cloud-nodes; chmod 0 /run/gpufleet-cloud-nodes")
    job = burst.cloud_job()
    wait_for(lambda: any("powering_up" in state for state in burst.nodes().values()), LIMIT_S)
    kept = "grep -c powering /var/lib/slurm/shared/slurmctld-lab/node_state"
    assert lab.sh("ctl01", kept, code=None) is not None
    lab.sh("ctl01", "sleep 6; systemctl kill --signal=KILL slurmctld")
    try:
        wait_for(lambda: "backup) at ctl02 is UP" in lab.sh("login01", "scontrol ping", code=None), LIMIT_S)
        burst.wait_for_end(job)
    finally:
        lab.sh("ctl01", "systemctl start gpufleet-cloud-nodes; systemctl start slurmctld")
    burst.wait_until_asleep()


def test_waiting_job_of_the_racks_runs_in_the_cloud_and_a_too_expensive_one_stays(burst: Burst) -> None:
    burst.wait_until_asleep()
    lab = burst.lab

    def rack_job(limit: str, command: str, *words: str) -> int:
        options = f"--partition=gpu --gres=gpu:8 --mem=500 --time={limit} --output=/tmp/said-%j"
        return burst.submit(options, *words, f"--wrap={command!r}")

    def shown(job: int, field: str) -> str:
        reported = lab.sh("login01", f"scontrol show job {job}")
        found = re.search(rf"\b{field}=(.*?)(?: [\w:/]+=| *$)", reported, re.MULTILINE)
        return found[1] if found else ""

    before = float(lab.sh("ctl01", "date +%s"))
    # The only node of the racks is drained.
    assert "drain" in lab.sh("ctl01", "sinfo -hN -n dgx01 -O StateComplete:40").lower()
    dear = rack_job("2:00:00", "true")
    stays = rack_job("5", "true", "--comment=gpufleet:stay")
    goes = rack_job("5", "hostname >/tmp/burst-host")
    try:
        wait_for(lambda: burst.state(goes).startswith("COMPLETED"), LIMIT_S)
        assert shown(goes, "Partition") == PARTITION
        why = rf"waited \d+ min; {PARTITION} costs up to 5\.50 of \d+\.\d\d USD left this month"
        assert re.fullmatch(f"gpufleet burst: cloud: {why}", shown(goes, "AdminComment"))
        # It ran on one of the machines of the cloud.
        files = [lab.sh(host, "cat /tmp/burst-host", code=None).strip() for host in ADDRESSES.values()]
        assert len([each for each in files if each]) == 1, files
        assert shown(dear, "AdminComment").startswith("gpufleet burst: budget: costs up to 120.50 USD, and ")
        explained = lab.sh("ctl01", "runuser -u slurm -- /usr/lib/gpufleet/cloud-nodes explain")
        rules = {line.split()[0]: line.split()[2] for line in explained.splitlines()}
        assert rules == {str(dear): "budget:", str(stays): "residency:"}
        # What the job used is in the accounting, as is all that ran before.
        since = f"date -u -d @{before:.0f} +%Y-%m-%dT%H:%M:%S"
        words = f"-a -X -n -P -T --partition={PARTITION} -S $({since}) --format=JobID,Partition,NNodes,State"
        assert lab.sh("ctl01", f"TZ=UTC sacct {words}").splitlines() == [f"{goes}|{PARTITION}|1|COMPLETED"]
    finally:
        burst.ada(f"scancel {dear} {stays} {goes}", code=None)
    burst.wait_until_asleep()


def test_spot_nodes_of_a_spent_budget_drain_and_none_starts_until_it_is_resumed(burst: Burst) -> None:
    burst.wait_until_asleep()
    ssm = burst.instances.client("ssm")

    def record(value: str) -> None:
        ssm.put_parameter(Name=DRAINED, Value=value, Type="String", Overwrite=True)

    job = burst.cloud_job("110")
    burst.wait_until_running(job)
    record(json.dumps({"since": "2030-05-04T12:00:00+00:00", "sizes": [0, 0, 2]}))
    try:
        wait_for(lambda: any("checkpoint until" in each for each in burst.reasons()), LIMIT_S)
        assert all("drain" in state for state in burst.nodes().values())
        assert len(burst.instances.alive()) == 2
        wait_for(lambda: not burst.state(job).startswith("RUNNING"), LIMIT_S)
        assert burst.state(job).startswith("PENDING")
        signalled = [
            burst.lab.sh(host, f"cat /tmp/signalled-{job}", code=None) for host in ADDRESSES.values()
        ]
        assert sum(bool(each.strip()) for each in signalled) == 1
        wait_for(lambda: not burst.instances.alive(), LIMIT_S)
        # Two tries of Slurm later there is still none.
        burst.lab.sh("ctl02", f"scontrol update jobid={job} starttime=now", code=None)
        burst.lab.sh("ctl01", "sleep 40")
        assert not burst.instances.alive()
    finally:
        record("{}")
    wait_for(lambda: not any("drain" in state for state in burst.nodes().values()), LIMIT_S)
    burst.wait_for_end(job)
    burst.wait_until_asleep()
