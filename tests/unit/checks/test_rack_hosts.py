"""Users, drives and addresses of rack sites."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checks.fleets import GONE, Judge

SITE = "onprem.0"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHJ1c3QgaXMgbm90IGEga2V5IGJ1dCBhIHRleHQu ada@example.com"
ADA = {"name": "ada", "uid": 2001, "ssh_keys": [KEY]}
PRINT = "SHA256:" + "a" * 43


def test_valid_users_drives_and_addresses_pass(judge: Judge) -> None:
    reported = judge(
        {
            f"{SITE}.teams": [{"name": "research", "gpus": 8}],
            f"{SITE}.groups": [{"name": "vision", "gid": 3001}],
            f"{SITE}.users": [
                ADA | {"groups": ["vision"], "teams": ["research"], "sudo": True},
                {"name": "bob", "uid": 2002, "gid": 4002, "ssh_keys": [KEY]},
            ],
            f"{SITE}.local_nvme": {"mount": "/raid", "cache": "/raid/cache", "drives": 8},
            f"{SITE}.time_servers": ["ntp1.example.com", "10.60.0.1"],
            f"{SITE}.package_mirror": "http://mirror.example.com/rack",
            f"{SITE}.addresses": {"ctl01": "10.60.0.11"},
            f"{SITE}.ssh": {"fingerprints": {"ctl01": PRINT}},
            f"{SITE}.reboot": {"batch": "10%", "timeout": "30 min"},
        }
    )
    assert reported.rules == set()


@pytest.mark.parametrize(
    ("racks", "says"),
    [
        ([("r1", "dgx[001-002]"), ("r2", "dgx002")], "are also in 'r1'"),
        ([("r1", "dgx999")], "not GPU nodes of site"),
        ([("r1", "dgx001"), ("r1", "dgx002")], "declared twice"),
    ],
)
def test_node_is_in_one_rack_of_its_site(judge: Judge, racks: list[tuple[str, str]], says: str) -> None:
    written = [{"name": name, "nodes": nodes} for name, nodes in racks]
    finding = judge({f"{SITE}.racks": written}).only("rack-nodes")
    assert finding.field.startswith("onprem[0].racks[")
    assert says in finding.message


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"users": [ADA, ADA | {"name": "eve"}]}, "users[1].uid"),
        ({"users": [ADA, ADA | {"uid": 2002}]}, "users[1].name"),
        ({"users": [ADA], "groups": [{"name": "x", "gid": 2001}]}, "users[0].uid"),
        ({"users": [ADA, ADA | {"name": "eve", "uid": 2002, "gid": 2001}]}, "users[1].gid"),
        ({"groups": [{"name": "x", "gid": 3001}, {"name": "y", "gid": 3001}]}, "groups[1].gid"),
    ],
)
def test_duplicate_user_id_is_refused(judge: Judge, changes: dict[str, Any], field: str) -> None:
    reported = judge({f"{SITE}.{key}": value for key, value in changes.items()})
    assert f"onprem[0].{field}" in [finding.field for finding in reported.of("people-numbers")]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"users": [ADA | {"name": "root"}]}, "users[0].name"),
        ({"users": [ADA | {"name": "ubuntu"}]}, "users[0].name"),
        (
            {"users": [ADA | {"groups": ["vison"]}], "groups": [{"name": "vision", "gid": 3001}]},
            "users[0].groups[0]",
        ),
        ({"users": [ADA | {"teams": ["nobody"]}]}, "users[0].teams[0]"),
        ({"groups": [{"name": "slurm", "gid": 3001}]}, "groups[0].name"),
        ({"users": [ADA], "groups": [{"name": "ada", "gid": 3001}]}, "groups[0].name"),
    ],
)
def test_reserved_or_unknown_names_are_refused(judge: Judge, changes: dict[str, Any], field: str) -> None:
    reported = judge({f"{SITE}.{key}": value for key, value in changes.items()})
    assert reported.only("people-names").field == f"onprem[0].{field}"


def test_user_without_a_key_is_a_warning(judge: Judge) -> None:
    finding = judge({f"{SITE}.users": [{"name": "ada", "uid": 2001}]}).only("people-names", "warning")
    assert finding.value == "ada"


@pytest.mark.parametrize("key", ["AAAAC3", "ssh-ed25519 AAAA\nssh-rsa BBBB", "ssh-dss AAAAB3NzaC1kc3M x"])
def test_invalid_public_key_is_refused_on_load(judge: Judge, key: str) -> None:
    from gpufleet.errors import SpecError

    with pytest.raises(SpecError):
        judge({f"{SITE}.users": [ADA | {"ssh_keys": [key]}]})


def test_cache_with_a_scratch_file_system_is_refused(judge: Judge) -> None:
    reported = judge({f"{SITE}.local_nvme": {"mount": "/raid", "cache": "/cache"}})
    assert reported.only("nvme-cache").remedy == "write '/raid/cache'"


@pytest.mark.parametrize(("mount", "rule"), [("/etc", "mount-reserved"), ("/raid/", "mount-path")])
def test_scratch_mount_is_checked_like_all_mounts(judge: Judge, mount: str, rule: str) -> None:
    assert judge({f"{SITE}.local_nvme": {"mount": mount}}).only(rule).field == "onprem[0].local_nvme.mount"


@pytest.mark.parametrize(
    ("addresses", "says", "severity"),
    [
        ({"ctl9": "10.60.0.11"}, "is not a host of site", "error"),
        ({"ctl01": "10.60.0.11", "login01": "10.60.0.11"}, "is also the address of 'ctl01'", "error"),
        ({"ctl01": "192.168.7.1"}, "is not in the site's network", "warning"),
    ],
)
def test_address_belongs_to_one_host_of_the_site(
    judge: Judge, addresses: dict[str, str], says: str, severity: str
) -> None:
    assert says in judge({f"{SITE}.addresses": addresses}).only("host-addresses", severity).message


def test_addresses_of_a_site_without_a_network_or_other_hosts_pass(judge: Judge) -> None:
    addresses = {f"{SITE}.addresses": {"dgx001": "192.168.7.1"}}
    assert judge(addresses | {f"{SITE}.network": GONE}).of("host-addresses") == []
    only_nodes = {f"{SITE}.network": "192.168.7.0/24", f"{SITE}.login": GONE, f"{SITE}.controllers": GONE}
    assert judge(addresses | only_nodes).of("host-addresses") == []


@pytest.mark.parametrize(
    ("prints", "says"),
    [({"ctl9": PRINT}, "is not a host"), ({"ctl01": PRINT, "login01": PRINT}, "have the same host key")],
)
def test_host_key_belongs_to_one_host_of_the_site(judge: Judge, prints: dict[str, str], says: str) -> None:
    assert says in judge({f"{SITE}.ssh": {"fingerprints": prints}}).only("host-fingerprints").message


@pytest.mark.parametrize(
    ("reboot", "field"),
    [({"batch": "101%"}, "batch"), ({"timeout": "7201 s"}, "timeout"), ({"timeout": "59 s"}, "timeout")],
)
def test_invalid_reboot_setting_is_refused(judge: Judge, reboot: dict[str, str], field: str) -> None:
    assert judge({f"{SITE}.reboot": reboot}).only("reboot-settings").field == f"onprem[0].reboot.{field}"


@pytest.mark.parametrize("reboot", [{"batch": "100%", "timeout": "1 min"}, {"batch": "1%", "timeout": "2 h"}])
def test_largest_and_smallest_reboot_settings_pass(judge: Judge, reboot: dict[str, str]) -> None:
    assert judge({f"{SITE}.reboot": reboot}).rules == set()


def test_copy_of_the_doca_repository_keeps_the_key_of_nvidia(judge: Judge) -> None:
    for doca in (
        {"repository": "https://m.example.com/doca"},
        {"key": "/etc/doca.gpg", "fingerprint": "AB" * 20},
    ):
        assert "doca-repository" not in judge({f"{SITE}.doca": doca}).rules


def test_other_doca_key_needs_its_fingerprint(judge: Judge) -> None:
    finding = judge({f"{SITE}.doca": {"key": "https://m.example.com/key.pub"}}).only("doca-repository")
    assert finding.field == "onprem[0].doca.key" and "https://m.example.com/key.pub" in finding.message
    assert "add `fingerprint`" in finding.remedy


def test_doca_repository_beside_a_mirror_has_no_effect(judge: Judge) -> None:
    changes = {
        f"{SITE}.doca": {"repository": "https://m.example.com/doca"},
        f"{SITE}.package_mirror": "http://mirror.example.com/rack",
    }
    finding = judge(changes).only("doca-repository", "warning")
    assert finding.field == "onprem[0].doca.repository" and "no effect" in finding.message
