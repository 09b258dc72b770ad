"""A site with a Slurm of its own: its servers built in moto, and what roles and prices make of them."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml
from msgspec.structs import replace

from gpufleet.account.actions import action_sets
from gpufleet.account.needs import region_needs
from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.policy.evaluation import RuleEvaluator
from gpufleet.policy.examples import DAY
from gpufleet.policy.fleet import open_stack
from gpufleet.policy.pack import load_rules
from gpufleet.policy.settings import configure
from gpufleet.pricing.of_plan import price_plan
from gpufleet.racks.inventory import build_inventory
from gpufleet.resources.types import INSTANCE
from gpufleet.stacks.program import build_fleet
from gpufleet.stacks.settings import StackSettings
from tests.unit.components.recording import Recording, record
from tests.unit.plan.fleets import CATALOG, cloud_site, group, on_demand, spec
from tests.unit.pricing.programs import registered
from tests.unit.stacks.moto_mocks import MotoMocks, emulated_aws

ROOT = Path(__file__).resolve().parents[3]
SETTINGS = StackSettings("sandbox", "sandbox", False, None, {}, {})
IMAGE = "ami-12c6146b"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample"
SERVERS: dict[str, Any] = {
    "image": IMAGE,
    "controllers": {"hosts": 2},
    "login": {"hosts": 1, "instance_type": "m7i.large"},
    "shared": "/shared",
    "ssh": {"keys": [KEY]},
    "teams": [{"name": "research", "gpus": 8}],
    "users": [{"name": "ada", "uid": 2001, "teams": ["research"], "ssh_keys": [KEY]}],
}
FILE = f"""\
apiVersion: gpufleet/v1
fleet: atlas
environment: test
budget: {{monthly: 100000 USD, notify: [finops@example.com]}}
tags: {{team: ml, cost-center: cc-1, project: atlas}}
cloud:
  - site: use1
    region: us-east-1
    zones: [us-east-1a, us-east-1b]
    network: {{cidr: 10.40.0.0/16}}
    scheduler: slurm
    slurm: {{servers: SERVERS}}
    node_groups:
      - {{name: sweep, instance_types: [g6e.xlarge], image: {IMAGE}, team: research,
         capacity: {{on_demand: {{max: 4}}}}}}
software: {{channel: 2026.11}}
"""
ONE: dict[str, Any] = {"image": IMAGE, "login": {"hosts": 0}}


def plan(servers: dict[str, Any] | None = None) -> FleetPlan:
    team = "research" if (servers or SERVERS).get("teams") else None
    groups = [
        group("sweep", "g6e.xlarge", on_demand(0, 4), image=IMAGE, team=team),
        group("cpu", "m7i.xlarge", on_demand(0, 2), image=IMAGE),
    ]
    site = cloud_site(*groups, slurm={"servers": servers or SERVERS})
    return build_plan(spec(cloud=[site]), CATALOG)


@cache
def built() -> tuple[Recording, dict[str, Any]]:
    """The resources of the fleet, and the exports of its site."""
    return build(plan())


def build(of: FleetPlan) -> tuple[Recording, dict[str, Any]]:
    exports: dict[str, Any] = {}

    def program() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pulumi, "export", exports.__setitem__)
            build_fleet(of, SETTINGS)
            pulumi.Output.all(exports["use1"]).apply(lambda found: exports.update(use1=found[0]))

    with emulated_aws():
        made = record(program, MotoMocks())
    return made, exports["use1"]


def inventory(of: FleetPlan, site: dict[str, Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = build_inventory(of, CATALOG, {} if site is None else {"use1": site})
    return found["all"]["children"]


def test_servers_have_private_addresses_that_are_kept_for_them() -> None:
    made, _ = built()
    found = {each.name.removeprefix("atlas-test-use1-slurm-"): each.inputs for each in made.of(INSTANCE)}
    assert {name: each["privateIp"] for name, each in found.items()} == {
        "ctl1": "10.40.0.16",
        "ctl2": "10.40.32.17",
        "login1": "10.40.0.18",
    }
    kept = [
        (each.inputs["cidrBlock"], each.inputs["reservationType"])
        for each in made.of("SubnetCidrReservation")
    ]
    # Resources are made side by side, in no order.
    assert sorted(kept) == [("10.40.0.16/28", "explicit"), ("10.40.32.16/28", "explicit")]
    assert not any(each["associatePublicIpAddress"] for each in found.values())


def test_servers_are_encrypted_and_take_tokens_only() -> None:
    made, _ = built()
    for each in made.of(INSTANCE):
        assert each.inputs["metadataOptions"]["httpTokens"] == "required"
        assert each.inputs["rootBlockDevice"]["encrypted"] is True
    kept = {each.name: each.inputs["rootBlockDevice"]["deleteOnTermination"] for each in made.of(INSTANCE)}
    assert kept == {
        "atlas-test-use1-slurm-ctl1": False,
        "atlas-test-use1-slurm-ctl2": False,
        "atlas-test-use1-slurm-login1": True,
    }


def test_servers_know_their_names_and_keys() -> None:
    made, _ = built()
    (login,) = [each for each in made.of(INSTANCE) if each.name.endswith("login1")]
    head, _, body = str(login.inputs["userData"]).partition("\n")
    assert head == "#cloud-config"
    assert yaml.safe_load(body) == {
        "hostname": "use1-login1",
        "preserve_hostname": False,
        "ssh_authorized_keys": [KEY],
    }


def test_servers_are_no_nodes_to_the_programs_that_terminate_these() -> None:
    made, _ = built()
    for each in made.of(INSTANCE):
        assert "gpufleet:node-group" not in each.inputs["tags"]
        assert each.inputs["tags"]["gpufleet:slurm-server"] in ("controller", "login")
    (policy,) = [each for each in made.of("RolePolicy") if each.name == "atlas-test-use1-launcher"]
    statements = json.loads(policy.inputs["policy"])["Statement"]
    for each in statements:
        if "ec2:TerminateInstances" in each["Action"]:
            assert each["Condition"]["Null"] == {"aws:ResourceTag/gpufleet:node-group": "false"}
            break
    else:
        pytest.fail("controllers may terminate no node")


def test_controllers_launch_nodes_by_the_role_of_their_instances() -> None:
    made, site = built()
    assert site["slurm"]["role"] == ""
    roles = {each.name for each in made.of("aws:iam/role:Role")}
    assert {"atlas-test-use1-slurm-controller", "atlas-test-use1-slurm-login"} < roles
    assert "atlas-test-use1-launcher" not in roles
    (policy,) = [each for each in made.of("RolePolicy") if each.name == "atlas-test-use1-launcher"]
    assert str(policy.inputs["role"]).startswith("atlas-test-use1-slurm-controller")
    # Servers and nodes are in one security group: no rule between them is needed.
    assert not [each for each in made.of("SecurityGroupIngressRule") if "slurmd" in each.name]


def test_two_controllers_share_their_state_and_users_a_folder() -> None:
    made, site = built()
    assert {each.name for each in made.of("FileSystem")} == {
        "atlas-test-use1-slurm-shared",
        "atlas-test-use1-slurm-state",
    }
    assert all(each.inputs["encrypted"] for each in made.of("FileSystem"))
    assert len(made.of("MountTarget")) == 4
    servers = site["slurm_servers"]
    assert set(servers["instances"]) == {"use1-ctl1", "use1-ctl2", "use1-login1"}
    given = inventory(plan(), site)["site_use1"]["vars"]
    assert given["slurm_controller_state"] == servers["state"]
    assert given["nfs_client_mounts"] == [{"source": servers["shared"], "path": "/shared"}]
    assert "nfsvers=4.1" in given["nfs_client_options"]


def test_one_controller_without_a_folder_needs_no_file_system() -> None:
    made, site = build(plan(ONE))
    assert not made.of("FileSystem") and not made.of("MountTarget")
    assert set(site["slurm_servers"]) == {"instances"}
    given = inventory(plan(ONE), site)["site_use1"]["vars"]
    assert "slurm_controller_state" not in given
    assert given["nfs_client_mounts"] == []


def test_nodes_find_the_controllers_and_the_folder() -> None:
    made, site = built()
    texts = [str(each.inputs["userData"]) for each in made.of("LaunchTemplate")]
    for text in map(base64.b64decode, texts):
        assert b"10.40.0.16:6817" in text and b"10.40.32.17:6817" in text
        assert site["slurm_servers"]["shared"].encode() in text


def test_roles_see_servers_and_the_nodes_that_they_launch() -> None:
    _, site = built()
    groups = inventory(plan(), site)
    assert set(groups["rack_slurm_controllers"]["hosts"]) == {"use1-ctl1", "use1-ctl2"}
    assert set(groups["rack_slurm_database"]["hosts"]) == {"use1-ctl1"}
    assert set(groups["rack_slurm_login"]["hosts"]) == {"use1-login1"}
    assert groups["slurm_servers"]["children"] == {"site_use1": {}}
    for empty in ("onprem", "rack_gpu_nodes", "rack_container_login"):
        assert groups[empty] == {}
    given = groups["site_use1"]["vars"]
    sweep, cpu = given["slurm_controller_cloud_groups"]
    assert (sweep["partition"], sweep["default"], sweep["accounts"]) == ("use1-sweep", True, ["research"])
    assert "default" not in cpu
    assert given["slurm_controller_partitions"] == given["slurm_controller_nodes"] == []
    assert given["slurm_cloud_sites"] == [site["slurm"]]
    assert given["firewall_networks"] == ["10.40.0.0/16"]
    assert given["base_time_servers"] == ["169.254.169.123"]


def test_ansible_reaches_servers_by_session_manager_or_directly() -> None:
    _, site = built()
    host = inventory(plan(), site)["site_use1"]["hosts"]["use1-ctl1"]
    instance = site["slurm_servers"]["instances"]["use1-ctl1"]
    assert host["ansible_host"] == "10.40.0.16"
    assert f"aws ssm start-session --region us-east-1 --target {instance} " in host["ansible_ssh_extra_args"]
    direct = plan({**SERVERS, "ssh": {"access": "direct", "user": "admin"}})
    found = inventory(direct, site)["site_use1"]["hosts"]["use1-ctl1"]
    assert "ansible_ssh_extra_args" not in found
    assert found["ansible_user"] == "admin"


def test_settings_of_hosts_change_nothing_in_aws() -> None:
    other = {
        **SERVERS,
        "teams": [{"name": "research", "gpus": 2}, {"name": "vision", "gpus": 1}],
        "users": [],
        "qos": [{"name": "urgent", "priority": 5}],
        "preemption": "cancel",
        "billing": {"gpu": 2.0},
        "package_mirror": "http://mirror.example.com/rack",
        "backups": {"rsync": {"to": "backup@vault:/srv/use1", "host_key": KEY}},
    }

    def inputs(of: FleetPlan) -> set[str]:
        made, _ = build(of)
        return {each.name for each in made.resources}

    assert plan(other).server_hosts != plan().server_hosts
    assert inputs(plan(other)) == inputs(plan())
    assert plan(other).cloud == plan().cloud


def test_preflight_asks_for_the_rights_that_servers_need() -> None:
    (needs,) = region_needs(plan())
    found = list(action_sets(needs, "aws", "123456789012"))
    everything = {action for each in found for action in each.actions}
    assert {"ec2:CreateSubnetCidrReservation", "elasticfilesystem:CreateMountTarget"} < everything
    roles = {arn.rpartition("/")[2] for each in found for arn in each.resources if ":role/" in arn}
    assert {"atlas-test-use1-slurm-controller-0000000", "atlas-test-use1-slurm-login-0000000"} < roles
    assert "atlas-test-use1-launcher-0000000" not in roles


def test_plan_prices_servers_at_their_types_and_disks() -> None:
    lines = [line for line in price_plan(plan(), CATALOG).lines if line.owner == "system"]
    nodes = [line.what for line in lines if line.kind == "compute"]
    assert nodes == ["1 x m7i.xlarge, on-demand"] * 2 + ["1 x m7i.large, on-demand"]
    assert [line.what for line in lines if line.kind == "storage"] == ["1 root volumes, gp3 100 GiB"] * 3
    assert all(line.expected for line in lines)


def test_servers_pass_every_mandatory_rule(tmp_path: Path) -> None:
    text = FILE.replace("SERVERS", json.dumps(SERVERS))
    (tmp_path / "stacks" / "test").mkdir(parents=True)
    (tmp_path / "stacks" / "test" / "fleet.yaml").write_text(text)
    opened = open_stack(tmp_path, "gpufleet", "test", {}, preview=True, now=DAY)
    assert opened.loaded is not None
    judge = RuleEvaluator(configure(list(load_rules(ROOT)), None), opened.shared)
    stack = registered(build_plan(opened.loaded.spec, CATALOG), preview=True)
    each = [replace(one, props=one.inputs if one.inputs is not None else one.props) for one in stack]
    found = [*judge.stack(stack), *(found for one in each for found in judge.resource(one))]
    # The program of this test protects nothing, as in the sandbox.
    wrong = [one for one in found if one.level == "mandatory" and one.rule.name != "storage-protected"]
    assert [(one.rule.name, one.message) for one in wrong] == []
