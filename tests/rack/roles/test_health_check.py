"""The health check on nodes of a real Slurm: faults drain, repair resumes, manual drains stay."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.rack.lab import BOOTED, Lab, fleet_text
from tests.rack.roles.proof import RoleRuns, prove

DRIVER = "580.159.03"
PARTS = (
    *("nvidia-open", "nvidia-driver", "nvidia-driver-cuda", "nvidia-kernel-open-dkms", "nvidia-smi"),
    *("libnvidia-ml1", "libcuda1", "nvidia-persistenced", "nvidia-modprobe", "nvidia-fabricmanager"),
)
APT = "export DEBIAN_FRONTEND=noninteractive; apt-get -qq update; apt-get -qq install -y --allow-downgrades"
NODE, OTHER = "dgx01", "dgx02"
DROPINS = "/etc/systemd/system/slurmd.service.d"
SLURM_CONF = """\
ClusterName=lab
SlurmctldHost=ctl01
AuthType=auth/munge
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
GresTypes=gpu
ReturnToService=1
SchedulerParameters=nohold_on_prolog_fail
Prolog=/usr/lib/gpufleet/prolog
Epilog=/usr/lib/gpufleet/epilog
HealthCheckProgram=/usr/lib/gpufleet/health-check
HealthCheckInterval=3600
HealthCheckNodeState=ANY
NodeName=dgx[01-02] CPUs=1 Gres=gpu:8
PartitionName=gpu Nodes=dgx[01-02] Default=YES State=UP
"""
GRES = "Name=gpu File=/dev/nvidia[0-7]"
# Slurm and chrony as they are set up by hand: the test is about one role.
BY_HAND = """
base64 -d <<<'{key}' >/etc/munge/munge.key; chown munge: /etc/munge/munge.key
chmod 0400 /etc/munge/munge.key; systemctl restart munge
mkdir -p /var/lib/slurm/slurmctld /var/lib/slurm/slurmd; chown slurm: /var/lib/slurm/slurmctld
cat >/etc/slurm/slurm.conf <<'END'\n{conf}END
printf '{chrony}\\ndriftfile /var/lib/chrony/drift\\n' >/etc/chrony/chrony.conf; systemctl restart chrony
"""


@pytest.fixture(scope="module")
def site(can_hold_racks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, RoleRuns]]:
    """A controller and two GPU nodes with driver, Fabric Manager, Slurm and the role."""
    lab = Lab.up(tmp_path_factory.mktemp("health"), fleet_text(gpu_nodes=2, controllers=1, login=False))
    try:
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda host: install(lab, host), ("ctl01", NODE, OTHER)))
        proof = prove(lab, ["health_check"], f"{NODE},{OTHER}", again=False)
        lab.sh("ctl01", "systemctl restart slurmctld")
        for node in (NODE, OTHER):
            lab.sh(node, f"echo '{GRES}' >/etc/slurm/gres.conf; systemctl restart slurmd")
        wait_for(lambda: lab.sh("ctl01", "sinfo -h -t idle -o %D").strip() == "2")
        yield lab, proof
    finally:
        lab.down()


@pytest.fixture
def rack(site: tuple[Lab, RoleRuns]) -> Iterator[Lab]:
    """Both nodes healthy and idle before and after."""
    lab = site[0]
    yield lab
    lab.hardware(NODE).restore(lab.healthy[NODE])
    lab.sh(NODE, "/usr/lib/gpufleet/health-check forget")
    recover(lab)


def install(lab: Lab, host: str) -> None:
    gpu = host != "ctl01"
    lab.add_vendor_repository(host)
    driver = " ".join(f"{part}={DRIVER}-1" for part in PARTS) if gpu else ""
    slurm = "slurmd" if gpu else "slurmctld"
    lab.sh(host, f"{APT} munge {slurm} slurm-client chrony libfaketime {driver} >/dev/null 2>&1")
    chrony = r"server ctl01 iburst minpoll 0 maxpoll 1" if gpu else r"local stratum 8\nallow all"
    key = base64.b64encode(b"k" * 96).decode()
    lab.sh(host, BY_HAND.format(key=key, conf=SLURM_CONF, chrony=chrony))
    if gpu:
        lab.sh(host, "nvidia-smi -L >/dev/null; systemctl start nvidia-fabricmanager")


def wait_for(true: object, limit_s: float = 300) -> None:
    assert callable(true)
    until = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < until, "timed out"
        time.sleep(0.3)


def check(lab: Lab, mode: str = "periodic", node: str = NODE) -> int:
    """Runs the health check; its exit code."""
    return int(lab.sh(node, f"/usr/lib/gpufleet/health-check {mode} >/dev/null; echo $?"))


def slurm_node(lab: Lab, node: str = NODE) -> tuple[bool, str]:
    """Whether Slurm has it drained, and the reason."""
    printed = lab.sh("ctl01", f"scontrol -o show node {node}")
    reason = re.search(r"Reason=(.*?) \[", printed)
    state = re.search(r"State=(\S+)", printed)
    assert state is not None
    return "DRAIN" in state[1], reason[1] if reason else ""


def shown(lab: Lab, job: int) -> str:
    """What Slurm says of a job."""
    return lab.sh("ctl01", f"scontrol show job {job}")


def recover(lab: Lab, node: str = NODE) -> None:
    """Two good runs resume the node."""
    check(lab, node=node)
    check(lab, node=node)
    assert slurm_node(lab, node) == (False, "")


def findings(lab: Lab, node: str = NODE) -> dict[str, str]:
    reported = json.loads(lab.sh(node, "cat /var/lib/gpufleet/health/findings.json"))
    return {item["check"]: f"{item['subject']} {item['message']}".strip() for item in reported["findings"]}


def test_role_installs_the_health_check_and_check_mode_reports_it(
    site: tuple[Lab, RoleRuns],
) -> None:
    lab, proof = site
    assert proof.first.changed == {
        (node, "health_check : Install programs and write configuration") for node in (NODE, OTHER)
    }
    assert lab.sh(NODE, "ls /usr/lib/gpufleet").split() == ["epilog", "health", "health-check", "prolog"]
    assert "inactive" in lab.sh(NODE, "systemctl is-active gpufleet-health.timer || true")
    settings = json.loads(lab.sh(NODE, "cat /etc/gpufleet/health.json"))
    assert (settings["gpus"], settings["adapters"], settings["link_gbps"]) == (8, 8, 400)
    assert (settings["slurm"], settings["node"], settings["driver_version"]) == (True, NODE, DRIVER)
    assert settings["xid_actions"] == {"REBOOT": [168]}


def test_healthy_node_reports_no_findings_and_writes_metrics(rack: Lab) -> None:
    assert check(rack) == 0
    assert findings(rack) == {}
    assert slurm_node(rack) == (False, "")
    text = rack.sh(NODE, "cat /var/lib/prometheus/node-exporter/gpufleet_health.prom")
    assert "gpufleet_health_healthy 1" in text
    judged = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert judged.returncode == 0, judged.stderr
    assert json.loads(rack.sh(NODE, "/usr/lib/gpufleet/health-check show"))["duration_s"] > 0


def test_gpu_and_port_faults_drain_the_node_and_their_repair_resumes_it(rack: Lab) -> None:
    hardware = rack.hardware(NODE)

    def one_gpu_missing() -> None:
        hardware.remove_gpu(3)

    def ecc() -> None:
        hardware.ecc(0, kind="sram_uncorrected", count=2)

    def half_rate() -> None:
        hardware.port(2, speed="HDR")

    def nvlink() -> None:
        hardware.nvlink(4, 17, active=False)

    def inforom() -> None:
        hardware.corrupt_inforom(6)

    for fault, reason in (
        (one_gpu_missing, "gpufleet: 7 of 8 GPUs on the PCI bus"),
        (ecc, "gpufleet: GPU 0 2 uncorrectable ECC errors"),
        (half_rate, "gpufleet: mlx5_4 at 200 Gb/s instead of 400"),
        (nvlink, "gpufleet: GPU 4 NVLink 17 is inactive"),
        (inforom, "gpufleet: GPU 6 its InfoROM is corrupt"),
    ):
        fault()
        assert check(rack) == 0
        assert slurm_node(rack) == (True, reason)
        hardware.restore(rack.healthy[NODE])
        check(rack)
        assert slurm_node(rack) == (True, reason), "one good run is not enough"
        check(rack)
        assert slurm_node(rack) == (False, "")
    assert slurm_node(rack, OTHER) == (False, "")


def test_xid_79_drains_the_node_until_it_reboots(rack: Lab) -> None:
    rack.hardware(NODE).xid(79, gpu=5)
    check(rack)
    drained, reason = slurm_node(rack)
    assert drained
    assert "GPU 5 Xid 79 (GPU has fallen off the bus): REBOOT" in reason
    assert "Unable to determine the device handle for GPU5" in reason

    # The GPU answers again, and its log is gone: that is not a reboot.
    rack.hardware(NODE).restore(rack.healthy[NODE])
    check(rack)
    check(rack)
    assert slurm_node(rack) == (True, "gpufleet: GPU 5 Xid 79 (GPU has fallen off the bus): REBOOT")

    # slurmctld 22.05 and 23.02 set a node DOWN that has booted since its last answer, also a drained one.
    rack.sh(NODE, f"mkdir -p {DROPINS}; cat >{DROPINS}/booted.conf <<'END'\n{BOOTED}END")
    rack.rack.stop(NODE)
    rack.rack.start(NODE)
    wait_for(lambda: "State=DOWN+DRAIN " in rack.sh("ctl01", f"scontrol -o show node {NODE}"))
    rack.sh(NODE, f"rm {DROPINS}/booted.conf; systemctl daemon-reload; systemctl start nvidia-fabricmanager")
    recover(rack)
    wait_for(lambda: rack.sh("ctl01", "sinfo -h -t idle -o %D").strip() == "2")


def test_fatal_sxid_of_an_nvswitch_drains_the_node_until_it_is_forgotten(rack: Lab) -> None:
    rack.hardware(NODE).sxid(20034, "Link 63 LTSSM Fault Up")
    check(rack)
    reason = "gpufleet: NVSwitch 0000:05:00 SXid 20034 (Link 63 LTSSM Fault Up): RESET"
    assert slurm_node(rack) == (True, reason)
    rack.hardware(NODE).restore(rack.healthy[NODE])
    rack.sh(NODE, "/usr/lib/gpufleet/health-check forget")
    recover(rack)
    assert slurm_node(rack) == (False, "")


def test_resuming_a_node_accepts_its_xid_but_not_the_next_one(rack: Lab) -> None:
    rack.hardware(NODE).xid(48, gpu=1)
    check(rack)
    assert slurm_node(rack) == (True, "gpufleet: GPU 1 Xid 48 (DBE (double bit error)): RESET")
    rack.sh("ctl01", f"scontrol update NodeName={NODE} State=RESUME")
    check(rack)
    assert slurm_node(rack)[0] is False
    assert "accepted by a person" in findings(rack)["xid_monitor"]

    time.sleep(1.1)
    rack.hardware(NODE).xid(48, gpu=1)
    check(rack)
    assert slurm_node(rack) == (True, "gpufleet: GPU 1 Xid 48 (DBE (double bit error)), 2 times: RESET")


def test_wrong_clock_drains_the_node(rack: Lab) -> None:
    rack.hardware(NODE).clock_offset(30)
    rack.sh(NODE, "systemctl restart chrony; chronyc -n waitsync 30 0 0 0.5 >/dev/null; true")
    try:
        wait_for(lambda: check(rack) == 0 and slurm_node(rack)[0])
        assert slurm_node(rack)[1] == "gpufleet: the clock is 30.0 s off, limit 1 s"
    finally:
        (rack.rack.layout.hardware(NODE) / "clock.env").unlink()
        rack.sh(NODE, "systemctl restart chrony")
    wait_for(lambda: "clock" not in rack.sh(NODE, "/usr/lib/gpufleet/health-check show", code=None))
    recover(rack)


def test_full_or_read_only_disk_drains_the_node(rack: Lab) -> None:
    rack.sh(
        NODE, "mount -t tmpfs -o size=8m tmpfs /tmp; dd if=/dev/zero of=/tmp/full bs=1M 2>/dev/null || true"
    )
    try:
        check(rack)
        assert slurm_node(rack) == (True, "gpufleet: /tmp 0.0% space free, 3% are needed")
        rack.sh(NODE, "rm /tmp/full; mount -o remount,ro /tmp")
        check(rack)
        assert slurm_node(rack) == (True, "gpufleet: /tmp is read-only")
    finally:
        rack.sh(NODE, "umount /tmp")
    recover(rack)


def test_manual_drain_stays_whatever_is_found(rack: Lab) -> None:
    rack.sh("ctl01", f"scontrol update NodeName={NODE} State=DRAIN Reason='new fans'")
    rack.hardware(NODE).remove_gpu(0)
    check(rack)
    assert slurm_node(rack) == (True, "new fans")
    rack.hardware(NODE).restore(rack.healthy[NODE])
    for _ in range(3):
        check(rack)
    assert slurm_node(rack) == (True, "new fans")
    rack.sh("ctl01", f"scontrol update NodeName={NODE} State=RESUME")

    # A reason edited by an administrator belongs to them.
    rack.hardware(NODE).ecc(0)
    check(rack)
    reason = slurm_node(rack)[1]
    rack.sh("ctl01", f"scontrol update NodeName={NODE} State=DRAIN Reason='{reason}, RMA 12'")
    rack.hardware(NODE).restore(rack.healthy[NODE])
    for _ in range(3):
        check(rack)
    assert slurm_node(rack) == (True, f"{reason}, RMA 12")
    rack.sh("ctl01", f"scontrol update NodeName={NODE} State=RESUME")


def test_failing_prolog_requeues_the_job_and_drains_the_node(rack: Lab) -> None:
    rack.hardware(NODE).remove_gpu(7)
    printed = rack.sh(
        "ctl01", f"cd /tmp; sbatch --parsable -w {NODE} --gres=gpu:1 --wrap 'hostname >/tmp/ran'"
    )
    job = int(printed)
    wait_for(lambda: "Restarts=1" in shown(rack, job) and "JobState=PENDING" in shown(rack, job))
    assert "Priority=0 " not in shown(rack, job), "the job is held"
    assert slurm_node(rack) == (True, "gpufleet: 7 of 8 GPUs on the PCI bus")
    assert "yes" not in rack.sh(NODE, "test -e /tmp/ran && echo yes || true")

    rack.hardware(NODE).restore(rack.healthy[NODE])
    recover(rack)
    rack.sh("ctl01", f"scontrol update JobId={job} StartTime=now")
    wait_for(lambda: rack.sh(NODE, "cat /tmp/ran 2>/dev/null || true") == f"{NODE}\n")
    wait_for(lambda: "JobState=COMPLETED" in shown(rack, job))


def test_faults_left_by_a_job_are_found_after_it(rack: Lab) -> None:
    rack.sh("ctl01", f"cd /tmp; sbatch -w {NODE} --gres=gpu:1 --wrap 'sleep 2'")
    wait_for(lambda: rack.sh("ctl01", "squeue -h -t R -o %i").strip() != "")
    rack.hardware(NODE).remap(2, failure=True)
    wait_for(lambda: slurm_node(rack)[0])
    assert slurm_node(rack)[1] == "gpufleet: GPU 2 a row could not be remapped"


def test_slurm_runs_the_health_check(rack: Lab) -> None:
    rack.hardware(NODE).port(6, state="Down", physical_state="Polling")
    rack.sh(NODE, "systemctl restart slurmd")
    wait_for(lambda: slurm_node(rack)[0])
    assert slurm_node(rack)[1] == "gpufleet: mlx5_10 is DOWN (Polling)"
