"""What the rack must be able to carry: a real Slurm, configured by hand, with jobs on GPUs."""

from __future__ import annotations

import base64
import os

from tests.rack.lab import Lab

SLURM_CONF = """\
ClusterName=rack
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
NodeName=dgx[01-02] CPUs=1 Gres=gpu:8
PartitionName=gpu Nodes=dgx[01-02] Default=YES State=UP
"""
GRES_CONF = "Name=gpu File=/dev/nvidia[0-7]\n"
INSTALL = "export DEBIAN_FRONTEND=noninteractive; apt-get -qq update; apt-get -qq install -y "


def test_a_real_slurm_runs_a_job_on_all_gpus_of_two_nodes(clean_rack: Lab) -> None:
    key = base64.b64encode(os.urandom(128)).decode()
    nodes = ("dgx01", "dgx02")
    for host in ("ctl01", *nodes):
        gpu = host in nodes
        clean_rack.sh(host, f"{INSTALL} munge {'slurmd' if gpu else 'slurmctld'} slurm-client >/dev/null")
        clean_rack.sh(
            host,
            f"""
            base64 -d <<<'{key}' >/etc/munge/munge.key
            chown munge: /etc/munge/munge.key; chmod 0400 /etc/munge/munge.key
            systemctl restart munge
            mkdir -p /var/lib/slurm/slurmctld /var/lib/slurm/slurmd; chown slurm: /var/lib/slurm/slurmctld
            cat >/etc/slurm/slurm.conf <<'END'\n{SLURM_CONF}END
            """,
        )
        if gpu:
            clean_rack.add_vendor_repository(host)
            clean_rack.sh(host, f"{INSTALL} nvidia-open >/dev/null; nvidia-smi -L >/dev/null")
            clean_rack.sh(
                host, f"cat >/etc/slurm/gres.conf <<'END'\n{GRES_CONF}END\nsystemctl restart slurmd"
            )
        else:
            clean_rack.sh(host, "systemctl restart slurmctld")

    clean_rack.sh(
        "ctl01",
        "for try in $(seq 50); do [ $(sinfo -h -t idle -o %D | head -1) = 2 ] && exit; sleep 0.2; done\n"
        "sinfo -N; exit 1",
    )
    said = clean_rack.sh("ctl01", "srun -N2 --gres=gpu:8 sh -c 'echo $(hostname) $CUDA_VISIBLE_DEVICES'")

    assert sorted(said.split("\n")[:2]) == ["dgx01 0,1,2,3,4,5,6,7", "dgx02 0,1,2,3,4,5,6,7"]
    assert clean_rack.sh("ctl01", "srun -N1 --gres=gpu:9 true", code=None) == ""
