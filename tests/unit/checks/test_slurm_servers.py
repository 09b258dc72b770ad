"""Servers of a Slurm in the cloud: their instances, and what belongs to racks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checks.fleets import FLEET, Judge

SERVERS = "cloud.1.slurm.servers"
WHERE = "cloud[1].slurm.servers"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample"


def fleet(**changes: Any) -> dict[str, Any]:
    """The changes that add a site with a Slurm of its own."""
    site: dict[str, Any] = {
        "site": "usw2",
        "region": "us-west-2",
        "zones": ["us-west-2a"],
        "network": {"cidr": "10.44.0.0/16"},
        "scheduler": "slurm",
        "slurm": {
            "servers": {
                "image": "ami-0123456789abcdef0",
                "teams": [{"name": "research", "gpus": 4}],
                "users": [{"name": "ada", "uid": 2001, "teams": ["research"], "ssh_keys": [KEY]}],
            }
        },
        "node_groups": [
            {
                "name": "sweep",
                "instance_types": ["g6e.xlarge"],
                "image": "ami-0123456789abcdef0",
                "capacity": {"on_demand": {"max": 4}},
                "team": "research",
            }
        ],
    }
    return {"cloud": [*FLEET["cloud"], site], **changes}


def test_site_with_servers_passes(judge: Judge) -> None:
    assert judge(fleet()).rules == set()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("identity", "arn:aws:iam::111122223333:role/dc1"),
        ("burst", {"teams": ["research"], "monthly": "500 USD"}),
    ],
)
def test_what_is_for_racks_is_refused(judge: Judge, field: str, value: Any) -> None:
    finding = judge(fleet(**{f"cloud.1.slurm.{field}": value})).only("slurm-servers-unused")
    assert (finding.field.startswith(f"cloud[1].slurm.{field}"), finding.remedy) == (
        True,
        f"remove `{field}`",
    )


def test_controllers_of_racks_need_an_identity(judge: Judge) -> None:
    found = judge(fleet(**{"cloud.1.slurm": {"controllers": "dc1"}}))
    finding = next(each for each in found.of("cloud-slurm-controllers") if "identity" in each.message)
    assert "is missing" in finding.message


@pytest.mark.parametrize("role", ["controllers", "login"])
def test_unknown_type_is_refused_with_the_nearest_one(judge: Judge, role: str) -> None:
    finding = judge(fleet(**{f"{SERVERS}.{role}": {"instance_type": "m7i.xlarg"}})).only(
        "slurm-servers-types"
    )
    assert finding.field == f"{WHERE}.{role}.instance_type"
    assert finding.remedy.startswith("did you mean 'm7i.xlarge'?")


def test_types_of_two_architectures_are_refused(judge: Judge) -> None:
    finding = judge(fleet(**{f"{SERVERS}.login": {"instance_type": "m7g.large"}})).only("slurm-servers-types")
    assert finding.message.startswith("m7g.large and m7i.xlarge have different processors")
    same = {f"{SERVERS}.{role}": {"instance_type": "m7g.large"} for role in ("login", "controllers")}
    assert judge(fleet(**same)).rules == set()


def test_login_type_without_login_hosts_does_not_matter(judge: Judge) -> None:
    assert judge(fleet(**{f"{SERVERS}.login": {"hosts": 0, "instance_type": "m7g.large"}})).rules == set()


def test_type_with_gpus_is_a_warning(judge: Judge) -> None:
    found = judge(fleet(**{f"{SERVERS}.login": {"instance_type": "g6e.xlarge"}}))
    finding = found.only("slurm-servers-types", "warning")
    assert finding.message == "g6e.xlarge has accelerators, and no job runs on login"


def test_servers_need_the_internet_for_packages(judge: Judge) -> None:
    finding = judge(fleet(**{"cloud.1.network.nat": "none"})).only("slurm-servers-packages")
    assert (finding.field, finding.remedy) == ("cloud[1].network.nat", "write 'nat: single'")


@pytest.mark.parametrize("folder", ["/home", "/etc/data", "/tmp"])
def test_folder_that_hides_the_system_is_refused(judge: Judge, folder: str) -> None:
    finding = judge(fleet(**{f"{SERVERS}.shared": folder})).only("slurm-servers-packages")
    assert finding.field == f"{WHERE}.shared"


@pytest.mark.parametrize("folder", ["/home/shared", "/shared", "/var/data"])
def test_folder_of_its_own_passes(judge: Judge, folder: str) -> None:
    assert judge(fleet(**{f"{SERVERS}.shared": folder})).rules == set()


@pytest.mark.parametrize(("mount", "folder"), [({"mount": "/shared"}, "/shared"), ({}, "/mnt/fs")])
def test_folder_of_a_file_system_is_refused(judge: Judge, mount: dict[str, str], folder: str) -> None:
    lustre = {"capacity": "1200 GiB", "throughput": "125 MB/s/TiB"}
    storage = [{"name": "fs", **mount, "lustre": lustre}]
    judged = judge(fleet(**{f"{SERVERS}.shared": folder, "cloud.1.storage": storage}))
    (found,) = [each for each in judged.findings if each.rule == "slurm-servers-packages"]
    assert (found.field, found.message) == (f"{WHERE}.shared", f"{folder} is where nodes mount fs")
    bucket = [{"name": "fs", "bucket": {"name": "atlas-test-fs"}}]
    for other in ({f"{SERVERS}.shared": "/other", "cloud.1.storage": storage}, {"cloud.1.storage": bucket}):
        judged = judge(fleet(**{f"{SERVERS}.shared": folder, **other}))
        assert judged.of("slurm-servers-packages") == []


def test_team_of_a_group_is_declared_by_the_servers(judge: Judge) -> None:
    finding = judge(fleet(**{f"{SERVERS}.teams": [], f"{SERVERS}.users": []})).only("team-known")
    assert finding.severity == "error"
    assert "`slurm.servers.teams`" in finding.remedy


def test_people_of_servers_are_checked_as_those_of_racks(judge: Judge) -> None:
    twice = [
        {"name": "ada", "uid": 2001, "ssh_keys": [KEY]},
        {"name": "bob", "uid": 2001, "teams": ["vision"], "ssh_keys": [KEY]},
        {"name": "ubuntu", "uid": 2003, "ssh_keys": [KEY]},
    ]
    found = judge(fleet(**{f"{SERVERS}.users": twice}))
    assert {"people-numbers", "people-names"} <= found.rules
    fields = {each.field for each in found.of("people-names")}
    assert fields == {f"{WHERE}.users[1].teams[0]", f"{WHERE}.users[2].name"}


def test_qos_of_servers_are_checked_as_those_of_racks(judge: Judge) -> None:
    finding = judge(fleet(**{f"{SERVERS}.qos": [{"name": "urgent", "preempts": ["lo"]}]})).only("slurm-qos")
    assert finding.field == f"{WHERE}.qos[0].preempts[0]"
