"""Cloud nodes of a real Slurm: launched in the emulated AWS when jobs need them, terminated when idle.

Two hosts of the rack are the machines of the cloud. They start from an image that the roles made, when an
instance with their address is launched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from gpufleet.lab.aws.credentials import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from tests.rack.cloud_hosts import API, PORT, REGION, Instances
from tests.rack.lab import Lab, fleet_text, plan_fleet
from tests.rack.roles.proof import prove
from tests.rack.roles.test_slurm import BOOK, FAST, Cluster, made_secrets, prepare, wait_for

SITE = """\
    slurm: { state: "filer:/slurm" }
    users:
      - { name: ada, uid: 2001, teams: [research] }
"""
# The first two addresses of the subnet that the emulated EC2 gives to instances.
ADDRESSES = {"10.90.0.36": "dgx02", "10.90.0.37": "dgx03"}
SUBNET = "10.90.0.32/28"
MACHINES = f"    addresses: {json.dumps({host: address for address, host in ADDRESSES.items()})}\n"
KIND, IMAGE, PARTITION = "p5.48xlarge", "ami-12c6146b", "use1-sweep"
TAGS = {"gpufleet:fleet": "rack", "gpufleet:site": "use1"}
NODES = [f"{PARTITION}-1", f"{PARTITION}-2"]
SUSPEND_S, RESUME_S, RETRY_S = 20, 100, 20
PARAMETER = "/gpufleet/rack/sandbox/use1/munge-key"
DRAINED = "/gpufleet/rack/sandbox/drained/sweep"
CHECKPOINT_S = 20
ENDPOINT = f"http://{API}:{PORT}"
# A container is up in seconds; the program looks every ten.
LIMIT_S = 300
# A container has the uptime of this machine, and slurmctld ignores a node that has not booted since it was
# launched: `-b` reports a boot at the start of slurmd.
BOOTED = "[Service]\nExecStart=\nExecStart=/usr/sbin/slurmd -D -s -b $SLURMD_OPTIONS\n"
SCRIPT = "/usr/local/share/cloud-job.sh"
JOB = """\
#!/bin/bash
#SBATCH --account=research --partition=use1-sweep --nodes=2 --ntasks-per-node=1
#SBATCH --gres=gpu:8 --output=/tmp/said-%j
srun sh -c '
    address=$(getent hosts use1-sweep-2 | cut -d" " -f1)
    echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $(id -un) $address >/tmp/job-$SLURM_JOB_ID
'
# A signal for a checkpoint must not end the script; Slurm waits for the command before it.
trap 'date >>/tmp/signalled-$SLURM_JOB_ID' USR1
# A job that is queued again is short.
[ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] || srun sleep ${1:-0} &
until wait; do :; done
"""


@dataclass
class Burst(Cluster):
    """A cluster with cloud nodes."""

    instances: Instances

    def nodes(self) -> dict[str, str]:
        """The states of the cloud nodes, without the flag that all of them have."""
        said = self.lab.sh("login01", f"sinfo -hN -p {PARTITION} -O NodeList:30,StateComplete:80")
        return {
            name: state.lower().replace("+cloud", "") for name, state in map(str.split, said.splitlines())
        }

    def reasons(self) -> set[str]:
        """The reasons of the nodes, without times."""
        said = self.lab.sh("login01", f"sinfo -hN -p {PARTITION} -O Reason:200").splitlines()
        return {re.sub(r"\d{4}-\S+Z", "TIME", line.strip()) for line in said}

    def asleep(self) -> bool:
        """Whether no node runs, and each can be launched."""
        return self.nodes() == dict.fromkeys(NODES, "idle+powered_down") and not self.instances.alive()

    def cloud_job(self, *arguments: str, nodes: int = 2) -> int:
        """A new job on cloud nodes."""
        return self.submit(f"--nodes={nodes}", SCRIPT, *arguments)

    def wait_until_asleep(self) -> None:
        wait_for(self.asleep, LIMIT_S)

    def said(self, job: int) -> str:
        """What the job wrote, on its first node."""
        return "".join(self.lab.sh(host, f"cat /tmp/said-{job}", code=None) for host in ADDRESSES.values())

    def wait_for_end(self, job: int) -> None:
        """Wait until the job has run. One that was queued again need not wait the two minutes of Slurm."""

        def ended() -> bool:
            state = self.state(job)
            if state == "PENDING BeginTime":
                self.lab.sh("ctl02", f"scontrol update jobid={job} starttime=now", code=None)
            assert not state.startswith("FAILED"), self.said(job)
            return state.startswith("COMPLETED")

        wait_for(ended, LIMIT_S)


@pytest.fixture(scope="module")
def burst(can_hold_racks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Burst]:
    """Two controllers, a login host, a GPU node, and two machines that become cloud nodes."""
    folder = tmp_path_factory.mktemp("burst")
    lab = Lab.up(folder, fleet_text(gpu_nodes=3, more=SITE + MACHINES))
    secrets = made_secrets()
    instances = Instances(lab, tmp_path_factory.mktemp("aws"), ADDRESSES, "image")
    try:
        hosts = ("ctl01", "ctl02", "login01", "dgx01", *ADDRESSES.values())
        for host in hosts:
            prepare(lab, host)
            lab.sh(host, f"echo '{lab.rack.site.gateway} {API}' >>/etc/hosts")
        _write_inventory(lab)
        prove(lab, "playbooks/cloud_image.yml")
        settings = {
            "controllers": [f"{lab.rack.site.host(name).ip}:6817" for name in ("ctl01", "ctl02")],
            "region": REGION,
            "endpoint": ENDPOINT,
            "munge_parameter": PARAMETER,
        }
        profile = _profile()
        for host in ADDRESSES.values():
            lab.sh(host, f"cat >/etc/gpufleet/cloud-node.json <<'END'\n{json.dumps(settings)}\nEND")
            lab.sh(host, f"cat >/etc/systemd/system/slurmd.service.d/rack.conf <<'END'\n{BOOTED}END")
            lab.sh(host, f"mkdir /root/.aws; cat >/root/.aws/config <<'END'\n{profile}END")
        cloud = _cloud(instances, lab)
        facts = lab.run("playbooks/base.yml", tags=["always"])
        assert not facts.failures
        proof = prove(lab, BOOK, secrets=secrets, variables=FAST | cloud, again=False)
        made = Burst(lab, proof, secrets, instances)
        for host in ("ctl01", "ctl02"):
            lab.sh(host, f"cat >/etc/gpufleet/aws.conf <<'END'\n{profile}END")
        lab.sh(
            "login01",
            f"cat >{SCRIPT} <<'END'\n{JOB}END\nchmod 755 {SCRIPT}",
        )
        lab.seal("image")
        lab.rack.stop(*ADDRESSES.values(), force=True)
        with instances.up():
            wait_for(made.asleep, LIMIT_S)
            yield made
    finally:
        instances.stop()
        lab.down()


def _write_inventory(lab: Lab) -> None:
    """The rack's inventory without the machines of the cloud, which are a group of their own."""
    file = lab.inventory.with_name("rack.yaml")
    file.write_text(fleet_text(gpu_nodes=1, more=SITE))
    found = yaml.safe_load(plan_fleet(file)[1])
    whole = yaml.safe_load(lab.inventory.read_text())
    site = whole["all"]["children"]["site_lab"]
    found["all"]["children"]["cloud_images"] = {
        "hosts": {host: site["hosts"][host] for host in ADDRESSES.values()}
    }
    lab.inventory.write_text(yaml.safe_dump(found, sort_keys=False))


def _profile() -> str:
    return f"[default]\naws_access_key_id = {ACCESS_KEY_ID}\naws_secret_access_key = {SECRET_ACCESS_KEY}\n"


def _cloud(instances: Instances, lab: Lab) -> dict[str, Any]:
    """The variables of cloud nodes, with a launch template and a subnet in the emulated AWS."""
    ec2 = instances.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.90.0.0/24")["Vpc"]["VpcId"]
    made = ec2.create_subnet(VpcId=vpc, CidrBlock=SUBNET, AvailabilityZone=f"{REGION}a")
    tags = [{"Key": key, "Value": value} for key, value in TAGS.items()]
    template = ec2.create_launch_template(
        LaunchTemplateName="nodes",
        LaunchTemplateData={
            "ImageId": IMAGE,
            "InstanceType": KIND,
            "TagSpecifications": [{"ResourceType": "instance", "Tags": tags}],
        },
    )["LaunchTemplate"]["LaunchTemplateId"]
    instances.client("ssm").put_parameter(Name=DRAINED, Value="{}", Type="String")
    key = instances.client("kms").create_key()["KeyMetadata"]["Arn"]
    instances.client("ssm").put_parameter(Name=PARAMETER, Value="none yet", Type="SecureString", KeyId=key)
    found = dict(re.findall(r"(\w+)=(\d+)", lab.sh("dgx02", "slurmd -C")))
    return {
        "slurm_cloud_retry_s": RETRY_S,
        "slurm_cloud_sites": [
            {
                "site": "use1",
                "region": REGION,
                "tags": TAGS,
                "endpoint": ENDPOINT,
                "role": "",
                "munge_parameter": PARAMETER,
                "munge_key_arn": key,
                "checkpoint_s": CHECKPOINT_S,
                "groups": [
                    {
                        "name": "rack-sandbox-use1-sweep",
                        "prefix": f"{PARTITION}-",
                        "launch_template": template,
                        "version": "1",
                        "instance_types": [KIND],
                        "subnets": [made["Subnet"]["SubnetId"]],
                        "purchases": ["spot", "on-demand"],
                        "max_price": "",
                        "drained_parameter": DRAINED,
                    }
                ],
            }
        ],
        "slurm_controller_suspend_timeout_s": 10,
        "slurm_controller_cloud_groups": [
            {
                "nodes": f"{PARTITION}-[1-2]",
                "partition": PARTITION,
                "cpus": int(found["CPUs"]),
                "sockets": int(found["Boards"]) * int(found["SocketsPerBoard"]),
                "cores_per_socket": int(found["CoresPerSocket"]),
                "threads_per_core": int(found["ThreadsPerCore"]),
                "memory_mib": 1000,
                "gpu_type": "h100",
                "gpus": 8,
                "accounts": ["research"],
                "max_minutes": 0,
                "suspend_s": SUSPEND_S,
                "resume_s": RESUME_S,
            }
        ],
    }


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
    job = burst.cloud_job("15")
    wait_for(lambda: burst.state(job).startswith("RUNNING"), LIMIT_S)
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


def test_spot_nodes_of_a_spent_budget_drain_and_none_starts_until_it_is_resumed(burst: Burst) -> None:
    burst.wait_until_asleep()
    ssm = burst.instances.client("ssm")

    def record(value: str) -> None:
        ssm.put_parameter(Name=DRAINED, Value=value, Type="String", Overwrite=True)

    job = burst.cloud_job("110")
    wait_for(lambda: burst.state(job).startswith("RUNNING"), LIMIT_S)
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
