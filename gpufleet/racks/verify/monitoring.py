"""Monitoring: exporters that tell something, a Prometheus that asks all of them, rules that work."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from gpufleet.racks.verify.measurements import Reading, RoleMeasurements, again
from gpufleet.racks.verify.result import Result

RULE_GROUPS = (
    "recording",
    "gpu",
    "fabric",
    "host",
    "slurm",
    "kubernetes",
    "etcd",
    "power",
    "monitoring",
    "site",
)
"""Groups of rules, as the role prometheus names them after `gpufleet-`."""

DASHBOARDS = ("fleet", "node", "fabric", "cost", "power")


def node_exporter(found: RoleMeasurements) -> Iterator[Result]:
    """The exporter responds, and its textfile folder can be read."""

    def metrics(text: str) -> Reading:
        if "node_uname_info" not in text:
            return Reading("nothing", "node_uname_info is missing")
        if re.search(r"^node_textfile_scrape_error [1-9]", text, re.M):
            return Reading("an unreadable file", "a *.prom file in its folder cannot be read")
        failed = re.findall(r'^node_scrape_collector_success\{collector="(systemd|textfile)"\} 0', text, re.M)
        return Reading("answers", f"its collectors {', '.join(failed)} fail" if failed else "")

    yield found.expect(
        "metrics", "metrics", metrics, expected="answers", remedy="systemctl status prometheus-node-exporter"
    )


def slurm_exporter(found: RoleMeasurements) -> Iterator[Result]:
    """The exporter runs, and all Slurm commands respond."""
    yield found.active("service", "service", "gpufleet-slurm-exporter")

    def sources(text: str) -> Reading:
        states = dict(re.findall(r'source="(\w+)"\} (\d)', text))
        silent = sorted(name for name, state in states.items() if state != "1")
        problem = (
            f"no response of {', '.join(silent)}" if silent else "" if states else "it reports no sources"
        )
        return Reading(f"{len(states) - len(silent)} of {len(states)} answer", problem)

    yield found.expect(
        "sources", "sources", sources, expected="all answer", remedy="journalctl -u gpufleet-slurm-exporter"
    )


def alertmanager(found: RoleMeasurements) -> Iterator[Result]:
    """Alertmanager runs with a valid configuration (amtool), and only its user can read its secrets."""
    yield found.active("service", "service", "prometheus-alertmanager")
    yield found.runs("configuration", "config", remedy=again(found))
    yield found.same("secrets", "secret_mode", "prometheus 600", remedy=again(found))
    yield found.same("ready", "ready", "200", remedy="journalctl -u prometheus-alertmanager")


def prometheus(found: RoleMeasurements) -> Iterator[Result]:
    """It runs on loopback, every target answers, every group of rules is there and works."""
    yield found.active("service", "service", "prometheus")
    yield found.runs("configuration", "config", remedy=again(found))
    port = found.value("port", 9090)

    def loopback(text: str) -> Reading:
        listening = [line.split()[3] for line in text.splitlines() if len(line.split()) > 3]
        mine = [address for address in listening if address.endswith(f":{port}")]
        outside = [each for each in mine if not each.startswith(("127.", "[::1]"))]
        if not mine:
            return Reading("nothing", f"no process listens on port {port}")
        return Reading(", ".join(mine), f"it listens on {', '.join(outside)}" if outside else "")

    yield found.expect("listens", "listens", loopback, expected="loopback only", remedy=again(found))

    def targets(text: str) -> Reading:
        seen = json.loads(text)["targets"]
        silent = [f"{job} of {host} ({error})" for job, host, health, error in seen if health != "up"]
        wanted = {item["name"] for item in found.value("targets", [])}
        missing = sorted(wanted - {host for job, host, _, _ in seen if job == "node"})
        problems = [f"never asked: {', '.join(missing)}"] if missing else []
        problems += [f"no answer: {'; '.join(silent)}"] if silent else []
        return Reading(f"{len(seen) - len(silent)} of {len(seen)} answer", "; ".join(problems))

    yield found.expect(
        "targets", "api", targets, expected="all answer", remedy="see the exporters on the hosts it names"
    )

    def rules(text: str) -> Reading:
        answer = json.loads(text)
        missing = [name for name in RULE_GROUPS if not answer["rules"].get(f"gpufleet-{name}")]
        problems = [f"without rules of {', '.join(missing)}"] if missing else []
        problems += [f"{', '.join(answer['broken_rules'])} fail"] if answer["broken_rules"] else []
        return Reading(f"{sum(answer['rules'].values())} rules", "; ".join(problems))

    yield found.expect("rules", "api", rules, expected="all rules work", remedy=again(found))

    def receivers(text: str) -> Reading:
        count = int(json.loads(text)["alertmanagers"])
        return Reading(str(count), "" if count else "it has no Alertmanager: no alert is delivered")

    yield found.expect("alertmanager", "api", receivers, expected="1", remedy=again(found))


def grafana(found: RoleMeasurements) -> Iterator[Result]:
    """Grafana runs with its database and all dashboards. Its admin has the password of the file, which no
    other user can read."""
    yield found.active("service", "service", "grafana-server")
    yield found.same("password", "secret_mode", "grafana 400", remedy=again(found))
    # The start of the service sets the password of an existing database.
    yield found.same("login", "login", "200", remedy="systemctl restart grafana-server, and its journal")

    def dashboards(text: str) -> Reading:
        there = {name.removesuffix(".json") for name in text.split()}
        wanted = (*DASHBOARDS, *found.value("dashboards", ["jobs"]))
        missing = [name for name in wanted if name not in there]
        return Reading(f"{len(there)} dashboards", f"without {', '.join(missing)}" if missing else "")

    yield found.expect("dashboards", "dashboards", dashboards, expected="all", remedy=again(found))

    def healthy(text: str) -> Reading:
        state = str(json.loads(text)["database"])
        return Reading(state, "" if state == "ok" else f"its database is {state}")

    yield found.expect("health", "health", healthy, expected="ok", remedy="journalctl -u grafana-server")
