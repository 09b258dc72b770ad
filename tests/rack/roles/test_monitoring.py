"""Monitoring on a rack: all queries have results, and a GPU fault reaches the receiver of alerts."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.rack.lab import Lab
from tests.rack.roles.proof import RoleRuns, play, prove
from tests.rack.site import ArgumentWatcher

NODES = ("dgx01", "dgx02")
BOOK = "playbooks/monitoring.yml"
ROLES = ("node_exporter", "slurm_exporter", "alertmanager", "prometheus")
WEBHOOK = """\
import http.server, pathlib
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with pathlib.Path("/run/webhook").open("a") as record:
            record.write(self.headers.get("Authorization", "") + " " + body + "\\n")
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", 9999), Handler).serve_forever()
"""


@dataclass
class MonitoredRack:
    """A rack with a controller and two GPU nodes, and the result of `monitoring.yml`."""

    lab: Lab
    proof: RoleRuns
    secrets: dict[str, str]
    arguments: ArgumentWatcher

    @property
    def token(self) -> str:
        """Token and body of the webhook."""
        return self.secrets["GPUFLEET_SECRET_WEBHOOK_TOKEN_LAB"]

    def ask(self, path: str) -> Any:
        """Response of Prometheus' API."""
        return json.loads(self.lab.sh("ctl01", f"curl -sSfg '127.0.0.1:9090/api/v1/{path}'"))["data"]

    def value(self, query: str) -> dict[str, float]:
        """The samples of a query without a blank, by instance: one of each."""
        found = self.ask(f"query?query={query}")["result"]
        samples = {item["metric"].get("instance", ""): float(item["value"][1]) for item in found}
        assert len(samples) == len(found), found
        return samples


def until(true: Callable[[], Any], timeout_s: float = 300) -> Any:
    """The output of `true` once there is any; fails with the last one."""
    end = time.monotonic() + timeout_s
    while not (shown := true()):
        assert time.monotonic() < end, shown
        time.sleep(1)
    return shown


@pytest.fixture(scope="module")
def monitored(gpu_rack: Lab) -> Iterator[MonitoredRack]:
    """The shared rack with DCGM and Slurm, then with monitoring: check run, run, and a second run."""
    lab = gpu_rack
    lab.reset(name="bare")
    for node in NODES:
        lab.sh(node, "apt-get -qq install -y nvidia-open >/dev/null 2>&1; nvidia-smi -L >/dev/null")
    made = {
        "GPUFLEET_SECRET_MUNGE_KEY_LAB": secrets.token_hex(64),
        "GPUFLEET_SECRET_DATABASE_PASSWORD_LAB": secrets.token_hex(16),
        "GPUFLEET_SECRET_WEBHOOK_TOKEN_LAB": secrets.token_hex(16),
        "GPUFLEET_SECRET_REMOTE_WRITE_PASSWORD_LAB": secrets.token_hex(16),
        "GPUFLEET_SECRET_SMTP_PASSWORD_LAB": secrets.token_hex(16),
    }
    assert not lab.run("playbooks/base.yml", tags=["always"]).failures
    quick = {"slurm_controller_health_check": False}
    done = play(lab, "playbooks/slurm.yml", secrets=made, variables=quick)
    assert not done.result.failures, done.messages()
    done = play(lab, ["dcgm"], ",".join(NODES), variables={"dcgm_exporter_interval_s": 5})
    assert not done.result.failures, done.messages()
    lab.sh(
        "ctl01",
        f"apt-get -qq install -y curl >/dev/null; cat >/run/hook.py <<'END'\n{WEBHOOK}END\n"
        "systemd-run -q --unit=hook python3 /run/hook.py",
    )
    with ArgumentWatcher(list(made.values())) as arguments:
        proof = prove(lab, BOOK, secrets=made)
    yield MonitoredRack(lab, proof, made, arguments)


def test_exporters_run_on_all_hosts_and_the_rest_on_the_monitoring_host(monitored: MonitoredRack) -> None:
    changed = monitored.proof.first.changed
    hosts_of = {role: {h for h, task in changed if task.startswith(f"{role} :")} for role in ROLES}
    assert hosts_of == {
        "node_exporter": {"ctl01", *NODES},
        "slurm_exporter": {"ctl01"},
        "alertmanager": {"ctl01"},
        "prometheus": {"ctl01"},
    }
    assert {task.split(" : ")[0] for _, task in changed} == set(ROLES)


def test_every_target_answers_with_the_host_name(monitored: MonitoredRack) -> None:
    def all_up() -> list[dict[str, Any]]:
        found = monitored.ask("targets")["activeTargets"]
        return found if all(item["health"] == "up" for item in found) else []

    targets = until(all_up)
    seen = {(item["labels"]["job"], item["labels"]["instance"]) for item in targets}
    nodes = {(job, node) for job in ("node", "dcgm") for node in NODES}
    here = {(job, "ctl01") for job in ("node", "slurm", "prometheus", "alertmanager")}
    assert seen == nodes | here
    assert {item["labels"].get("rack") for item in targets if item["labels"]["instance"] == "dgx01"} == {"r1"}


def test_all_rules_work(monitored: MonitoredRack) -> None:
    def all_ok() -> list[dict[str, Any]]:
        found = monitored.ask("rules")["groups"]
        return found if all(rule["health"] == "ok" for group in found for rule in group["rules"]) else []

    groups = until(all_ok)
    assert len(groups) == 10
    assert sum(len(group["rules"]) for group in groups) > 110


def test_gpus_ports_power_and_slurm_are_measured(monitored: MonitoredRack) -> None:
    lab = monitored.lab
    each = dict.fromkeys(NODES, 8.0)
    assert until(lambda: monitored.value("count(DCGM_FI_DEV_GPU_TEMP)by(instance)") == each)
    assert until(lambda: monitored.value("gpufleet:ports_up:sum") == each)
    power = until(lambda: monitored.value("gpufleet:node_watts:sum"))
    # 4,600 W of a node that is not GPUs, and eight GPUs that idle.
    assert set(power) == set(NODES) and all(4600 < watts < 10_200 for watts in power.values())
    # No Slurm job: a node that an administrator drains, and the controller.
    lab.sh("ctl01", "scontrol update nodename=dgx02 state=drain reason='a \"loud\" fan'")
    query = "slurm_node_unavailable_since_seconds"
    drained = until(lambda: monitored.ask(f"query?query={query}")["result"])
    assert [item["metric"]["node"] for item in drained] == ["dgx02"]
    assert drained[0]["metric"]["reason"] == 'a "loud" fan'
    assert abs(float(drained[0]["value"][1]) - time.time()) < 300
    lab.sh("ctl01", "scontrol update nodename=dgx02 state=resume")
    sources = until(lambda: monitored.ask("query?query=slurm_exporter_source_up")["result"])
    assert {item["metric"]["source"]: item["value"][1] for item in sources} == dict.fromkeys(
        ("ping", "nodes", "jobs", "scheduler", "sacct"), "1"
    )
    gpus = monitored.ask('query?query=slurm_gpus{partition=""}')["result"]
    assert gpus[0]["value"][1] == "16"


def test_running_and_pending_jobs_are_in_the_slurm_metrics(monitored: MonitoredRack) -> None:
    lab = monitored.lab
    submit = "sbatch --parsable --output=/dev/null --gres=gpu:8 --wrap 'sleep 600'"
    lab.sh("ctl01", f"for job in 1 2 3; do {submit} -N1; done")
    try:
        assert until(lambda: [*monitored.value('slurm_gpus_allocated{partition=""}').values()] == [16])
        assert until(lambda: [*monitored.value("slurm_jobs_pending_gpus").values()] == [8])
        assert until(lambda: monitored.ask("query?query=slurm_job_pending_age_seconds")["result"])
    finally:
        lab.sh("ctl01", "scancel -u root")


def test_only_exporters_listen_beyond_loopback_and_secrets_are_private(
    monitored: MonitoredRack,
) -> None:
    listening = monitored.lab.sh("ctl01", "ss -Hlnt").splitlines()
    ports = {line.split()[3].rpartition(":")[2]: line.split()[3].rpartition(":")[0] for line in listening}
    assert {ports[port] for port in ("9090", "9093", "9341")} == {"127.0.0.1"}
    assert ports["9100"] == monitored.lab.rack.site.host("ctl01").ip
    assert monitored.lab.sh("ctl01", "stat -c '%U %a' /etc/prometheus/alertmanager.yml") == "prometheus 600\n"
    # Only in the files of their owners: not in arguments, run output or logs.
    assert monitored.arguments.looks > 20
    assert monitored.arguments.found == set()
    planted = [value for name, value in monitored.secrets.items() if "WEBHOOK" in name or "PASSWORD" in name]
    proof = monitored.proof
    shown = str([proof.check, proof.first, proof.second])
    assert "alertmanager" in shown and not any(value in shown for value in planted)
    patterns = "\n".join(planted)
    found = monitored.lab.sh(
        "ctl01",
        f"umask 077; cat >/run/patterns <<'END'\n{patterns}\nEND\n"
        "grep -rlF -f /run/patterns /etc /var /usr/local /opt /home /root /tmp /srv 2>/dev/null | "
        "xargs -r stat -c '%n %a %U' | sort; journalctl -o cat | grep -cF -f /run/patterns || true; "
        "grep -oF -f /run/patterns /etc/prometheus/alertmanager.yml | wc -l; rm /run/patterns",
    ).splitlines()
    *files, in_journal, told_with = found
    assert (in_journal, told_with) == ("0", "2")
    assert {"/etc/prometheus/alertmanager.yml 600 prometheus"} < set(files)
    assert [line for line in files if not re.search(r" [46]00 (prometheus|slurm|root)$", line)] == []


def test_xid_alert_fires_and_is_sent_with_the_token_and_is_the_only_gpu_alert(
    monitored: MonitoredRack,
) -> None:
    lab = monitored.lab
    firing = 'query?query=ALERTS{alertname=~"Gpu.*|Nvlink.*|Infiniband.*",alertstate="firing"}'
    assert monitored.ask(firing)["result"] == []
    lab.hardware("dgx02").xid(48, gpu=5)
    fired = until(lambda: monitored.ask(firing)["result"])
    assert [
        (item["metric"]["alertname"], item["metric"]["instance"], item["metric"]["gpu"]) for item in fired
    ] == [("GpuXid", "dgx02", "5")]
    reported = until(lambda: lab.sh("ctl01", "grep GpuXid /run/webhook || true"))
    authorization, _, body = reported.splitlines()[0].partition(" {")
    assert authorization == f"Bearer {monitored.token}"
    (alert,) = json.loads("{" + body)["alerts"]
    assert alert["annotations"]["summary"] == "GPU 5 of dgx02 had Xid 48 in the last hour"
    assert alert["labels"]["site"] == "lab"
    lab.hardware("dgx02").restore(lab.healthy["dgx02"])
