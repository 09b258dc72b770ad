"""Pictures of the dashboards with simulated series, for people to look at. No test runs this.

    npm pack uplot && tar xzf uplot-*.tgz
    PYTHONPATH=.:gpufleet/collections python -m tests.unit.ansible.monitoring.shots package/dist OUT

Queries are those of the dashboards, answered by a real Prometheus; a page of our own draws them in Chromium
with uPlot, which Grafana draws its graphs with. It is not Grafana: what only Grafana reads is not looked at.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpufleet.rack.plugins.filter.dashboards import BOARDS, dashboard

from tests.unit.ansible.monitoring import test_dashboards as real

HOURS = 6
PAGE = Path(__file__).with_name("shots.html")


def ranged(prometheus: real.Prometheus, expression: str, now: float) -> list[dict[str, Any]]:
    """The series of a query in the time that is shown."""
    words = {"query": real.plain(expression), "start": now - HOURS * 3600, "end": time.time(), "step": 60}
    with urllib.request.urlopen(f"{prometheus.url}query_range?{urllib.parse.urlencode(words)}") as answer:
        return list(json.load(answer)["data"]["result"])


def answered(prometheus: real.Prometheus, name: str, now: float) -> dict[str, Any]:
    """A dashboard with what its queries say."""
    board = json.loads(dashboard(name))
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            found = ranged(prometheus, target["expr"], now) if target["range"] else None
            target["result"] = prometheus.query(target["expr"]) if found is None else found
            if not target["result"]:
                print(f"{name}: {panel['title']} is empty: {target['expr']}")  # noqa: T201
    return dict(board)


def backfill(folder: Path, prometheus: real.Prometheus, rules: Path, now: float) -> None:
    """Write the results that recording rules give for the past, from series that are there."""
    url = prometheus.url.removesuffix("/api/v1/")
    span = [f"--start={now - HOURS * 3600:.0f}", f"--end={now - 60:.0f}", "--eval-interval=120s"]
    command = ["promtool", "tsdb", "create-blocks-from", "rules", f"--url={url}", *span]
    subprocess.run([*command, f"--output-dir={folder}/data", rules], check=True, capture_output=True)


def made_in_passes(folder: Path) -> list[Path]:
    """Files of recording rules, each made of what those before it record: Prometheus reads new blocks when it
    starts. The site's figures are first."""
    rules = yaml.safe_load((folder / "recording.yml").read_text())["groups"][0]["rules"]
    done, files = set(), [folder / "site.yml"]
    while rules:
        names = {rule["record"] for rule in rules}
        ready = [rule for rule in rules if not any(name in rule["expr"] for name in names)]
        done |= {rule["record"] for rule in ready}
        rules = [rule for rule in rules if rule["record"] not in done]
        files.append(folder / f"pass{len(files)}.rules")
        files[-1].write_text(yaml.safe_dump({"groups": [{"name": "pass", "rules": ready}]}))
    return files


def shoot(board: dict[str, Any], uplot: Path, out: Path) -> None:
    """A picture of one dashboard."""
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"])
    text = PAGE.read_text()
    for mark, found in (
        ("/*STYLE*/", (uplot / "uPlot.min.css").read_text()),
        ("/*UPLOT*/", (uplot / "uPlot.iife.min.js").read_text()),
        ("/*BOARD*/null", json.dumps(board)),
    ):
        text = text.replace(mark, found)
    page = out / f"{board['uid']}.html"
    page.write_text(text)
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--window-size=1600,{rows * 36 + 60}", "--virtual-time-budget=4000"]
    subprocess.run(
        [*command, f"--screenshot={page.with_suffix('.png')}", page.as_uri()], check=True, timeout=120
    )


def main(uplot: Path, out: Path) -> None:
    """All dashboards."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rules = real.rule_files(folder)
        now = time.time()
        passes = made_in_passes(folder)
        for step in range(len(passes) + 1):
            with real.running(folder, rules, HOURS if step == 0 else 0) as prometheus:
                real.wait_for(prometheus, "gpufleet:gpu_cost_per_hour")
                real.wait_for(prometheus, 'ALERTS{alertstate="firing"}')
                if step < len(passes):
                    backfill(folder, prometheus, passes[step], now)
                    continue
                for board in BOARDS:
                    shoot(answered(prometheus, board.name, now), uplot, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
