"""kube-bench judges hosts of the running cluster, and the cluster itself.

The files of a member and of a node are judged in every run, without a cluster: tests/kube/test_kube_bench.py.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.kube import kube_bench
from tests.rack.entering import enter_command
from tests.rack.kubernetes.cluster import MEMBERS, NODES, Cluster

FOLDER = "/opt/kube-bench"
pytestmark = pytest.mark.whole_life


def test_each_control_is_passed_or_has_its_reason(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "kube-bench"
    kube_bench.install(folder)
    packed = subprocess.run(["tar", "-C", tmp_path, "-cf", "-", folder.name], capture_output=True, check=True)
    for host in (*MEMBERS, *NODES):
        words = enter_command(cluster.site.lab.rack, host, "tar", "-C", "/opt", "-xf", "-")
        assert words is not None, f"{host} does not run"
        subprocess.run(words, input=packed.stdout, check=True)
    found = kube_bench.judge_cluster(cluster.site.lab.sh, MEMBERS, NODES, FOLDER)
    assert found == [], "\n".join(found)
