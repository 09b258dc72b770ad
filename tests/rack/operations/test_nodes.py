"""Operations on nodes of a working cluster, and each way in which they must stop."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from gpufleet.racks.configure.known_hosts import known_name
from gpufleet.racks.configure.targets import ssh_connections
from tests.rack.lab import BOOTED
from tests.rack.operations.operating import began, lose_power, wait_on, wait_until, why
from tests.rack.site import Site

CHANNEL, OTHER = "580.159.03", "595.91.07"
NODES = ("dgx01", "dgx02", "dgx03", "dgx04")
# The node's next boot ends without sshd, and only that one.
SSH = "/etc/systemd/system/ssh.service"
ONE_BOOT_WITHOUT_SSH = f'[Service]\\nExecStartPre=/bin/sh -c "rm {SSH}.d/lost.conf; exit 1"\\n'
UPGRADE = ("upgrade_driver", "-o", f"driver={OTHER}", "-o", "canary=dgx01", "-o", "batch=3")


def drivers(site: Site, *nodes: str) -> dict[str, str]:
    """Node -> the version of driver and Fabric Manager, where they agree."""
    found = {}
    for node in nodes or NODES:
        reported = site.lab.sh(
            node, "cat /sys/module/nvidia/version; nv-fabricmanager --version | grep -oE '[0-9]+[.][0-9.]+'"
        )
        found[node] = " ".join(sorted(set(reported.split())))
    return found


def secrets_on(site: Site, host: str) -> dict[str, list[str]]:
    """Files of a host in which a secret of the site is, by the name of the secret."""
    found = {}
    for name, value in site.secrets.items():
        script = f"find / -xdev -type f -size -64M -print0 | xargs -0 grep -lF -e '{value}' || true"
        if files := site.lab.sh(host, script).split():
            found[name] = sorted(files)
    return found


def addresses(site: Site) -> dict[str, str]:
    """Host -> the name of its key in a known_hosts file."""
    connections = ssh_connections(yaml.safe_load(site.lab.inventory.read_text()))
    return {host: known_name(*where) for host, where in connections.items()}


def drains(site: Site) -> dict[str, str]:
    """Node -> the reason of its drain, for nodes that are drained."""
    reported = site.lab.sh("ctl01", "sinfo -h -N -t drain -o '%N|%E' | sort -u")
    return dict(line.split("|", 1) for line in reported.splitlines())


def test_driver_upgrade_stops_at_every_fault_and_resumes(site_to_break: Site) -> None:
    site = site_to_break
    lab = site.lab

    # A job that does not end before the limit.
    lab.sh("login01", "su ada -c 'cd /tmp; sbatch -A research -J long -w dgx01 --wrap \"sleep 900\"'")
    lab.sh("ctl01", "for try in $(seq 1000); do squeue -h -t R | grep -q . && exit; sleep 0.2; done; exit 1")
    stopped = site.configure(*UPGRADE, "-o", "wait=1", verb="operate", code=4)
    assert stopped["states"] == {
        "dgx01": "failed",
        "dgx02": "pending",
        "dgx03": "pending",
        "dgx04": "pending",
    }
    assert "dgx01 still runs 1 job after 1 s" in why(stopped, "dgx01")
    assert "of ada (long, RUNNING)" in why(stopped, "dgx01")
    assert drains(site) == {}
    assert drivers(site) == dict.fromkeys(NODES, CHANNEL)
    assert lab.sh("ctl01", "squeue -h -o %T") == "RUNNING\n"
    lab.sh("ctl01", "scancel -u ada; while squeue -h | grep -q .; do sleep 0.2; done")

    # A canary that fails verification: the other nodes are not touched.
    lab.hardware("dgx01").remove_gpu(3)
    failed = site.configure(*UPGRADE, "-o", "ready=1", verb="operate", code=4)
    assert failed["states"] == {"dgx01": "failed", "dgx02": "pending", "dgx03": "pending", "dgx04": "pending"}
    assert "verification failed" in why(failed, "dgx01")
    assert "7 GPUs answer instead of 8" in why(failed, "dgx01")
    assert "It stays drained for upgrade_driver" in why(failed, "dgx01")
    assert drivers(site) == dict.fromkeys(NODES, CHANNEL) | {"dgx01": OTHER}
    assert set(drains(site)) == {"dgx01"}
    assert drains(site)["dgx01"].startswith("gpufleet operate: upgrade_driver by ")

    # Repaired and resumed, and killed in the middle of the batch.
    with lab.hardware("dgx01").changing() as state:
        state["gpus"][3]["present"] = True
    with site.configuring("upgrade_driver", "--resume", "-o", "ready=120", verb="operate") as run:
        wait_until(lambda: began(site, "dgx02", "Drain the node"), run)
        lose_power(site, "upgrade_driver", run)
    assert "dgx01" not in drains(site)
    assert set(drains(site)) <= {"dgx02", "dgx03", "dgx04"}

    # Resumed in batches of two, and a node does not come back from its reboot: its batch is finished, and the
    # next is not begun.
    lab.sh("dgx03", f"mkdir -p {SSH}.d; printf '{ONE_BOOT_WITHOUT_SSH}' >{SSH}.d/lost.conf")
    in_twos = ("-o", "timeout=45", "-o", "batch=2")
    away = site.configure("upgrade_driver", "--resume", *in_twos, verb="operate", code=4)
    assert away["states"] == {"dgx02": "done", "dgx03": "failed", "dgx04": "pending"}
    assert "did not come back from its reboot" in why(away, "dgx03")
    # The killed run may have drained dgx04: only the operation itself resumes it.
    assert {"dgx03"} <= set(drains(site)) <= {"dgx03", "dgx04"}
    assert drivers(site, "dgx02", "dgx04") == {"dgx02": OTHER, "dgx04": CHANNEL}

    # Only a power cycle brings it back, and that needs its name twice.
    controllers = site.controllers
    assert controllers is not None
    cycle = ("power_cycle", "--limit", "dgx03", "-o", "delay=1", "-o", "timeout=120")
    with site.configuring(*cycle, "-o", "confirm=dgx04", verb="operate") as run:
        out, _ = run.communicate(timeout=300)
    assert run.returncode == 2
    assert "confirm=dgx04 does not match the targets dgx03" in out
    assert controllers.resets == {}
    back = site.configure(*cycle, "-o", "confirm=dgx03", verb="operate")
    assert back["states"] == {"dgx03": "done"}
    assert controllers.resets == {"dgx03": ["PowerCycle"]}
    controllers.settled()

    last = site.configure("upgrade_driver", "--resume", "-o", "batch=1", verb="operate")
    assert last["states"] == {"dgx03": "done", "dgx04": "done"}
    assert drains(site) == {}
    assert drivers(site) == dict.fromkeys(NODES, OTHER)
    site.wait_for_nodes()


def test_hosts_reboot_without_disturbing_jobs_and_members_of_a_quorum_one_by_one(site_to_break: Site) -> None:
    site = site_to_break
    lab = site.lab
    boots = {host.name: host.boots for host in lab.rack.status()}
    lab.sh("login01", "su ada -c 'cd /tmp; sbatch -A research -J long -w dgx01 --wrap \"sleep 900\"'")
    wait_on(site, "squeue -h -t R | grep -q .")
    hosts = ("--limit", "dgx01,dgx02,ctl01,ctl02")
    stopped = site.configure("reboot", *hosts, "-o", "wait=1", verb="operate", code=4)
    assert stopped["states"] == {
        "dgx01": "failed",
        "dgx02": "pending",
        "ctl01": "pending",
        "ctl02": "pending",
    }
    assert "dgx01 still runs 1 job after 1 s" in why(stopped, "dgx01")
    assert {host.name: host.boots for host in lab.rack.status()} == boots
    assert lab.sh("ctl01", "squeue -h -o %T") == "RUNNING\n"
    assert drains(site) == {}

    lab.sh("ctl01", "scancel -u ada")
    wait_on(site, "! squeue -h | grep -q .")
    done = site.configure("reboot", "--resume", verb="operate")
    assert set(done["states"].values()) == {"done"}
    now = {host.name: host.boots for host in lab.rack.status()}
    assert now == {
        name: count + (name in ("dgx01", "dgx02", "ctl01", "ctl02")) for name, count in boots.items()
    }
    assert drains(site) == {}
    # A member leaves when the services of the one before it answer.
    journal = [json.loads(line) for line in site.journal().splitlines() if line.endswith("}")]
    steps = ("Check that the other members run", "Reboot the member", "Wait for the services of the member")
    assert [item["host"] for item in journal if item["task"] in steps] == ["ctl01"] * 3 + ["ctl02"] * 3
    site.wait_for_nodes()
    # All packages are the repository's, so nothing is upgraded and nothing reboots.
    upgraded = site.configure("upgrade_os", "--limit", "dgx02", verb="operate")
    assert upgraded["states"] == {"dgx02": "done"}
    assert {host.name: host.boots for host in lab.rack.status()} == now
    assert drains(site) == {}


@pytest.mark.breaks("dgx01")
def test_node_that_slurm_sets_down_at_its_reboot_is_returned(site_to_break: Site) -> None:
    """slurmctld 22.05 and 23.02 set a node DOWN that has booted since its last answer, also a drained one."""
    site = site_to_break
    folder = "/etc/systemd/system/slurmd.service.d"
    site.lab.sh("dgx01", f"mkdir -p {folder}; cat >{folder}/booted.conf <<'END'\n{BOOTED}END")
    done = site.configure("reboot", "--limit", "dgx01", "-o", "ready=60", verb="operate")
    assert done["states"] == {"dgx01": "done"}
    site.lab.sh("ctl01", "journalctl -q -u slurmctld | grep 'Node dgx01 unexpectedly rebooted'")
    assert drains(site) == {}
    site.wait_for_nodes()


def test_node_is_decommissioned_added_again_and_replaced(site_to_break: Site) -> None:
    site = site_to_break
    lab = site.lab
    lab.sh("login01", "su ada -c 'srun -A research -w dgx04 true'")
    lab.sh("dgx04", "echo data >/raid/cache/data")

    # Only with the node's own name.
    with site.configuring("decommission", "--limit", "dgx04", "-o", "confirm=dgx03", verb="operate") as run:
        out, _ = run.communicate(timeout=300)
    assert run.returncode == 2
    assert "confirm=dgx03 does not match the targets dgx04" in " ".join(out.split())
    assert lab.sh("dgx04", "cat /raid/cache/data") == "data\n"
    assert drains(site) == {}
    known = site.checkout / "known_hosts"
    names = addresses(site)
    known.write_text(f"{names['dgx04']} ssh-ed25519 AAAA\n{names['dgx03']} ssh-ed25519 BBBB\n")
    assert secrets_on(site, "dgx04") == {"GPUFLEET_SECRET_MUNGE_KEY_LAB": ["/etc/munge/munge.key"]}
    slurm = ("decommission", "--limit", "ctl02", "-o", "confirm=ctl02", "-o", "member=true")
    refused = site.configure(*slurm, verb="operate", code=4)
    assert "ctl02 is a controller of Slurm" in why(refused, "ctl02")
    assert lab.sh("ctl02", "systemctl is-active slurmctld munge").split() == ["active", "active"]
    words = ("decommission", "--limit", "dgx04", "-o", "confirm=dgx04", "-o", "method=discard")
    gone = site.configure(*words, verb="operate")
    assert gone["states"] == {"dgx04": "done"}
    assert drains(site)["dgx04"].startswith("gpufleet operate: decommission by ")
    wiped = lab.sh(
        "dgx04",
        "mountpoint -q /raid && echo mounted; grep -c /raid /etc/fstab || true; ls /dev/nvme*n1 | wc -l; "
        "for d in /dev/nvme*n1; do blkid -p $d || true; cmp -n 1048576 $d /dev/zero || true; done",
    )
    assert wiped.split() == ["0", "8"]
    record = json.loads(lab.sh("ctl01", "cat /var/lib/gpufleet/decommissioned/dgx04-*.json"))
    assert (record["host"], record["left_alone"]) == ("dgx04", [])
    assert {item["method"] for item in record["wiped"]} == {"discard"}
    assert len(record["wiped"]) == 8
    assert record["secrets"] == ["munge key: /etc/munge/munge.key"]
    assert secrets_on(site, "dgx04") == {}
    assert known.read_text() == f"{names['dgx03']} ssh-ed25519 BBBB\n"
    known.unlink()
    assert lab.sh("ctl01", "stat -c %a%U /var/lib/gpufleet/decommissioned/*.json") == "600root\n"

    # Removed from the fleet file and from slurm.conf; its jobs stay in accounting.
    fleet = site.checkout / "fleet.yaml"
    text = fleet.read_text()
    smaller = re.sub(r', dgx04: "[0-9a-f]+"', "", text)
    fleet.write_text(smaller.replace("dgx[01-04]", "dgx[01-03]").replace("bmc[01-04]", "bmc[01-03]"))
    try:
        site.configure("--skip-preflight", "--only", "slurm_controller", "--limit", "rack_slurm_controllers")
        assert "dgx04" not in lab.sh("ctl01", "sinfo -h -N -o %N")
        assert "dgx04" in lab.sh("ctl01", "sacct -a -X -n -P -o NodeList")
    finally:
        fleet.write_text(text)

    # New hardware for two names: one that Slurm no longer has, and one that it has.
    lab.reset("dgx03", "dgx04", name="identity")
    added = site.configure("add_nodes", "--limit", "dgx04", verb="operate")
    assert added["states"] == {"dgx04": "done"}
    assert "dgx04" not in drains(site)
    replaced = site.configure("replace_node", "--limit", "dgx03", verb="operate")
    assert replaced["states"] == {"dgx03": "done"}
    assert drains(site) == {}
    site.wait_for_nodes()
    assert lab.sh(
        "login01", "su ada -c 'srun -A research -w dgx03,dgx04 -N2 hostname -s' | sort"
    ).split() == [
        "dgx03",
        "dgx04",
    ]

    # GPUs of one node have MIG: a job gets exactly the instance that it requests. A job stops the change,
    # and without one the run drains the node, and resumes it once it is verified.
    mig = "    mig: [{ nodes: dgx03, gpus: [0], profiles: { 1g.10gb: 7 } }]\n"
    fleet.write_text(text.replace("    scheduler: slurm\n", f"    scheduler: slurm\n{mig}", 1))
    try:
        roles = ("--only", "mig,container_toolkit,slurm_controller,slurm_node", "--limit")
        hosts = (*roles, "dgx03,rack_slurm_controllers")
        lab.sh("login01", "su ada -c 'cd /tmp; sbatch -A research -J long -w dgx03 --wrap \"sleep 900\"'")
        wait_on(site, "squeue -h -t R | grep -q .")
        stopped = site.configure("--skip-preflight", *hosts, code=4)
        assert "dgx03 is in use by job " in why(stopped, "dgx03")
        assert "of ada (long, RUNNING)" in why(stopped, "dgx03")
        assert drains(site)["dgx03"].startswith("gpufleet operate: configure by ")
        assert lab.sh("ctl01", "squeue -h -o %T") == "RUNNING\n"
        lab.sh("ctl01", "scancel -u ada")
        wait_on(site, "! squeue -h | grep -q .")
        site.configure("--skip-preflight", *hosts)
        names = set(lab.sh("dgx03", "nvidia-ctk cdi list").split())
        assert names == {f"nvidia.com/gpu={name}" for name in (*range(1, 8), *(f"0:{n}" for n in range(7)))}
        assert drains(site) == {}
        site.wait_for_nodes()
        reported = lab.sh(
            "login01",
            "su ada -c 'srun -A research -w dgx03 --gres=gpu:1g.10gb:1 sh -c \"scontrol -d -o show job "
            "\\$SLURM_JOB_ID; echo devices=\\$CUDA_VISIBLE_DEVICES\"'",
        )
        assert "GRES=gpu:1g.10gb:1(IDX:" in reported and "gres/gpu=1" in reported
        (devices,) = [line for line in reported.splitlines() if line.startswith("devices=")]
        assert len(devices.removeprefix("devices=").split(",")) == 1 and devices != "devices="
        # All seven, and the eighth waits for none that there could be.
        everything = "srun -A research -w dgx03 --gres=gpu:1g.10gb:"
        assert lab.sh("login01", f"su ada -c '{everything}7 hostname -s'") == "dgx03\n"
        refused = lab.sh("login01", f"su ada -c '{everything}8 true' 2>&1", code=1)
        assert "Requested node configuration is not available" in refused
        site.configure("--limit", "dgx03", verb="verify")
    finally:
        fleet.write_text(text)
