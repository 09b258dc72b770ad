"""kube-bench judges hosts of the running cluster, and the cluster itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.kube import kube_bench
from tests.rack.entering import enter_command
from tests.rack.kubernetes.cluster import MEMBERS, NODES, Cluster, of_whole_life

FOLDER = "/opt/kube-bench"


def test_each_control_is_passed_or_has_its_reason(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "kube-bench"
    kube_bench.install(folder)
    packed = subprocess.run(["tar", "-C", tmp_path, "-cf", "-", folder.name], capture_output=True, check=True)
    # The same roles make all of them: without the option a member that joined, and a node.
    members, nodes = (MEMBERS, NODES) if of_whole_life() else (MEMBERS[-1:], NODES[:1])
    for host in (*members, *nodes):
        words = enter_command(cluster.site.lab.rack, host, "tar", "-C", "/opt", "-xf", "-")
        assert words is not None, f"{host} does not run"
        subprocess.run(words, input=packed.stdout, check=True)
    found = kube_bench.judge_cluster(cluster.site.lab.sh, members, nodes, FOLDER)
    assert found == [], "\n".join(found)
