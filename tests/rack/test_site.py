"""The whole of site.yml on two controllers, a login host and four GPU nodes, by `gpufleet configure`."""

from __future__ import annotations

import json
import re
import signal
import time
from typing import Any

import pytest

from tests.rack.management import SECRET, SET
from tests.rack.site import Runs, Site

JOB = """\
#!/bin/bash
#SBATCH --nodes=3 --ntasks-per-node=1 --gres=gpu:8 --output=/tmp/job-%j.out --account=research
srun sh -c 'echo $(hostname -s) $CUDA_VISIBLE_DEVICES' >/shared/home/job-$SLURM_JOB_ID
"""


def test_check_run_matches_the_first_run(runs: Runs) -> None:
    assert runs.site.changes(runs.check) == runs.site.changes(runs.first)
    assert runs.first["changed"] > 100
    assert runs.check["failed_hosts"] == runs.first["failed_hosts"] == []


def test_preflight_measures_the_hardware_of_the_hosts(runs: Runs) -> None:
    failed = {(item["host"], item["check"]) for item in runs.first["preflight"] if item["status"] == "fail"}
    assert ("dgx01", "clock") in failed  # no time server is set yet
    assert not {(host, check) for host, check in failed if check != "clock"}


@pytest.mark.breaks("dgx01", "dgx02")
def test_preflight_finds_a_failed_socket_and_dimm_only_on_their_hosts(site_to_break: Site) -> None:
    site_to_break.lab.hardware("dgx01").remove_socket()
    site_to_break.lab.hardware("dgx02").remove_dimm(128)
    # Clocks fail too: nothing sets them in a rack in a box.
    result = site_to_break.configure("--only", "preflight", code=4)
    failed = {
        (item["host"], item["check"]): item["message"]
        for item in result["preflight"]
        if item["status"] == "fail" and item["check"] in ("cpu", "memory")
    }
    assert failed == {
        ("dgx01", "cpu"): "processors in 1 of 2 sockets",
        ("dgx02", "memory"): "1735 GiB of memory instead of 1863 GiB",
    }


def test_second_run_changes_nothing(runs: Runs) -> None:
    assert runs.site.changes(runs.second) == set()
    assert runs.second["changed"] == 0
    assert {name: stats["failed"] + stats["unreachable"] for name, stats in runs.second["hosts"].items()} == (
        dict.fromkeys(runs.second["hosts"], 0)
    )


def test_bmc_of_each_node_is_configured_once(runs: Runs) -> None:
    assert runs.site.controllers is not None
    controllers = runs.site.controllers.of
    changed = {host for host, role, _ in runs.site.changes(runs.first) if role == "bmc"}
    assert changed == set(controllers) == set(runs.site.lab.names("gpu"))
    for name, service in controllers.items():
        # Whatever else has run by now; a power cycle is no change of settings.
        assert [change for change in service.changes if change[0] == "PATCH"] == SET, name


def test_job_runs_on_all_gpus_of_its_team_and_is_accounted(site: Site) -> None:
    # research may use 24 of the 32.
    lab = site.lab
    lab.sh("login01", f"cat >/tmp/job.sh <<'END'\n{JOB}END\nchmod 755 /tmp/job.sh\n")
    number = site.run_job("/tmp/job.sh")

    lines = sorted(lab.sh("login01", f"cat /shared/home/job-{number}").splitlines())
    assert lines == [f"dgx{node:02d} 0,1,2,3,4,5,6,7" for node in range(1, 4)]
    # slurmctld reports the end of a job to slurmdbd with a delay.
    tres = lab.sh(
        "login01",
        f"for try in $(seq 100); do said=$(sacct -X -n -P -j {number} -o AllocTRES,State,Account); "
        "case $said in *COMPLETED*) break;; esac; sleep 0.3; done; echo $said",
    )
    assert "gres/gpu=24" in tres
    assert tres.strip().endswith("|COMPLETED|research")


def test_team_gets_no_more_gpus_than_its_limit(site: Site) -> None:
    # serving may use 8 of the 32. Until the scheduler handles a job, it has no reason, or waits for
    # resources where nodes are busy: they are until the epilog of the job before has ended.
    site.wait_for_nodes()
    reported = site.lab.sh(
        "login01",
        "su grace -c 'sbatch -Q -A serving -N2 --gres=gpu:8 --wrap \"sleep 300\"'; for try in $(seq 300); do "
        "said=$(squeue -h -u grace -o '%T %r'); "
        "case $said in 'PENDING None'|'PENDING Resources'|'PENDING Priority') sleep 0.3;; *) break;; esac; "
        "done; echo $said; scancel -u grace",
        code=None,
    )
    assert re.fullmatch(r"PENDING \w*(GRES|Gres|Limit)\w*", reported.strip()), reported


def test_drained_node_is_refused_until_it_is_resumed(site: Site) -> None:
    lab = site.lab
    lab.sh("ctl01", "scontrol update nodename=dgx02 state=drain reason='disk is being replaced'")
    refused = lab.sh("login01", "su ada -c 'srun -A research -w dgx02 --immediate=2 true' 2>&1", code=None)
    assert (
        "Unable to allocate" in refused or "Requested nodes are busy" in refused or "drain" in refused.lower()
    )
    assert lab.sh("login01", "su ada -c 'srun -A research -w dgx01 hostname -s'").strip() == "dgx01"
    lab.sh("ctl01", "scontrol update nodename=dgx02 state=resume")
    assert lab.sh("login01", "su ada -c 'srun -A research -w dgx02 hostname -s'").strip() == "dgx02"


def test_no_secret_is_in_an_argument_a_log_or_a_readable_file(runs: Runs, site: Site) -> None:
    secrets = list(site.secrets.values())
    assert runs.arguments.looks > 100
    assert runs.arguments.found == set()
    kept = [path for path in site.checkout.glob(".gpufleet/**/*") if path.is_file()]
    assert len(kept) >= 6  # journals and pages of the runs, their record, the inventory
    assert [str(path) for path in kept if any(s in path.read_text(errors="replace") for s in secrets)] == []
    for reported in (runs.check, runs.first, runs.second):
        assert not any(secret in json.dumps(reported) for secret in secrets)
    patterns = "\n".join(secrets)
    for host in (*site.lab.names("controller"), *site.lab.names("login"), *site.lab.names("gpu")):
        found = site.lab.sh(
            host,
            f"umask 077; cat >/run/patterns <<'END'\n{patterns}\nEND\n"
            "grep -rlF -f /run/patterns --exclude=patterns "
            "/etc /var /usr/lib /usr/local /opt /home /root /tmp /srv >/run/found 2>/dev/null || true\n"
            "xargs -r stat -c '%n %a %U' </run/found; journalctl -o cat | grep -cF -f /run/patterns || true\n"
            # Programs that gpufleet needs, and no host.
            f"xargs -r grep -lF -e {site.secrets[SECRET]} </run/found | wc -l; rm /run/patterns /run/found",
        ).splitlines()
        *files, in_journal, of_controllers = found
        assert (in_journal, of_controllers) == ("0", "0"), host
        assert files, f"{host} has no munge key"
        assert [line for line in files if not re.search(r" [46]00 (munge|slurm|root)$", line)] == []


def test_mariadb_listens_only_on_loopback(site: Site) -> None:
    listening = site.lab.sh("ctl01", "ss -Hltn 'sport = :3306'").split("\n")
    assert [line.split()[3] for line in listening if line.strip()] in (["127.0.0.1:3306"], [])


@pytest.mark.breaks("dgx03", "dgx04")
def test_next_run_finishes_a_run_that_was_killed_or_lost_a_host(site_to_break: Site) -> None:
    site = site_to_break
    lab = site.lab
    bare = ("--limit", "dgx03,dgx04")
    lab.reset("dgx03", "dgx04", name="identity")

    def ended(host: str, role: str) -> bool:
        entries = [json.loads(line) for line in site.journal().splitlines() if line.endswith("}")]
        return any((item.get("host"), item.get("role")) == (host, role) for item in entries)

    with site.configuring("--skip-preflight", *bare) as run:
        wait_until(lambda: ended("dgx03", "nvidia_driver"), run)
        run.send_signal(signal.SIGKILL)

    # A host is lost during the play: the others finish.
    with site.configuring("--skip-preflight", "--resume") as run:
        wait_until(lambda: ended("dgx04", "munge"), run)
        lab.rack.stop("dgx04", force=True)
        out, err = run.communicate(timeout=600)
    result = json.loads(out)
    assert run.returncode == 4, err
    assert sorted(result["hosts"]) == ["dgx03", "dgx04"]
    assert result["failed_hosts"] == ["dgx04"]
    assert result["hosts"]["dgx04"]["unreachable"] == 1
    assert result["hosts"]["dgx03"]["changed"] > 10
    assert lab.sh("dgx03", "systemctl is-active slurmd").strip() == "active"

    # It is back, and the run that finishes it is killed once more.
    lab.rack.start("dgx04")
    with site.configuring("--skip-preflight", "--resume") as run:
        wait_until(lambda: ended("dgx04", "slurm_node"), run)
        run.send_signal(signal.SIGKILL)
    resumed = site.configure("--resume")
    assert list(resumed["hosts"]) == ["dgx04"]
    assert resumed["failed_hosts"] == []
    again = site.configure(*bare)
    assert site.changes(again) == set()
    assert again["failed_hosts"] == []
    assert "gpu:h100:8" in lab.sh("ctl01", "sinfo -h -N -n dgx04 -o %G")


def wait_until(true: Any, run: Any, timeout_s: float = 300) -> None:
    """Wait for an event of a run; fails if the run ends before it."""
    end = time.monotonic() + timeout_s
    while not true():
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < end
        time.sleep(0.1)
