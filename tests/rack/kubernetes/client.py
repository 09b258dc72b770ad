"""A client of the cluster's API that writes and reads while something else happens."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.rack.kubernetes.cluster import ENDPOINT, MEMBERS, NODES, Cluster

HOST = NODES[0]
FOLDER = "/run/writer"
PROGRAM = Path(__file__).with_name("writer.py")
KEYS = {
    "ca.crt": "certificate-authority-data",
    "admin.crt": "client-certificate-data",
    "admin.key": "client-key-data",
}
START = """\
cat >writer.py <<'END'
{program}END
systemd-run -q --unit=writer python3 {folder}/writer.py https://{endpoint}:6443 {folder}
"""
END = f"""\
touch {FOLDER}/end
for try in $(seq 2000); do systemctl -q is-active writer || break; sleep 0.1; done
cat {FOLDER}/log
systemctl stop writer 2>/dev/null || true
rm -rf {FOLDER}
"""


@dataclass
class Written:
    """Numbers of acknowledged writes, those that a read did not give, and the longest pause in seconds."""

    acknowledged: set[int] = field(default_factory=set)
    not_read: set[int] = field(default_factory=set)
    pause_s: float = 0.0


@contextmanager
def writing(cluster: Cluster) -> Iterator[Written]:
    """A client on a node writes meanwhile, to the cluster's address; the result is complete afterwards."""
    lab = cluster.site.lab
    config = lab.sh(MEMBERS[0], "cat /etc/kubernetes/admin.conf")
    values = dict(re.findall(r"^\s*(\S+-data): (\S+)$", config, re.MULTILINE))
    lab.sh(
        HOST,
        f"rm -rf {FOLDER}; mkdir -m 700 {FOLDER}; cd {FOLDER}\n"
        + "".join(f"base64 -d >{file} <<<'{values[name]}'\n" for file, name in KEYS.items())
        + START.format(program=PROGRAM.read_text(), folder=FOLDER, endpoint=ENDPOINT),
    )
    written = Written()
    try:
        yield written
    finally:
        entries = [json.loads(line) for line in lab.sh(HOST, END).splitlines()]
        written.acknowledged = {entry["n"] for entry in entries}
        written.not_read = {entry["n"] for entry in entries if not entry["read"]}
        times = [entry["at"] for entry in entries]
        written.pause_s = max((after - before for before, after in itertools.pairwise(times)), default=0.0)


def lost(cluster: Cluster, written: Written) -> set[int]:
    """Acknowledged writes that the cluster does not have. Deletes the objects."""
    assert len(written.acknowledged) > 1, "the client wrote nothing"
    items = cluster.get("configmaps", "-l", "writer=test")["items"]
    cluster.kubectl("delete", "configmaps", "-l", "writer=test", "--wait=false")
    return written.acknowledged - {int(item["data"]["n"]) for item in items}
