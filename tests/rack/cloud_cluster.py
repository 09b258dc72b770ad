"""A real Slurm with cloud nodes in the emulated AWS.

Two hosts of the rack are the machines of the cloud. They start from an image that the roles made, when an
instance with their address is launched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpufleet.lab.aws.credentials import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from tests.rack.cloud_hosts import API, PORT, REGION, Instances
from tests.rack.lab import BOOTED, Lab, fleet_text, plan_fleet
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
GROUP = {"gpufleet:node-group": "sweep"}
NODES = [f"{PARTITION}-1", f"{PARTITION}-2"]
# After a takeover nodes are launched late and ask the lost controller first: 100 s were too few.
SUSPEND_S, RESUME_S, RETRY_S = 20, 120, 20
PARAMETER = "/gpufleet/rack/sandbox/use1/munge-key"
DRAINED = "/gpufleet/rack/sandbox/drained/sweep"
CHECKPOINT_S = 20
ENDPOINT = f"http://{API}:{PORT}"
# A container is up in seconds; the program looks every ten.
LIMIT_S = 300
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
        reported = self.lab.sh("login01", f"sinfo -hN -p {PARTITION} -O NodeList:30,StateComplete:80")
        return {
            name: state.lower().replace("+cloud", "") for name, state in map(str.split, reported.splitlines())
        }

    def reasons(self) -> set[str]:
        """The reasons of the nodes, without times."""
        reported = self.lab.sh("login01", f"sinfo -hN -p {PARTITION} -O Reason:200").splitlines()
        return {re.sub(r"\d{4}-\S+Z", "TIME", line.strip()) for line in reported}

    def asleep(self) -> bool:
        """Whether no node runs, and each can be launched."""
        return self.nodes() == dict.fromkeys(NODES, "idle+powered_down") and not self.instances.alive()

    def cloud_job(self, *arguments: str, nodes: int = 2) -> int:
        """A new job on cloud nodes."""
        return self.submit(f"--nodes={nodes}", SCRIPT, *arguments)

    def wait_until_asleep(self) -> None:
        wait_for(self.asleep, LIMIT_S)

    def reported(self, job: int) -> str:
        """What the job wrote, on its first node."""
        return "".join(self.lab.sh(host, f"cat /tmp/said-{job}", code=None) for host in ADDRESSES.values())

    def wait_for_end(self, job: int) -> None:
        """Wait until the job has run. One that was queued again need not wait the two minutes of Slurm."""

        def ended() -> bool:
            state = self.state(job)
            if state == "PENDING BeginTime":
                self.lab.sh("ctl02", f"scontrol update jobid={job} starttime=now", code=None)
            assert not state.startswith("FAILED"), self.reported(job)
            return state.startswith("COMPLETED")

        self._wait_for(ended, job)

    def wait_until_running(self, job: int) -> None:
        """Wait until the job runs."""
        self._wait_for(lambda: self.state(job).startswith("RUNNING"), job)

    def _wait_for(self, true: Callable[[], bool], job: int) -> None:
        try:
            wait_for(true, LIMIT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._shown(job)}") from error

    def _shown(self, job: int) -> str:
        """The job, the nodes, and what the controllers logged last, for a failed test."""
        journal = "journalctl -q --no-pager -n 60 -u slurmctld -u gpufleet-cloud-nodes"
        logs = [f"{host}:\n{self.lab.sh(host, journal, code=None)}" for host in ("ctl01", "ctl02")]
        alive = [each["InstanceId"] for each in self.instances.alive()]
        return "\n".join((self.state(job), f"{self.nodes()} {self.reasons()} {alive}", *logs))


@contextmanager
def cloud_cluster(folder: Path, account: Path) -> Iterator[Burst]:
    """Two controllers, a login host, a GPU node, and two machines that become cloud nodes.

    `folder` gets the rack, `account` the emulated AWS.
    """
    lab = Lab.up(folder, fleet_text(gpu_nodes=3, more=SITE + MACHINES))
    secrets = made_secrets()
    instances = Instances(lab, account, ADDRESSES, "image")
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
        credentials = profile()
        for host in ADDRESSES.values():
            lab.sh(host, f"cat >/etc/gpufleet/cloud-node.json <<'END'\n{json.dumps(settings)}\nEND")
            # slurmctld ignores a node that has not booted since it was launched.
            lab.sh(host, f"cat >/etc/systemd/system/slurmd.service.d/rack.conf <<'END'\n{BOOTED}END")
            lab.sh(host, f"mkdir /root/.aws; cat >/root/.aws/config <<'END'\n{credentials}END")
        cloud = _cloud(instances, lab)
        facts = lab.run("playbooks/base.yml", tags=["always"])
        assert not facts.failures
        proof = prove(lab, BOOK, secrets=secrets, variables=FAST | cloud, again=False)
        made = Burst(lab, proof, secrets, instances)
        for host in ("ctl01", "ctl02"):
            lab.sh(host, f"cat >/etc/gpufleet/aws.conf <<'END'\n{credentials}END")
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


def profile() -> str:
    """The configuration of an AWS client for the emulated AWS."""
    return f"[default]\naws_access_key_id = {ACCESS_KEY_ID}\naws_secret_access_key = {SECRET_ACCESS_KEY}\n"


def _cloud(instances: Instances, lab: Lab) -> dict[str, Any]:
    """The variables of cloud nodes, with a launch template and a subnet in the emulated AWS."""
    ec2 = instances.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.90.0.0/24")["Vpc"]["VpcId"]
    made = ec2.create_subnet(VpcId=vpc, CidrBlock=SUBNET, AvailabilityZone=f"{REGION}a")
    tags = [{"Key": key, "Value": value} for key, value in (TAGS | GROUP).items()]
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
                "burst": {
                    "accounts": ["research"],
                    "partitions": ["gpu"],
                    "after_s": 5,
                    "boot_s": 10,
                    "idle_s": SUSPEND_S,
                    "monthly_usd": "100",
                    "groups": [
                        {
                            "partition": PARTITION,
                            "nodes": 2,
                            "cpus": int(found["CPUs"]),
                            "memory_mib": 1000,
                            "gpus": 8,
                            "gpu_type": "h100",
                            "usd_per_hour": "60",
                        }
                    ],
                },
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
