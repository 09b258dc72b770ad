"""ssh to GPU nodes: refused without a job, part of the job with one, and always open for administrators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.rack.lab import Lab, fleet_text
from tests.rack.roles.proof import play, prove
from tests.rack.roles.test_slurm import BOOK, FAST, Cluster, made_secrets, prepare, wait_for

SITE = """\
    slurm: { health_check: false }
    users:
      - { name: ada, uid: 2001, teams: [research] }
      - { name: grace, uid: 2002, teams: [research] }
      - { name: root-by-sudo, uid: 2003, sudo: true }
"""
SSH = "ssh -n -o BatchMode=yes -o StrictHostKeyChecking=accept-new -o ControlPath=none"
DENIED = "Access denied by pam_slurm_adopt: you have no active jobs on this node"
NODE = "rack_slurm_nodes"
# Hosts on cgroup v1 have Slurm's linuxproc (README of slurm_controller). Its container is the freezer, which
# a host of the rack may write once it is mounted so.
FREEZER = "mount -o remount,bind,rw /sys/fs/cgroup/freezer"
CGROUPS = "ProctrackType=proctrack/cgroup\n"


@dataclass
class Logins(Cluster):
    """A cluster with users who have the keys for its nodes."""

    def ssh(self, user: str, command: str, host: str = "dgx01") -> str:
        """What a login on the login host sees of `ssh HOST COMMAND`, with the exit code in the last line."""
        line = f"cd /tmp; runuser -u {user} -- {SSH} {host} '{command}' 2>&1 && echo code 0 || echo code $?"
        return self.lab.sh("login01", line)

    def job(self, node: str = "dgx01") -> int:
        """A running job of ada on a node."""
        job = self.submit("-A", "research", "-w", node, "--gres=gpu:1", "--wrap", "'sleep 600'")
        wait_for(lambda: self.state(job).startswith("RUNNING"))
        return job

    def end(self, job: int) -> None:
        """End a job, and wait until its node has noticed."""
        self.ada(f"scancel {job}")
        wait_for(lambda: not self.lab.sh("dgx01", f"pgrep -f '^slurmstepd: .{job}.'", code=None))


@pytest.fixture(scope="module")
def logins(can_hold_racks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logins]:
    """A controller, a login host and two GPU nodes with Slurm, users and their keys."""
    lab = Lab.up(tmp_path_factory.mktemp("ssh"), fleet_text(gpu_nodes=2, controllers=1, more=SITE))
    try:
        hosts = ["ctl01", "login01", "dgx01", "dgx02"]
        made = made_secrets()
        for host in hosts[1:]:
            prepare(lab, host, users=False)
        accounts = lab.run("playbooks/base.yml", tags=["always", "users"])
        assert not accounts.failures
        proof = prove(lab, BOOK, secrets=made, variables=FAST)
        keys = lab.sh(
            "login01",
            """
            for user in ada grace root-by-sudo; do
                runuser -u $user -- mkdir -m 700 -p /home/$user/.ssh
                runuser -u $user -- ssh-keygen -q -t ed25519 -N '' -f /home/$user/.ssh/id_ed25519
                echo "$user $(cat /home/$user/.ssh/id_ed25519.pub)"
            done
            """,
        )
        for line in keys.splitlines():
            user, key = line.split(" ", 1)
            for host in hosts:
                lab.sh(
                    host, f"mkdir -p /etc/ssh/authorized_keys; echo '{key}' >/etc/ssh/authorized_keys/{user}"
                )
        yield Logins(lab, proof, made)
    finally:
        lab.down()


@pytest.fixture(autouse=True)
def idle(logins: Logins) -> Iterator[None]:
    """All nodes idle before, no job left after."""
    wait_for(logins.ready)
    yield
    logins.lab.sh("login01", "scancel -u ada", code=None)


def test_user_without_a_job_is_refused_on_nodes_and_only_there(logins: Logins) -> None:
    assert DENIED in logins.ssh("ada", "true") and "code 255" in logins.ssh("ada", "true")
    for host in ("ctl01", "login01"):
        assert logins.ssh("ada", "whoami", host).split()[-3:] == ["ada", "code", "0"]


def test_user_with_a_job_is_let_in_on_its_node_and_until_it_ends(logins: Logins) -> None:
    job = logins.job()

    assert logins.ssh("ada", "whoami").split()[-3:] == ["ada", "code", "0"]
    assert f"adopted into job {job}" in logins.lab.sh("dgx01", "journalctl -q -t pam_slurm_adopt")
    # Neither elsewhere, nor for others.
    assert DENIED in logins.ssh("ada", "true", "dgx02")
    assert DENIED in logins.ssh("grace", "true")
    logins.end(job)
    assert DENIED in logins.ssh("ada", "true")


def test_administrators_need_no_job_and_other_programs_ask_nobody(logins: Logins) -> None:
    assert logins.ssh("root-by-sudo", "sudo id -un").split()[-3:] == ["root", "code", "0"]
    # The user of Ansible, who came with the host.
    assert logins.lab.rack.ssh("dgx01", "sudo -n id -un").stdout == "root\n"
    # A user who may become root only for one program is no administrator.
    logins.lab.sh("dgx01", "echo 'grace ALL=(root) NOPASSWD: /usr/bin/id' >/etc/sudoers.d/grace")
    assert DENIED in logins.ssh("grace", "true")
    others = "grep -l 'pam_slurm_adopt\\|ssh-admin' /etc/pam.d/*"
    assert logins.lab.sh("dgx01", others).split() == ["/etc/pam.d/sshd"]
    assert logins.lab.sh("dgx01", "runuser -u grace -- sudo -n id -un; su grace -c whoami") == "root\ngrace\n"
    for host in ("ctl01", "login01"):
        assert logins.lab.sh(host, others, code=1) == ""


def test_administrators_and_root_get_in_when_slurm_is_broken(logins: Logins) -> None:
    lab = logins.lab
    key = lab.sh("login01", "cat /home/root-by-sudo/.ssh/id_ed25519.pub").strip()
    lab.sh(
        "dgx02",
        f"""
        systemctl stop slurmd; mv /var/spool/slurmd /var/spool/slurmd.away
        mv $(find /lib/*/security /lib/security -name pam_slurm_adopt.so 2>/dev/null | head -1) /root/
        install -d -m 700 /root/.ssh; echo '{key}' >/root/.ssh/authorized_keys
        echo 'PermitRootLogin prohibit-password' >/etc/ssh/sshd_config.d/01-test.conf; systemctl reload ssh
        """,
    )
    try:
        assert logins.ssh("root-by-sudo", "whoami", "dgx02").split()[-3:] == ["root-by-sudo", "code", "0"]
        assert logins.ssh("root-by-sudo", "whoami", "root@dgx02").split()[-3:] == ["root", "code", "0"]
        assert lab.rack.ssh("dgx02", "sudo -n id -un").stdout == "root\n"
    finally:
        lab.sh(
            "dgx02",
            """
            mv /root/pam_slurm_adopt.so "$(dpkg -L libpam-slurm-adopt | grep -m1 pam_slurm_adopt.so)"
            rm /etc/ssh/sshd_config.d/01-test.conf; systemctl reload ssh
            rm -rf /var/spool/slurmd; mv /var/spool/slurmd.away /var/spool/slurmd; systemctl start slurmd
            """,
        )


def test_login_is_in_the_control_group_of_its_job_and_ends_with_it(logins: Logins) -> None:
    lab = logins.lab
    empty = lab.sh("ctl01", "cat /etc/slurm/site.conf")
    for node in ("dgx01", "dgx02"):
        lab.sh(node, FREEZER)
    lab.sh("ctl01", f"echo '{CGROUPS}' >>/etc/slurm/site.conf")
    try:
        logins.run(tags=["slurm_controller", "slurm_login"])
        restart(logins, "proctrack/cgroup")
        job = logins.job()
        reported = logins.ssh("ada", "cat /proc/self/cgroup")
        assert re.search(rf":freezer:/\S*/uid_2001/job_{job}/step_extern$", reported, re.MULTILINE), reported
        lab.sh("login01", f"cd /tmp; runuser -u ada -- {SSH} dgx01 'exec sleep 487' >/dev/null 2>&1 &")
        wait_for(lambda: lab.sh("dgx01", "pgrep -f '^sleep 487'", code=None) != "")
        logins.ada(f"scancel {job}")
        wait_for(lambda: lab.sh("dgx01", "pgrep -f '^sleep 487'", code=None) == "")
    finally:
        logins.end(job)
        lab.sh("ctl01", f"cat >/etc/slurm/site.conf <<'END'\n{empty}END\n")
        logins.run(tags=["slurm_controller", "slurm_login"])
        restart(logins, "proctrack/linuxproc")


def restart(logins: Logins, proctrack: str) -> None:
    """Restart slurmd, which reads the type of tracking only then, once its configuration has arrived."""
    conf = "cat /run/slurm/conf/slurm.conf /run/slurm/conf/site.conf"
    settings = 1 + ("cgroup" in proctrack)
    for node in ("dgx01", "dgx02"):
        wait_for(lambda node=node: logins.lab.sh(node, conf).count("ProctrackType") == settings)
        logins.lab.sh(node, "systemctl restart slurmd")
    wait_for(lambda: proctrack in logins.lab.sh("ctl01", "scontrol show config | grep ^ProctrackType"))
    wait_for(logins.ready)


def test_logins_need_no_job_where_the_site_says_so_and_pam_is_as_before(logins: Logins) -> None:
    lab = logins.lab
    free = {"slurm_node_ssh_requires_job": False}
    tags = ["slurm_node"]
    reported = logins.run(hosts=NODE, tags=tags, check=True, variables=free)
    done = logins.run(hosts=NODE, tags=tags, variables=free)
    try:
        changed = {
            ("dgx01", "slurm_node : Configure ssh logins"),
            ("dgx02", "slurm_node : Configure ssh logins"),
        }
        assert done.changed == reported.changed == changed
        # As the package has it.
        package = (
            "dpkg-query -W -f '${Conffiles}\\n' openssh-server | awk '$1 == \"/etc/pam.d/sshd\" {print $2}'"
        )
        assert lab.sh("dgx01", package).strip() == lab.sh("dgx01", "md5sum /etc/pam.d/sshd").split()[0]
        assert logins.ssh("ada", "whoami").split()[-3:] == ["ada", "code", "0"]
    finally:
        logins.run(hosts=NODE, tags=tags)
    assert not play(lab, BOOK, NODE, secrets=logins.secrets, variables=FAST, tags=tags).changed
    assert DENIED in logins.ssh("ada", "true")
