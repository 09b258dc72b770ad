"""No panel is empty: a Prometheus with a rack's series and the role's rules runs every query."""

from __future__ import annotations

import json
import math
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.rack.plugins.filter.dashboards import BOARDS, dashboard

from tests.rack.lab import fleet_text
from tests.unit.ansible.rendering import Site

from . import simulated

pytestmark = pytest.mark.daemon

MONITORING = """\
    ownership: { acquisition: 262800 USD, lifetime: 5 y }
    monitoring: {}
    racks: [{ name: r1, nodes: "dgx[01-02]" }, { name: r2, nodes: "dgx[03-04]" }]
"""
NAMES = [board.name for board in BOARDS]


class Prometheus:
    """One that runs on loopback."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/api/v1/"

    def query(self, expression: str, **more: Any) -> list[dict[str, Any]]:
        """The current samples of an expression."""
        words = urllib.parse.urlencode({"query": plain(expression), **more})
        with urllib.request.urlopen(f"{self.url}query?{words}", timeout=30) as answer:
            return list(json.load(answer)["data"]["result"])


def plain(expression: str) -> str:
    """A query as Grafana sends it when all nodes are chosen."""
    return expression.replace("$__rate_interval", "5m").replace("$instance", ".+")


def rule_files(folder: Path) -> list[Path]:
    """The rules as the role writes them for a rack, in a folder."""
    site = Site(fleet_text(more=MONITORING), folder)
    found = []
    for path, item in site.rendered("ctl02", "prometheus", "debian_12").items():
        if path.startswith("/etc/prometheus/gpufleet/") and item.text:
            found.append(folder / path.rpartition("/")[2])
            found[-1].write_text(item.text)
    return found


@contextmanager
def running(folder: Path, rules: list[Path], hours: float) -> Iterator[Prometheus]:
    """A Prometheus with simulated series of so many hours until now (0: what the folder has), which evaluates
    the rules every second."""
    series, data = folder / "series.txt", folder / "data"
    if hours:
        series.write_text(simulated.openmetrics(time.time(), hours))
        make = ["promtool", "tsdb", "create-blocks-from", "openmetrics", series, data]
        subprocess.run(make, check=True, capture_output=True, timeout=300)
    config = {"global": {"evaluation_interval": "1s"}, "rule_files": list(map(str, rules))}
    (folder / "prometheus.yml").write_text(json.dumps(config))
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={data}"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stderr=log)
    try:
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait(30)


def wait_for(prometheus: Prometheus, expression: str) -> None:
    """Wait until a query has a result."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        try:
            if prometheus.query(expression):
                return
        except (urllib.error.URLError, ConnectionError):
            pass
        time.sleep(0.2)
    raise AssertionError(f"{expression} has no answer")


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    with running(folder, rule_files(folder), hours=1.5) as made:
        wait_for(made, "gpufleet:gpu_cost_per_hour")
        wait_for(made, "gpufleet:gpus_held_idle:count")
        wait_for(made, 'ALERTS{alertname="GpuEccUncorrectable", alertstate="firing"}')
        wait_for(made, 'ALERTS{alertname="GpuXid", alertstate="firing"}')
        yield made


def panels(name: str) -> list[dict[str, Any]]:
    return [panel for panel in json.loads(dashboard(name))["panels"] if panel["type"] != "row"]


@pytest.mark.parametrize("name", NAMES)
def test_every_query_of_every_panel_has_samples(prometheus: Prometheus, name: str) -> None:
    empty = []
    for panel in panels(name):
        assert panel["targets"]
        for target in panel["targets"]:
            found = prometheus.query(target["expr"])
            if not [item for item in found if math.isfinite(float(item["value"][1]))]:
                empty.append(f"{panel['title']}: {target['expr']}")
    assert empty == []


@pytest.mark.parametrize("name", NAMES)
def test_table_columns_are_labels_and_legends_use_existing_labels(prometheus: Prometheus, name: str) -> None:
    for panel in panels(name):
        for target in panel["targets"]:
            labels = set(prometheus.query(target["expr"])[0]["metric"]) | {"Value"}
            if panel["type"] == "table":
                (columns,) = [each for each in panel["transformations"] if each["id"] == "filterFieldsByName"]
                assert set(columns["options"]["include"]["names"]) <= labels, panel["title"]
            else:
                named = {part.split("}}")[0] for part in target["legendFormat"].split("{{")[1:]}
                assert named <= labels, panel["title"]


def test_query_of_a_missing_metric_is_found(prometheus: Prometheus) -> None:
    assert prometheus.query("DCGM_FI_DEV_GPU_TMP") == []


def test_alert_rules_find_the_simulated_faults(prometheus: Prometheus) -> None:
    firing = prometheus.query('ALERTS{alertstate="firing"}')
    found = {(item["metric"]["alertname"], item["metric"].get("instance")) for item in firing}
    # Alerts with a `for` duration do not fire yet.
    assert {("GpuXid", "dgx02"), ("GpuEccUncorrectable", "dgx02")} <= found
    assert ("GpuXid", "dgx01") not in found
    (seen,) = prometheus.query("sum(gpufleet:gpus_seen:count)")
    assert float(seen["value"][1]) == 32
    (cost,) = prometheus.query("gpufleet:ownership_cost_per_hour")
    # 262,800 USD over 43,800 hours are 6 USD an hour for each of four nodes.
    assert float(cost["value"][1]) == 24
    watts = {
        item["metric"]["instance"]: float(item["value"][1])
        for item in prometheus.query("gpufleet:node_watts:sum")
    }
    assert 4600 + 8 * 60 < watts["dgx04"] < 4600 + 8 * 90


@pytest.mark.parametrize("name", NAMES)
def test_dashboards_are_valid_for_grafana(name: str) -> None:
    text = dashboard(name)
    board = json.loads(text)
    assert board["uid"] == f"gpufleet-{name}" and board["schemaVersion"] == 39
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        grid = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not cells & taken and max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells
        assert panel["title"]
        assert len({target["refId"] for target in panel.get("targets", ())}) == len(panel.get("targets", ()))
    used = "$instance" in "".join(target["expr"] for panel in panels(name) for target in panel["targets"])
    assert used == bool(board["templating"]["list"])
