"""Servers of a Slurm in the cloud: their file systems, and the hosts that roles configure."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from tests.unit.plan.fleets import CATALOG, cloud_site, spec
from tests.unit.plan.random_fleets import LAUNCHED, SLURM_RACK

SERVERS: dict[str, Any] = {"image": "ami-0123456789abcdef0", "teams": [{"name": "research", "gpus": 8}]}


def planned(**servers: Any) -> FleetPlan:
    return build_plan(spec(cloud=[cloud_site(slurm={"servers": {**SERVERS, **servers}})]), CATALOG)


@pytest.mark.parametrize(
    ("hosts", "shared", "file_systems"),
    [(1, None, ()), (2, None, ("state",)), (1, "/shared", ("shared",)), (2, "/shared", ("shared", "state"))],
)
def test_two_controllers_share_their_state(
    hosts: int, shared: str | None, file_systems: tuple[str, ...]
) -> None:
    slurm = planned(controllers={"hosts": hosts}, shared=shared).cloud[0].slurm
    assert slurm is not None and slurm.servers is not None
    assert slurm.servers.file_systems == file_systems
    assert slurm.identity == "", "the stack makes their role"


def test_hosts_mount_the_shared_folder_of_users() -> None:
    (site,) = planned(shared="/shared").server_hosts
    assert [(each.kind, each.mount) for each in site.mounts] == [("nfs", "/shared")]
    (site,) = planned(shared=None).server_hosts
    assert site.mounts == ()


def test_servers_are_hosts_of_a_site_without_gpus() -> None:
    (site,) = planned(controllers={"hosts": 2}, login={"hosts": 1}).server_hosts
    assert [(each.name, each.role) for each in site.hosts] == [
        ("use1-ctl1", "controller"),
        ("use1-ctl2", "controller"),
        ("use1-login1", "login"),
    ]
    assert (site.site, site.scheduler, site.gpus_per_node) == ("use1", "slurm", 0)
    assert [(team.name, team.gpus) for team in site.teams] == [("research", 8)]
    # What else Slurm's nodes have comes with their image.
    assert [each.name for each in site.software] == ["Slurm"]


def test_servers_have_addresses_of_private_subnets() -> None:
    (site,) = planned(controllers={"hosts": 2}, login={"hosts": 2}).cloud
    assert site.slurm is not None and site.slurm.servers is not None
    private = {each.zone: ip_network(each.cidr) for each in site.subnets if each.kind == "private"}
    for server in site.slurm.servers.servers:
        assert ip_address(server.address) in private[server.zone]
    assert [(each.zone, each.address) for each in site.slurm.servers.servers] == [
        ("us-east-1a", "10.40.0.16"),
        ("us-east-1b", "10.40.32.17"),
        ("us-east-1a", "10.40.0.18"),
        ("us-east-1b", "10.40.32.19"),
    ]
    controllers = [each.address for each in site.slurm.servers.servers if each.role == "controller"]
    assert site.slurm.addresses == tuple(f"{address}:6817" for address in controllers)


@pytest.mark.parametrize(("preemption", "preempts"), [("none", ()), ("requeue", ("low", "normal"))])
def test_jobs_of_high_priority_preempt_others_unless_preemption_is_off(
    preemption: str, preempts: tuple[str, ...]
) -> None:
    (site,) = planned(preemption=preemption).server_hosts
    assert site.rack.slurm is not None
    assert {each.name: each.preempts for each in site.rack.slurm.qos_settings}["high"] == preempts


def test_block_of_addresses_is_kept_in_zones_with_servers() -> None:
    one, two = planned(login={"hosts": 0}).cloud[0].slurm, planned(controllers={"hosts": 2}).cloud[0].slurm
    assert one is not None and one.servers is not None and two is not None and two.servers is not None
    assert one.servers.reserved == {"us-east-1a": "10.40.0.16/28"}
    assert two.servers.reserved == {"us-east-1a": "10.40.0.16/28", "us-east-1b": "10.40.32.16/28"}


@pytest.mark.parametrize(
    ("image", "kind"),
    [
        ("ami-0123456789abcdef0", "ami-id"),
        ("/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id", "parameter"),
    ],
)
def test_image_is_an_ami_or_a_parameter(image: str, kind: str) -> None:
    slurm = planned(image=image).cloud[0].slurm
    assert slurm is not None and slurm.servers is not None
    assert (slurm.servers.image, slurm.servers.image_kind) == (image, kind)


def test_site_without_servers_has_no_hosts() -> None:
    assert build_plan(spec(cloud=[cloud_site()]), CATALOG).server_hosts == ()
    launched = spec(cloud=[cloud_site(slurm=LAUNCHED)], onprem=[SLURM_RACK])
    assert build_plan(launched, CATALOG).server_hosts == ()
