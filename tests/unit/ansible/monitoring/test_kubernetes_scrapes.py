"""What Prometheus scrapes of a Kubernetes site: all parts, verified, and only what is read."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.rack.plugins.filter.dashboards import BOARDS, dashboard

from tests.rack.lab import fleet_text
from tests.unit.ansible.rendering import Site
from tests.unit.ansible.test_kubernetes_files import MINOR, fleet

from .test_alerts import RULES, selectors

MEMBERS, NODES = ["ctl01", "ctl02", "ctl03"], ["dgx01", "dgx02", "dgx03", "dgx04"]
ADDRESSES = {name: f"10.90.0.1{number}" for number, name in enumerate(MEMBERS, start=1)} | {
    name: f"{name}.lab.example.com" for name in NODES
}
TOKEN, AUTHORITY = "/etc/prometheus/gpufleet-kubernetes-token", "/etc/prometheus/gpufleet-kubernetes-ca.crt"
PINNED = "/etc/prometheus/gpufleet-kubernetes-members.crt"
READ = {
    "prometheus__kubernetes_identity": {
        "measurements": {"token": {"stdout": "VG9rZW4="}, "authority": {"stdout": "authority\n"}}
    },
    "prometheus__kubernetes_read": {
        "results": [{"measurements": {"certificate": {"stdout": f"{name}\n"}}} for name in MEMBERS]
    },
}
# Which job has a metric, by the beginning of its name.
OWNERS = (
    ("etcd", r"etcd_"),
    ("kube-apiserver", r"apiserver_|aggregator_"),
    ("kube-controller-manager", r"node_collector_"),
    ("kube-scheduler", r"scheduler_"),
    ("kubelet", r"kubelet_"),
    ("kubelet-containers", r"container_"),
    ("coredns", r"coredns_"),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    text = fleet(MINOR).replace("    kubernetes:\n", "    monitoring: {}\n    kubernetes:\n", 1)
    return Site(text, tmp_path_factory.mktemp("site"))


Jobs = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def jobs(site: Site) -> Jobs:
    """Scrape configurations by job, on the default host of monitoring."""
    text = site.rendered("ctl03", "prometheus", "debian_12", READ)["/etc/prometheus/prometheus.yml"].text
    found: Jobs = {}
    for item in yaml.safe_load(text)["scrape_configs"]:
        (rule,) = item.get("relabel_configs", [{"target_label": "job", "replacement": item["job_name"]}])
        assert rule["target_label"] == "job"
        found.setdefault(rule["replacement"], []).append(item)
    return found


def hosts(job: list[dict[str, Any]]) -> dict[str, str]:
    """The address of each host."""
    found = [item for config in job for item in config["static_configs"]]
    assert all(len(item["targets"]) == 1 for item in found)
    return {item["labels"]["instance"]: item["targets"][0] for item in found}


def kept(job: list[dict[str, Any]]) -> str:
    """The filter of a job."""
    (rule,) = job[0]["metric_relabel_configs"]
    assert all(config["metric_relabel_configs"] == [rule] for config in job)
    assert rule["source_labels"] == ["__name__"] and rule["action"] == "keep"
    return str(rule["regex"])


def test_every_part_of_every_member_and_node_is_scraped(jobs: Jobs) -> None:
    expected = {
        "kube-apiserver": (MEMBERS, 6443),
        "etcd": (MEMBERS, 2381),
        "kube-controller-manager": (MEMBERS, 10257),
        "kube-scheduler": (MEMBERS, 10259),
        "kubelet": (MEMBERS + NODES, 10250),
        "kubelet-containers": (MEMBERS + NODES, 10250),
    }
    for job, (names, port) in expected.items():
        assert hosts(jobs[job]) == {name: f"{ADDRESSES[name]}:{port}" for name in names}, job
    assert {item["metrics_path"] for item in jobs["kubelet-containers"]} == {"/metrics/resource"}


def test_token_is_sent_only_to_servers_that_are_verified(jobs: Jobs) -> None:
    pinned = {"kube-controller-manager": PINNED, "kube-scheduler": PINNED}
    for name in ("kube-apiserver", "kubelet", "kubelet-containers", *pinned):
        for item in jobs[name]:
            # By the name of the host: its address in the fleet file may be another name.
            (host,) = hosts([item])
            assert item["job_name"] == f"{name}/{host}"
            assert item["scheme"] == "https"
            assert item["tls_config"] == {"ca_file": pinned.get(name, AUTHORITY), "server_name": host}
            assert item["authorization"] == {"credentials_file": TOKEN}
    for name in ("etcd", "coredns"):
        (item,) = jobs[name]
        assert not {"authorization", "tls_config", "scheme"} & item.keys()


def test_token_is_readable_only_by_prometheus(site: Site) -> None:
    written = site.rendered("ctl03", "prometheus", "debian_12", READ)
    token = written[TOKEN]
    assert (token.text, token.mode, token.owner, token.secret) == ("Token", "0400", "prometheus", True)
    assert written[AUTHORITY].text == "authority\n"
    assert written[PINNED].text == "ctl01\nctl02\nctl03\n"
    assert [path for path, item in written.items() if "Token" in item.text] == [TOKEN]


def test_promtool_accepts_the_configuration(site: Site, tmp_path: Path) -> None:
    for host in ("ctl03", "login01"):
        written = site.rendered(host, "prometheus", "debian_12", READ)
        for path, item in written.items():
            if path.startswith("/etc/prometheus/"):
                here = tmp_path / path.lstrip("/")
                here.parent.mkdir(parents=True, exist_ok=True)
                here.write_text(item.text.replace("/etc/prometheus/", f"{tmp_path}/etc/prometheus/"))
        done = subprocess.run(
            ["promtool", "check", "config", tmp_path / "etc/prometheus/prometheus.yml"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_only_a_host_of_the_cluster_scrapes_coredns(site: Site, jobs: Jobs) -> None:
    # The tenth address of the service network, as kubeadm gives it.
    assert jobs["coredns"][0]["static_configs"][0]["targets"] == ["10.96.0.10:9153"]
    text = site.rendered("login01", "prometheus", "debian_12", READ)["/etc/prometheus/prometheus.yml"].text
    assert "job_name: kubelet/" in text and "coredns" not in text


def test_scrapes_end_before_the_next_one_and_figures_of_hanging_runtimes_are_apart(
    jobs: Jobs, site: Site
) -> None:
    text = site.rendered("ctl03", "prometheus", "debian_12", READ)["/etc/prometheus/prometheus.yml"].text
    general = yaml.safe_load(text)["global"]
    for job in (item for items in jobs.values() for item in items):
        timeout = job.get("scrape_timeout", general["scrape_timeout"])
        interval = job.get("scrape_interval", general["scrape_interval"])
        assert int(timeout[:-1]) <= int(interval[:-1])
    # The kubelet answers without its runtime, which may take two minutes (runtimeRequestTimeout).
    assert re.fullmatch(kept(jobs["kubelet"]), "kubelet_pleg_last_seen_seconds")
    assert not re.fullmatch(kept(jobs["kubelet"]), "container_start_time_seconds")


def used() -> set[str]:
    """Metrics that rules and dashboards read."""
    expressions = [
        rule["expr"]
        for path in RULES.glob("*.yml")
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
    ]
    for board in BOARDS:
        for panel in json.loads(dashboard(board.name))["panels"]:
            expressions += [target["expr"] for target in panel.get("targets", [])]
    return {name for expression in expressions for name in selectors(expression)}


def test_what_rules_and_dashboards_read_is_kept_and_nothing_else(jobs: Jobs) -> None:
    names = used()
    for job, beginning in OWNERS:
        mine = {name for name in names if re.match(beginning, name)}
        assert mine, job
        assert [name for name in sorted(mine) if not re.fullmatch(kept(jobs[job]), name)] == [], job
    for name in ("leader_election_master_status", "rest_client_requests_total"):
        assert name in names
        assert re.fullmatch(kept(jobs["kube-scheduler"]), name)
        assert re.fullmatch(kept(jobs["kube-controller-manager"]), name)
    unread = {name for job, _ in OWNERS for name in kept(jobs[job]).split("|")} - names
    assert unread == set()


def test_site_without_kubernetes_has_no_jobs_of_it(tmp_path: Path) -> None:
    plain = Site(fleet_text(more="    monitoring: {}\n"), tmp_path)
    written = plain.rendered("ctl02", "prometheus", "debian_12")
    text = written["/etc/prometheus/prometheus.yml"].text
    assert "kube" not in text and "etcd" not in text and "coredns" not in text
    assert TOKEN not in written
    assert "kubernetes_members" not in written["/etc/prometheus/gpufleet/site.yml"].text
