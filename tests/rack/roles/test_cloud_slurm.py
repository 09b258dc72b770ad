"""A Slurm that is in the cloud as a whole: servers of a cloud site, configured by the inventory of its stack.

Two login hosts of the rack are the machines of the cloud, as in `tests.rack.cloud_cluster`. One has the image
that `gpufleet image build` makes, the other one is configured by the playbook.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.rack.cloud_cluster import ENDPOINT, GROUP, IMAGE, PARAMETER, TAGS, profile
from tests.rack.cloud_hosts import API, REGION, Instances
from tests.rack.image_build import build_image
from tests.rack.lab import BOOTED, Lab, plan_fleet
from tests.rack.roles.proof import prove
from tests.rack.roles.test_slurm import BOOK, FAST, wait_for

LIMIT_S = 300
# The first two addresses of this subnet are those of the last two login hosts.
SUBNET = "10.90.0.16/28"
MACHINES = {"10.90.0.20": "use1-login3", "10.90.0.21": "use1-login4"}
BUILT, PLAIN = MACHINES.items()
SERVERS = ("use1-ctl1", "use1-ctl2", "use1-login1")
# What belongs to one instance.
OWN = "/etc/ssh/ssh_host_*_key /home/ansible/.ssh/authorized_keys /etc/munge/munge.key"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample"
FLEET = """\
apiVersion: gpufleet/v1
fleet: rack
environment: sandbox
budget: {{monthly: 90000 USD, alerts: [80%]}}
tags: {{team: ml, cost-center: cc-1, project: rack}}
cloud:
  - site: use1
    region: us-east-1
    zones: [us-east-1a]
    network: {{cidr: 10.90.0.0/22}}
    scheduler: slurm
    slurm:
      suspend_after: 20 s
      resume_within: 100 s
      retry_after: 20 s
      servers:
        image: ami-0123456789abcdef0
        controllers: {{hosts: 2}}
        login: {{hosts: {login}}}
        ssh: {{user: ansible, access: direct}}
        shared: /shared
        package_mirror: http://packages.rack/vendor
        teams: [{{name: research, gpus: 0}}]
        users:
          - {{ name: ada, uid: 2001, teams: [research], ssh_keys: ["{KEY}"] }}
    node_groups:
      - {{ name: small, instance_types: [c7i.large], image: ami-0123456789abcdef0, team: research,
          capacity: {{ on_demand: {{ max: 2 }} }} }}
software: {{channel: 2026.11}}
"""


@dataclass
class Cluster:
    """The servers, and the machines that become nodes."""

    lab: Lab
    instances: Instances
    image: dict[str, Any]
    """EC2's description of the built image."""
    left: str
    """Files of its instance in it."""

    def login(self, command: str, code: int | None = 0) -> str:
        """Output of a user's command on the login host."""
        return self.lab.sh("use1-login1", f"cd /tmp; runuser -u ada -- {command}", code=code)

    def asleep(self) -> bool:
        """Whether no node runs."""
        reported = self.login("sinfo -hN -O StateComplete:80", code=None).lower().split()
        return reported == ["idle+cloud+powered_down"] * 2 and not self.instances.alive()


@pytest.fixture(scope="module")
def cluster(can_hold_racks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    lab = Lab.up(tmp_path_factory.mktemp("slurm"), FLEET.format(login=4, KEY=KEY))
    account = tmp_path_factory.mktemp("aws")
    instances = Instances(lab, account, MACHINES, "image")
    keys = {
        "GPUFLEET_SECRET_MUNGE_KEY_USE1": secrets.token_hex(64),
        "GPUFLEET_SECRET_DATABASE_PASSWORD_USE1": secrets.token_hex(16),
    }
    try:
        fleet = lab.inventory.with_name("servers.yaml")
        fleet.write_text(FLEET.format(login=1, KEY=KEY))
        outputs = {"use1": _outputs(instances)}
        image = build_image(lab, account, fleet, outputs, BUILT, IMAGE)
        lab.rack.start(BUILT[1])
        left = lab.sh(BUILT[1], f"ls {OWN} 2>/dev/null", code=None)
        for host in (*SERVERS, *MACHINES.values()):
            lab.sh(host, f"echo '{lab.rack.site.gateway} {API}' >>/etc/hosts")
        _write_inventory(lab, fleet, outputs)
        prove(lab, "playbooks/cloud_image.yml")
        settings = {
            "controllers": ["10.90.0.16:6817", "10.90.0.17:6817"],
            "region": REGION,
            "endpoint": ENDPOINT,
            "munge_parameter": PARAMETER,
        }
        for host in MACHINES.values():
            lab.sh(host, f"cat >/etc/gpufleet/cloud-node.json <<'END'\n{json.dumps(settings)}\nEND")
            lab.sh(host, f"cat >/etc/systemd/system/slurmd.service.d/rack.conf <<'END'\n{BOOTED}END")
            lab.sh(host, f"mkdir /root/.aws; cat >/root/.aws/config <<'END'\n{profile()}END")
        base = lab.run("playbooks/base.yml", secrets=keys)
        assert not base.failures
        prove(lab, BOOK, secrets=keys, variables=FAST | {"slurm_controller_suspend_timeout_s": 10})
        for host in SERVERS[:2]:
            lab.sh(host, f"cat >/etc/gpufleet/aws.conf <<'END'\n{profile()}END")
        lab.seal("image")
        lab.rack.stop(*MACHINES.values(), force=True)
        with instances.up():
            made = Cluster(lab, instances, image, left)
            wait_for(made.asleep, LIMIT_S)
            yield made
    finally:
        instances.stop()
        lab.down()


def _write_inventory(lab: Lab, fleet: Path, outputs: dict[str, Any]) -> None:
    """The inventory of the servers, with the second machine of the cloud as a group of its own."""
    found = yaml.safe_load(plan_fleet(fleet, outputs)[1])
    whole = yaml.safe_load(lab.inventory.read_text())["all"]["children"]["site_use1"]
    found["all"]["children"]["cloud_images"] = {"hosts": {PLAIN[1]: whole["hosts"][PLAIN[1]]}}
    lab.inventory.write_text(yaml.safe_dump(found, sort_keys=False))


def _outputs(instances: Instances) -> dict[str, Any]:
    """The outputs of the stack, with a launch template and a subnet in the emulated AWS."""
    ec2 = instances.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.90.0.0/22")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock=SUBNET, AvailabilityZone=f"{REGION}a")["Subnet"]
    tags = [{"Key": key, "Value": value} for key, value in (TAGS | GROUP).items()]
    data = {
        "ImageId": IMAGE,
        "InstanceType": "c7i.large",
        "TagSpecifications": [{"ResourceType": "instance", "Tags": tags}],
    }
    template = ec2.create_launch_template(LaunchTemplateName="nodes", LaunchTemplateData=data)
    key = instances.client("kms").create_key()["KeyMetadata"]["Arn"]
    instances.client("ssm").put_parameter(Name=PARAMETER, Value="none yet", Type="SecureString", KeyId=key)
    return {
        "slurm": {
            "site": "use1",
            "region": REGION,
            "tags": TAGS,
            "endpoint": ENDPOINT,
            "role": "",
            "munge_parameter": PARAMETER,
            "munge_key_arn": key,
            "groups": [
                {
                    "name": "rack-sandbox-use1-small",
                    "prefix": "use1-small-",
                    "launch_template": template["LaunchTemplate"]["LaunchTemplateId"],
                    "version": "1",
                    "instance_types": ["c7i.large"],
                    "subnets": [subnet["SubnetId"]],
                    "purchases": ["on-demand"],
                    "max_price": "",
                }
            ],
        },
        "slurm_servers": {"state": "filer:/slurm", "shared": "filer:/shared"},
    }


def test_built_image_says_what_it_is_and_has_nothing_of_its_instance(cluster: Cluster) -> None:
    tags = {each["Key"]: each["Value"] for each in cluster.image["Tags"]}
    assert tags["gpufleet:image-base"] == IMAGE
    assert (tags["gpufleet:fleet"], tags["gpufleet:site"]) == ("rack", "use1")
    assert cluster.image["Name"].startswith("rack-sandbox-use1-slurm-")
    assert cluster.left == ""


def test_job_without_a_partition_runs_on_launched_nodes_which_end_when_idle(cluster: Cluster) -> None:
    command = "sbatch --parsable -A research -N2 --output=/tmp/said --wrap 'srun sh -c \"hostname; id\"'"
    job = cluster.login(command).strip()
    wait_for(lambda: "COMPLETED" in cluster.login(f"sacct -X -n -j {job} -o State"), LIMIT_S)
    reported = "".join(cluster.lab.sh(host, "cat /tmp/said", code=None) for host in MACHINES.values())
    words = reported.split()
    assert sorted(each for each in words if each.startswith("use1")) == ["use1-small-1", "use1-small-2"]
    # No image has users: the prolog creates that of the job.
    assert words.count("uid=2001(ada)") == 2
    wait_for(cluster.asleep, LIMIT_S)


def test_backup_controller_launches_nodes_from_the_shared_state(cluster: Cluster) -> None:
    lab = cluster.lab
    lab.sh("use1-ctl1", "systemctl stop gpufleet-cloud-nodes; systemctl kill --signal=KILL slurmctld")
    try:
        wait_for(
            lambda: "backup) at use1-ctl2 is UP" in lab.sh("use1-login1", "scontrol ping", code=None), LIMIT_S
        )
        job = cluster.login("sbatch --parsable -A research --output=/tmp/said2 --wrap hostname").strip()
        wait_for(lambda: "COMPLETED" in cluster.login(f"sacct -X -n -j {job} -o State"), LIMIT_S)
    finally:
        lab.sh("use1-ctl1", "systemctl start gpufleet-cloud-nodes; systemctl start slurmctld")
    wait_for(cluster.asleep, LIMIT_S)
