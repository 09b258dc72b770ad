"""Slurm configured by its roles: jobs on GPUs, accounts with limits, a backup controller, the munge key."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from tests.rack.lab import Lab, fleet_text
from tests.rack.roles.proof import PlayResult, RoleRuns, play, prove

SITE = """\
    slurm: { state: "filer:/slurm", health_check: false }
    users:
      - { name: ada, uid: 2001, teams: [research, serving] }
"""
BOOK = "playbooks/slurm.yml"
KEY = "GPUFLEET_SECRET_MUNGE_KEY_LAB"
HOSTS = {"ctl01", "ctl02", "login01", "dgx01", "dgx02"}
# Half a minute is enough for a takeover.
# A slurmctld that took over knows the GPUs when their nodes have registered, some five seconds later.
REGISTERED_S = 9
FAST: dict[str, Any] = {"slurm_controller_takeover_s": 10}
JOB = """\
#!/bin/bash
#SBATCH --account=research --nodes=2 --ntasks-per-node=1 --gres=gpu:8 --output=/tmp/job
srun sh -c 'echo $(hostname -s) $CUDA_VISIBLE_DEVICES' >/tmp/job-$SLURM_JOB_ID
"""


@dataclass
class Cluster:
    """A rack with Slurm, and its current secrets."""

    lab: Lab
    proof: RoleRuns
    secrets: dict[str, str]

    def run(self, book: str = BOOK, hosts: str = "all", **options: Any) -> PlayResult:
        """Run a playbook in which no host may fail."""
        variables = FAST | options.pop("variables", {})
        done = play(self.lab, book, hosts, secrets=self.secrets, variables=variables, **options)
        assert not done.result.failures, done.messages()
        return done

    def ada(self, command: str, code: int | None = 0) -> str:
        """Output of a user's command on the login host."""
        return self.lab.sh("login01", f"cd /tmp; runuser -u ada -- {command}", code=code)

    def submit(self, *words: str) -> int:
        """The number of a new job."""
        return int(self.ada(f"sbatch --parsable {' '.join(words)}"))

    def state(self, job: int) -> str:
        """State and reason of a job, by slurmctld."""
        reported = self.lab.sh("login01", f"scontrol -o show job {job}", code=None)
        found = re.search(r"JobState=(\S+) Reason=(\S+)", reported)
        return f"{found[1]} {found[2]}" if found else ""

    def ready(self) -> bool:
        """Whether all GPUs wait for jobs."""
        reported = self.ada("srun -A research -N2 --gres=gpu:8 --immediate=5 hostname -s 2>&1", code=None)
        return sorted(reported.split()) == ["dgx01", "dgx02"]


def wait_for(true: Callable[[], bool], limit_s: float = 300) -> None:
    """Wait until it is true. Looks become rarer: each starts a command on a host."""
    until, pause = time.monotonic() + limit_s, 0.2
    while not true():
        assert time.monotonic() < until, "timed out"
        time.sleep(pause)
        pause = min(1.5, pause * 1.2)


def made_secrets() -> dict[str, str]:
    """New secrets of the site."""
    return {KEY: secrets.token_hex(64), "GPUFLEET_SECRET_DATABASE_PASSWORD_LAB": secrets.token_hex(16)}


def prepare(lab: Lab, host: str, *, users: bool = True) -> None:
    """Provided by other roles: device files of the driver, and users."""
    if users:
        lab.sh(host, "useradd -u 2001 -m ada")
    if not host.startswith("ctl"):
        lab.add_vendor_repository(host)
    if host.startswith("dgx"):
        lab.sh(host, "apt-get -qq install -y nvidia-open >/dev/null 2>&1; nvidia-smi -L >/dev/null")


@pytest.fixture(scope="module")
def new_cluster(can_hold_racks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two controllers, a login host and two GPU nodes, from bare hosts to a cluster."""
    lab = Lab.up(tmp_path_factory.mktemp("slurm"), fleet_text(gpu_nodes=2, more=SITE))
    made = made_secrets()
    try:
        with ThreadPoolExecutor(len(HOSTS)) as pool:
            list(pool.map(lambda host: prepare(lab, host), sorted(HOSTS)))
        facts = lab.run("playbooks/base.yml", tags=["always"])
        assert not facts.failures
        yield Cluster(lab, prove(lab, BOOK, secrets=made, variables=FAST, again=False), made)
    finally:
        lab.down()


@pytest.fixture
def cluster(new_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, with all GPUs idle before and no job left after."""
    wait_for(new_cluster.ready)
    yield new_cluster
    new_cluster.lab.sh("login01", "scancel -u ada", code=None)


def test_check_run_on_bare_hosts_names_every_changing_task(new_cluster: Cluster) -> None:
    changed = new_cluster.proof.check.changed

    assert {host for host, task in changed if task == "munge : Write configuration"} == HOSTS
    assert {host for host, task in changed if task == "slurm_node : Enable and start slurmd"} == {
        "dgx01",
        "dgx02",
    }
    assert ("ctl01", "slurm_controller : Configure accounting") in changed
    assert ("ctl02", "slurm_controller : Configure accounting") not in changed
    assert {host for host, task in changed if task == "slurm_controller : Enable and start slurmctld"} == {
        "ctl01",
        "ctl02",
    }


def test_slurmd_finds_the_configured_processors_and_gpus(cluster: Cluster) -> None:
    fetched = "/run/slurm/conf/slurm.conf"
    found = fields(cluster.lab.sh("dgx01", "slurmd -C"))
    given = fields(cluster.lab.sh("dgx01", f"grep -h 'NodeName=DEFAULT' {fetched}"))
    for name in ("CPUs", "CoresPerSocket", "ThreadsPerCore"):
        assert given[name] == found[name]
    assert int(given["Sockets"]) == int(found["Boards"]) * int(found["SocketsPerBoard"])
    assert int(given["RealMemory"]) <= int(found["RealMemory"])
    gres = cluster.lab.sh("dgx01", f"slurmd -G -f {fetched} 2>&1")
    assert "Gres Name=gpu Type=h100 Count=8" in gres


def fields(line: str) -> dict[str, str]:
    """`Name=value` words, as Slurm writes them."""
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def test_user_job_runs_on_all_gpus_of_two_nodes_and_is_accounted(cluster: Cluster) -> None:
    cluster.lab.sh("login01", f"cat >/tmp/job.sh <<'END'\n{JOB}END\nchmod 755 /tmp/job.sh")
    job = cluster.submit("--wait", "/tmp/job.sh")

    lines = cluster.lab.sh("dgx01", f"cat /tmp/job-{job}").splitlines()
    assert sorted(lines) == ["dgx01 0,1,2,3,4,5,6,7", "dgx02 0,1,2,3,4,5,6,7"]
    wait_for(lambda: "COMPLETED" in cluster.ada(f"sacct -X -n -P -j {job} -o State"))
    account, tres = cluster.ada(f"sacct -X -n -P -j {job} -o Account,AllocTRES").strip().split("|")
    assert account == "research"
    assert {"gres/gpu=16", "node=2"} <= set(tres.split(","))
    # A GPU counts 1, processors and memory nothing.
    assert "billing=16" in tres


def test_containers_are_requested_on_the_login_host_and_run_on_nodes(cluster: Cluster) -> None:
    image = "nvcr.io#nvidia/pytorch:26.10-py3"
    reported = cluster.ada(f"srun -A research --gres=gpu:1 --container-image={image} printenv PYXIS_IMAGE")
    assert reported.strip() == image
    assert "user-$(id -u)" in cluster.lab.sh("dgx01", "cat /etc/enroot/enroot.conf")


def test_job_over_the_gpu_limit_of_its_account_waits_and_one_within_it_runs(cluster: Cluster) -> None:
    over = cluster.submit("-A", "serving", "-N2", "--gres=gpu:8", "--wrap", "true")
    within = cluster.submit("-A", "serving", "-N1", "--gres=gpu:8", "--wrap", "true")

    wait_for(lambda: cluster.state(within).startswith("COMPLETED"))
    # A busy node is reported before a limit: a node is busy until the epilog of its last job has ended.
    wait_for(lambda: cluster.state(over) == "PENDING AssocGrpGRES", 120)
    strange = cluster.ada("sbatch -A root --wrap true 2>&1", code=None)
    assert "Invalid account" in strange


def test_drained_node_is_refused_until_it_is_resumed(cluster: Cluster) -> None:
    cluster.lab.sh("ctl01", "scontrol update nodename=dgx02 state=drain reason='disk is being replaced'")
    job = cluster.submit("-A", "research", "-w", "dgx02", "--gres=gpu:1", "--wrap", "true")
    wait_for(lambda: "ReqNodeNotAvail" in cluster.state(job) or "Resources" in cluster.state(job))
    assert cluster.ada("srun -A research --gres=gpu:1 hostname -s").strip() == "dgx01"

    cluster.lab.sh("ctl01", "scontrol update nodename=dgx02 state=resume")
    wait_for(lambda: cluster.state(job).startswith("COMPLETED"))


def test_partition_change_reaches_nodes_without_a_restart_of_slurmd(cluster: Cluster) -> None:
    started = cluster.lab.sh("dgx01", "systemctl show -P ExecMainStartTimestampMonotonic slurmd")
    partitions = [
        {
            "name": "short",
            "nodes": "dgx[01-02]",
            "default": True,
            "priority": 7,
            "accounts": [],
            "max_minutes": 60,
        }
    ]
    changed = {"slurm_controller_partitions": partitions}
    done = cluster.run(tags=["slurm_controller"], hosts="rack_slurm_controllers", variables=changed)

    assert ("ctl01", "slurm_controller : Enable and start slurmctld") in done.changed
    wait_for(
        lambda: (
            cluster.lab.sh("dgx01", "grep -c PartitionName=short /run/slurm/conf/slurm.conf", code=None)
            == "1\n"
        )
    )
    assert cluster.lab.sh("dgx01", "systemctl show -P ExecMainStartTimestampMonotonic slurmd") == started
    assert cluster.lab.sh("ctl01", "sinfo -h -o '%P %l'") == "short* 1:00:00\n"
    cluster.run(tags=["slurm_controller"], hosts="rack_slurm_controllers")
    assert "short" not in cluster.lab.sh("ctl01", "sinfo -h -o %P")


def test_accounts_follow_the_fleet_file_and_manual_accounts_stay(cluster: Cluster) -> None:
    cluster.lab.sh(
        "ctl01",
        "sacctmgr -i add account guests Organization=people >/dev/null; "
        "sacctmgr -i add user root account=guests >/dev/null",
    )
    wanted = {
        "slurm_controller_accounts": [
            {"name": "research", "gpus": 4, "qos": "high", "users": []},
            {"name": "vision", "gpus": 8, "qos": "low", "users": ["ada"]},
        ]
    }
    shown = "sacctmgr -nP show assoc cluster=lab format=Account,User,GrpTRES,DefaultQOS | sort"
    tags = ["slurm_controller"]
    reported = cluster.run(hosts="ctl01", tags=tags, check=True, variables=wanted)
    assert reported.changed == {("ctl01", "slurm_controller : Configure accounting")}
    cluster.run(hosts="ctl01", tags=tags, variables=wanted)

    found = cluster.lab.sh("ctl01", shown).splitlines()
    assert [line for line in found if line.split("|")[0] in ("research", "serving", "vision")] == [
        "research||gres/gpu=4|high",
        "vision|ada||low",
        "vision||gres/gpu=8|low",
    ]
    assert {"guests|root||", "guests|||"} <= set(found)
    default = "sacctmgr -nP show user ada format=DefaultAccount"
    assert cluster.lab.sh("ctl01", default) == "vision\n"
    assert not cluster.run(hosts="ctl01", tags=tags, variables=wanted).changed
    cluster.run(hosts="ctl01", tags=tags)
    assert "vision" not in cluster.lab.sh("ctl01", shown)
    assert cluster.lab.sh("ctl01", default) == "research\n"
    assert "guests|root" in cluster.lab.sh("ctl01", shown)


def test_settings_of_the_site_are_in_force_and_survive_another_run(cluster: Cluster) -> None:
    lab = cluster.lab
    tags = ["slurm_controller", "slurm_login"]
    shown = "scontrol show config | grep -E '^(MaxJobCount|PriorityWeightAge) '"
    empty = lab.sh("ctl01", "cat /etc/slurm/site.conf")
    # The second one is also in slurm.conf.
    site = empty + "MaxJobCount=4321\nPriorityWeightAge=77\n"

    def write(text: str) -> None:
        """Write the file and gather facts, with which each run of `gpufleet configure` begins."""
        lab.sh("ctl01", f"cat >/etc/slurm/site.conf <<'END'\n{text}END\n")
        assert not lab.run("playbooks/base.yml", tags=["always"]).failures

    write(site)
    try:
        reported = cluster.run(tags=tags, check=True)
        done = cluster.run(tags=tags)
        assert done.changed == reported.changed
        assert ("ctl01", "slurm_controller : Write configuration") not in done.changed
        for host in ("ctl01", "login01"):
            assert lab.sh(host, shown).split() == ["MaxJobCount", "=", "4321", "PriorityWeightAge", "=", "77"]
        for host, folder in (("ctl01", "/etc"), ("ctl02", "/etc"), ("login01", "/etc"), ("dgx01", "/run")):
            place = f"{folder}/slurm{'/conf' if folder == '/run' else ''}/site.conf"
            wait_for(lambda host=host, place=place: lab.sh(host, f"cat {place}", code=None) == site)
        assert not cluster.run(tags=tags).changed
        assert lab.sh("ctl01", "cat /etc/slurm/site.conf") == site
    finally:
        write(empty)
        cluster.run(tags=tags)
    assert lab.sh("login01", "cat /etc/slurm/site.conf") == empty
    wait_for(cluster.ready)


def test_steps_of_jobs_get_pmix_by_default(cluster: Cluster) -> None:
    reported = cluster.ada("srun -A research -N2 sh -c 'echo ${PMIX_NAMESPACE:+pmix} ${PMIX_RANK}'")
    assert sorted(reported.split()) == ["0", "1", "pmix", "pmix"]
    assert "pmix" not in cluster.lab.sh("dgx01", "journalctl -q -u slurmd -g 'can not load' || true")


def test_node_with_another_munge_key_is_reported_and_repaired(cluster: Cluster) -> None:
    lab = cluster.lab
    lab.sh(
        "dgx02",
        "head -c 1024 /dev/urandom >/etc/munge/munge.key; systemctl restart munge; systemctl restart slurmd",
    )
    assert "DOWN" in lab.sh("dgx02", "timeout 20 scontrol ping 2>&1", code=None)

    noticed = cluster.run(hosts="rack_slurm_nodes", check=True, tags=["munge", "slurm_node"])
    assert ("dgx02", "munge : Write configuration") in noticed.changed
    assert {host for host, _ in noticed.changed} == {"dgx02"}
    cluster.run(hosts="rack_slurm_nodes", tags=["munge", "slurm_node"])
    assert "Slurmctld(primary) at ctl01 is UP" in lab.sh("dgx02", "scontrol ping")
    # slurmctld may see the node again only with its next ping, every third of SlurmdTimeout (100 s).
    wait_for(cluster.ready, 150)


def test_munge_key_is_rotated_while_a_job_runs(cluster: Cluster) -> None:
    job = cluster.submit("-A", "research", "-N2", "--gres=gpu:8", "--wrap", "'srun sleep 25'")
    wait_for(lambda: cluster.state(job).startswith("RUNNING"))
    old = cluster.secrets[KEY]
    cluster.secrets[KEY] = secrets.token_hex(64)
    rotate = "playbooks/rotate_munge_key.yml"

    reported = cluster.run(rotate, check=True)
    assert cluster.lab.sh("dgx01", "cat /etc/munge/munge.key") == old
    done = cluster.run(rotate)

    assert done.changed == reported.changed
    assert {host for host, task in done.changed if task == "munge : Replace the key"} == HOSTS
    assert cluster.lab.sh("dgx01", "cat /etc/munge/munge.key; stat -c ' %U %a' /etc/munge/munge.key") == (
        f"{cluster.secrets[KEY]} munge 400\n"
    )
    wait_for(lambda: cluster.state(job).startswith("COMPLETED"))
    wait_for(cluster.ready)
    assert not cluster.run(rotate).changed


def test_controller_moves_its_state_and_needs_a_writable_folder(cluster: Cluster) -> None:
    reported = cluster.lab.sh(
        "ctl02",
        """
        mkdir -p /tmp/own; echo jobs >/tmp/own/job_state; chown -R slurm: /tmp/own
        /usr/lib/gpufleet/slurm-state /tmp/share /tmp/own
        stat -c '%U %a' /tmp/share; cat /tmp/share/job_state; ls -d /tmp/own*
        echo later >/tmp/share/job_state; /usr/lib/gpufleet/slurm-state /tmp/share /tmp/own.moved
        cat /tmp/share/job_state
        /usr/lib/gpufleet/slurm-state /proc/nowhere /tmp/own 2>&1 || echo refused
        """,
    )
    *lines, reason, refused = reported.splitlines()
    assert lines == ["slurm 700", "jobs", "/tmp/own.moved", "later"]
    assert "cannot be written by slurm (uid 64030)" in reason and "no_root_squash" in reason
    assert refused == "refused"


def test_slurmctld_never_runs_without_its_state_file_system(cluster: Cluster) -> None:
    state = "systemctl is-active slurmctld var-lib-slurm-shared.mount"
    assert cluster.lab.sh("ctl02", state).split() == ["active", "active"]
    cluster.lab.sh("ctl02", "systemctl stop var-lib-slurm-shared.mount")
    assert cluster.lab.sh("ctl02", state, code=None).split() == ["inactive", "inactive"]
    cluster.lab.sh("ctl02", "systemctl start slurmctld")
    assert cluster.lab.sh("ctl02", state).split() == ["active", "active"]


def test_backup_controller_takes_over_with_all_jobs_when_the_primary_dies(cluster: Cluster) -> None:
    lab = cluster.lab
    waiting = cluster.submit(
        *("-A", "research", "--hold", "--gres=gpu:1", "--job-name=outlives-its-controller", "--wrap", "true")
    )
    # A job saved before the database has answered has no index, and Slurm refuses to
    # change such a job (README of slurm_controller): this one is changed once it has its index.
    wait_for(lambda: str(waiting) in cluster.ada(f"sacct -n -X -j {waiting} -o jobid", code=None).split())
    change = f"scontrol update jobid={waiting} comment=known-to-the-database 2>&1"
    wait_for(lambda: not cluster.ada(change, code=None))
    # slurmctld writes its state every few seconds; newer state is lost with it.
    kept = "grep -c known-to-the-database /var/lib/slurm/shared/slurmctld-lab/job_state"
    wait_for(lambda: lab.sh("ctl01", kept, code=None).strip() not in ("", "0"))
    lab.sh("ctl01", "systemctl kill --signal=KILL slurmctld")
    try:
        wait_for(lambda: "DOWN" in lab.sh("login01", "scontrol ping", code=None).splitlines()[0])
        wait_for(lambda: cluster.state(waiting).startswith("PENDING"))
        time.sleep(REGISTERED_S)
        wait_for(cluster.ready)
        cluster.ada(f"scontrol release {waiting}")
        wait_for(lambda: cluster.state(waiting).startswith("COMPLETED"))
    finally:
        # As an administrator would, or the next run.
        done = cluster.run(hosts="rack_slurm_controllers", tags=["slurm_controller"])
        time.sleep(REGISTERED_S)
    assert done.changed == {("ctl01", "slurm_controller : Enable and start slurmctld")}
    assert "Slurmctld(primary) at ctl01 is UP" in lab.sh("login01", "scontrol ping")
    assert cluster.state(waiting).startswith("COMPLETED")
