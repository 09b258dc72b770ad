"""Base, accounts and firewall on real hosts, and faults: apt, disks, unknown systems, reboots."""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.rack.lab import ROOT, Lab, fleet_text
from tests.rack.roles.proof import PlayResult, RoleRuns, play, prove

HOSTS = ("ctl01", "dgx01", "dgx02")
PEOPLE = """\
    time_servers: [10.90.0.1]
    groups: [{{ name: vision, gid: 3000 }}]
    users:
      - {{ name: ada, uid: 2001, groups: [vision], teams: [research], sudo: true, ssh_keys: ["{key}"] }}
      - {{ name: bob, uid: 2002, teams: [serving] }}
    addresses: {{ ctl01: 10.90.0.11, dgx01: 10.90.0.12, dgx02: 10.90.0.13 }}
"""
ADA = {"name": "ada", "uid": 2001, "gid": 2001, "groups": ["vision"], "ssh_keys": []}


@pytest.fixture(scope="module")
def lab(can_hold_racks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A controller and two GPU nodes, bare."""
    folder = tmp_path_factory.mktemp("base")
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ada", "-f", folder / "ada"], check=True
    )
    key = (folder / "ada.pub").read_text().strip()
    fleet = fleet_text(gpu_nodes=2, controllers=1, login=False, more=PEOPLE.format(key=key))
    made = Lab.up(folder, fleet)
    try:
        yield made
    finally:
        made.down()


@pytest.fixture(scope="module")
def base(lab: Lab) -> RoleRuns:
    """base.yml on bare hosts: check run, run, and a second run without changes."""
    return prove(lab, "playbooks/base.yml", again=False)


def tasks(lab: Lab, *what: dict[str, Any], hosts: str = "dgx01", **options: Any) -> PlayResult:
    """Run extra tasks as root."""
    book = lab.inventory.with_name("tasks-under-test.yml")
    book.write_text(
        yaml.safe_dump([{"hosts": hosts, "gather_facts": False, "become": True, "tasks": list(what)}])
    )
    return play(lab, str(book), **options)


def test_bare_hosts_match_the_check_run_and_a_second_run_changes_nothing(base: RoleRuns) -> None:
    assert {host for host, _ in base.first.changed} == set(HOSTS)
    assert {task.split(" : ")[0] for _, task in base.first.changed} == {"base", "users", "firewall"}


def test_mirror_is_the_only_source_besides_the_distribution_and_apt_trusts_it(
    lab: Lab, base: RoleRuns
) -> None:
    listed = lab.sh("dgx01", "ls /etc/apt/sources.list.d /etc/apt/keyrings; cat /etc/apt/sources.list.d/*")
    assert "gpufleet-mirror.list" in listed and "http://packages.rack/vendor ./" in listed
    assert "nvidia.com" not in listed and "trusted=yes" not in listed
    reported = lab.sh("dgx01", "apt-get update 2>&1; apt-cache policy nvidia-open | grep -m1 Candidate")
    assert "NO_PUBKEY" not in reported and "Candidate: 595" in reported


def test_settings_are_applied_and_the_clock_uses_the_servers_of_the_fleet(lab: Lab, base: RoleRuns) -> None:
    assert lab.sh("dgx01", "cat /proc/sys/kernel/numa_balancing /proc/sys/vm/swappiness").split() == [
        "0",
        "10",
    ]
    assert "10.90.0.1" in lab.sh("dgx01", "chronyc -n -c sources")
    assert lab.sh("dgx01", "systemctl is-active chrony systemd-journald").split() == ["active", "active"]
    # A machine that cannot raise limits logs the request to the journal.
    limits = lab.sh(
        "dgx01", "su -l bob -c 'ulimit -l; ulimit -n'; journalctl -b -g pam_limits --no-pager || true"
    )
    assert limits.startswith("unlimited\n1048576\n") or (
        "for 'memlock' to soft=-1, hard=-1: Operation not permitted" in limits
        and "for 'nofile' to soft=1048576, hard=1048576: Operation not permitted" in limits
    )
    unattended = lab.sh("dgx01", "apt-config dump Unattended-Upgrade::Package-Blacklist")
    assert '"^linux-(image|headers|modules|generic|nvidia)"' in unattended
    assert "SystemMaxUse=4G" in lab.sh("dgx01", "systemd-analyze cat-config systemd/journald.conf")


def test_container_keeps_the_kernel_arguments_and_governor_of_its_machine(lab: Lab, base: RoleRuns) -> None:
    assert not [task for _, task in base.first.changed if "kernel" in task.lower() or "Reboot" in task]
    assert lab.sh("dgx01", "ls /etc/default/grub.d /usr/lib/gpufleet/set-cpu-governor 2>&1", code=None).count(
        "No such"
    )


def test_hosts_resolve_each_other_without_dns(lab: Lab, base: RoleRuns) -> None:
    assert lab.sh("dgx02", "getent -s files hosts ctl01").split()[0] == "10.90.0.11"
    assert lab.sh("dgx02", "grep -c 'BEGIN gpufleet' /etc/hosts").strip() == "1"


def test_users_have_the_same_ids_on_all_hosts_and_log_in_only_with_their_key(
    lab: Lab, base: RoleRuns
) -> None:
    for host in HOSTS:
        assert lab.sh(host, "id -u ada; id -g ada; id -u bob").split() == ["2001", "2001", "2002"]
    key = lab.inventory.with_name("ada")
    assert ssh(lab, "dgx01", "ada", key, "id -nG; sudo -n id -un").split() == ["ada", "vision", "root"]
    assert "Permission denied" in ssh(lab, "dgx01", "bob", key, "true")
    assert "not allowed to run sudo" in lab.sh("dgx01", "sudo -l -U bob")
    assert (
        lab.sh("dgx01", "sshd -T -C user=ada,host=h,addr=10.90.0.1 | grep -i ^passwordauth")
        .strip()
        .endswith("no")
    )


def test_id_that_is_in_use_is_refused_before_any_change(lab: Lab, base: RoleRuns) -> None:
    lab.sh("dgx02", "useradd -u 2100 -M keeper")
    eve = {"name": "eve", "uid": 2100, "gid": 2100}
    done = play(lab, ["users"], "dgx02", variables={"users_groups": [], "users_accounts": [eve, ADA]})
    assert done.result.failed_hosts == ("dgx02",)
    assert "uid 2100 of eve belongs to keeper" in done.messages() and "usermod" in done.messages()
    assert "ada is to be in the group vision" not in done.messages()
    assert lab.sh("dgx02", "getent passwd eve", code=2) == ""
    lab.sh("dgx02", "userdel keeper")


def test_removed_user_is_locked_but_not_deleted_and_can_come_back(lab: Lab, base: RoleRuns) -> None:
    key = lab.inventory.with_name("ada")
    gone = play(lab, ["users"], "dgx02", variables={"users_groups": [], "users_accounts": []})
    assert ("dgx02", "users : Create groups and accounts") in gone.changed
    assert ssh(lab, "dgx02", "ada", key, "true") != ""
    assert lab.sh("dgx02", "id -u ada; test -d /home/ada; sudo -l -U ada | tail -1").startswith("2001")
    back = play(lab, ["users"], "dgx02")
    assert back.result.failures == ()
    assert ssh(lab, "dgx02", "ada", key, "id -u") == "2001\n"


def test_firewall_allows_only_the_cluster_and_ssh(lab: Lab, base: RoleRuns) -> None:
    lab.sh("dgx01", "nft add table ip containers")
    for port in (80, 5000):
        server = f"systemd-run -q --unit=listen{port} python3 -m http.server {port}"
        listens = f"timeout 200 sh -c 'until ss -Hltn sport = :{port} | grep -q .; do sleep 0.1; done'"
        lab.sh("dgx01", f"{server}; {listens}")
    try:
        for port in (80, 5000):
            assert connects(lab, "ctl01", "10.90.0.12", port), "hosts of the cluster reach everything"
        # The rack's gateway is in the cluster network but not a host of it.
        assert reached_from_outside(lab, "10.90.0.12", 22)
        assert reached_from_outside(lab, "10.90.0.12", 5000)
        assert not reached_from_outside(lab, "10.90.0.12", 80)
        named = [{"name": "ctl01", "address": "ctl01"}, {"name": "dgx02", "address": "10.90.0.13"}]
        others = {
            "firewall_networks": [],
            "firewall_cluster_hosts": named,
            "firewall_open": [{"port": "8443"}],
        }
        play(lab, ["firewall"], "dgx01", variables=others)
        assert not reached_from_outside(lab, "10.90.0.12", 5000)
        assert reached_from_outside(lab, "10.90.0.12", 22)
        assert connects(lab, "ctl01", "10.90.0.12", 5000)
        reported = lab.sh("dgx01", "nft list tables; nft list table inet gpufleet")
        assert "table ip containers" in reported, "rules of others stay"
        assert "tcp dport 8443 accept" in reported
    finally:
        play(lab, ["firewall"], "dgx01")
        lab.sh("dgx01", "systemctl stop listen80 listen5000")


def test_firewall_that_would_block_ssh_is_refused(lab: Lab, base: RoleRuns) -> None:
    before = lab.sh("dgx01", "nft list ruleset")
    done = play(lab, ["firewall"], "dgx01", variables={"firewall_ssh_port": 2222})
    assert done.result.failed_hosts == ("dgx01",)
    assert "firewall_ssh_port is 2222, and sshd listens on 22" in done.messages()
    unresolved = [{"name": "dgx09", "address": "dgx09.example.com"}]
    unknown = {"firewall_networks": [], "firewall_cluster_hosts": unresolved}
    done = play(lab, ["firewall"], "dgx01", variables=unknown)
    assert "does not find the addresses of dgx09.example.com" in done.messages()
    assert lab.sh("dgx01", "nft list ruleset") == before


def test_apt_waits_for_a_lock_and_reports_a_timeout(lab: Lab, base: RoleRuns) -> None:
    hold = textwrap.dedent("""\
        import fcntl, time
        with open("/var/lib/dpkg/lock-frontend", "w") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            time.sleep({seconds})
        """)
    install: dict[str, Any] = {
        "name": "Install",
        "gpufleet.rack.packages": {"names": ["pigz"], "lock_timeout_s": 2},
    }
    lab.sh("dgx01", f"systemd-run -q --unit=hold python3 -c '{hold.format(seconds=600)}'; sleep 0.5")
    refused = tasks(lab, install)
    assert "waited 2 s" in refused.messages() and "Wait for it or stop it" in refused.messages()
    lab.sh("dgx01", "systemctl stop hold")
    lab.sh("dgx01", f"systemd-run -q --unit=hold2 python3 -c '{hold.format(seconds=4)}'; sleep 0.5")
    install["gpufleet.rack.packages"] = {"names": ["pigz"], "lock_timeout_s": 120}
    assert tasks(lab, install).result.failures == ()
    assert lab.sh("dgx01", "dpkg-query -W -f '${Status}' pigz") == "install ok installed"


def test_repository_lost_during_an_install_is_named_and_the_next_run_completes(
    lab: Lab, base: RoleRuns
) -> None:
    install = {"name": "Install", "gpufleet.rack.packages": {"names": ["hwloc", "lldpd"]}}
    lab.sh("dgx01", "apt-get -qq update")
    lab.rack.repository(on=False)
    try:
        failed = tasks(lab, install)
    finally:
        lab.rack.repository(on=True)
    assert failed.result.failed_hosts == ("dgx01",)
    assert "A package repository does not answer" in failed.messages() and "run again" in failed.messages()
    assert "packages.rack" in failed.messages()
    assert tasks(lab, install).result.failures == ()
    assert lab.sh("dgx01", "dpkg-query -W -f '${Status}\n' hwloc lldpd | sort -u") == "install ok installed\n"


def test_full_disk_is_reported_and_the_next_run_completes(lab: Lab, base: RoleRuns) -> None:
    lab.sh("dgx01", "apt-get clean; mount -t tmpfs -o size=64k none /var/cache/apt/archives")
    install: dict[str, Any] = {
        "name": "Install",
        "gpufleet.rack.packages": {"names": ["parallel", "sysstat"]},
    }
    try:
        failed = tasks(lab, install)
    finally:
        lab.sh("dgx01", "umount /var/cache/apt/archives; mkdir -p /var/cache/apt/archives/partial")
    assert "The disk is full" in failed.messages() and "run again" in failed.messages()
    assert tasks(lab, install).result.failures == ()


def test_unknown_system_is_refused_and_other_hosts_are_configured(lab: Lab, base: RoleRuns) -> None:
    lab.sh("dgx02", "sed -i 's/^VERSION_ID=.*/VERSION_ID=\"13\"/' /etc/os-release")
    try:
        done = play(lab, ["users"], "dgx01,dgx02", variables={"users_shell": "/bin/sh"})
    finally:
        lab.sh("dgx02", "sed -i 's/^VERSION_ID=.*/VERSION_ID=\"12\"/' /etc/os-release")
    assert done.result.failed_hosts == ("dgx02",)
    assert "Ubuntu 22.04 and 24.04, DGX OS 6 and 7, and Debian 12" in done.messages()
    assert {event.host for event in done.of("Create groups and accounts")} == {"dgx01"}


def test_host_with_jobs_is_not_rebooted_and_members_of_a_quorum_reboot_one_by_one(
    lab: Lab, base: RoleRuns
) -> None:
    boots = {host.name: host.boots for host in lab.rack.status()}
    mark = "echo linux-image-6.1.0-41-amd64 >/run/reboot-required.pkgs; touch /run/reboot-required"
    for host in ("dgx01", "dgx02", "ctl01"):
        lab.sh(host, mark)
    lab.sh("dgx01", "cp /bin/sleep /tmp/slurmstepd; systemd-run -q --unit=step /tmp/slurmstepd 600")

    # As if the node were a second controller.
    values = {"base_reboot_batch": 4, "base__quorum": ["ctl01", "dgx02"]}
    predicted = play(lab, ["base"], check=True, diff=True, variables=values)
    done = play(lab, ["base"], variables=values)

    members = {(host, "base : Reboot the member") for host in ("ctl01", "dgx02")}
    assert predicted.changed == done.changed == members
    assert predicted.result.failed_hosts == done.result.failed_hosts == ("dgx01",)
    assert "dgx01 is in use by job step of process" in done.messages()
    assert "linux-image-6.1.0-41-amd64" in done.messages()
    now = {host.name: host.boots for host in lab.rack.status()}
    assert now == {host: count + (host in ("dgx02", "ctl01")) for host, count in boots.items()}
    # The second member starts its reboot only when the services of the first one answer.
    steps = [event.host for event in done.events if event.task in MEMBER_STEPS and event.kind != "started"]
    assert sorted([["ctl01"] * 3, ["dgx02"] * 3]) == sorted([steps[:3], steps[3:]])
    assert lab.sh(
        "dgx02", "systemctl is-active nftables chrony; nft list table inet gpufleet | grep -c policy"
    )


MEMBER_STEPS = (
    "Check that the other members run",
    "Reboot the member",
    "Wait for the services of the member",
)


def ssh(lab: Lab, host: str, user: str, key: Path, command: str) -> str:
    """The access of a user who logs in with their key."""
    words = lab.rack.ssh_command(host)
    options = ["-o", f"IdentityFile={key}", "-o", "ControlPath=none", "-l", user]
    done = subprocess.run(
        [words[0], *options, "-F", login_config(lab), words[-1], "--", command],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
        check=False,
    )
    return done.stdout + done.stderr


def login_config(lab: Lab) -> str:
    """The rack's ssh configuration without its own user and key."""
    lines = Path(lab.rack.record.ssh_config).read_text().splitlines()
    kept = [line for line in lines if line.split()[:1] not in (["User"], ["IdentityFile"])]
    path = lab.inventory.with_name("person.ssh")
    path.write_text("\n".join(kept) + "\n")
    return str(path)


PROBE = "import socket,sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2).close()"


def connects(lab: Lab, host: str, address: str, port: int) -> bool:
    """Whether a host of the rack gets a connection."""
    return (
        lab.sh(host, f"python3 -c '{PROBE}' {address} {port} 2>/dev/null && echo yes", code=None) == "yes\n"
    )


def reached_from_outside(lab: Lab, address: str, port: int) -> bool:
    """Whether the rack's gateway gets a connection."""
    command = ["nsenter", f"--net=/proc/{lab.rack.pid}/ns/net", "python3", "-c", PROBE, address, str(port)]
    return subprocess.run(command, capture_output=True, check=False, cwd=ROOT).returncode == 0
