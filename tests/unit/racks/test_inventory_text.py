"""The inventory as text: the same as a YAML library writes, and in a time that grows with the hosts."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufleet.checks import validate
from gpufleet.plan import build_plan
from gpufleet.racks.inventory import build_inventory
from gpufleet.racks.inventory_text import group_members, render
from gpufleet.yaml_text import dump_yaml

ROOT = Path(__file__).resolve().parents[3]
SITE = """\
  - site: dc{site}
    system: dgx-h100
    nodes: s{site}n[00001-{nodes:05}]
    fabric: {{kind: infiniband, speed: ndr}}
    controllers: s{site}ctl01
    power: {{per_rack: 40 kW, pue: 1.25, price: 0.11 USD/kWh}}
"""
TEXTS = (
    *("a", "yes", "No", "null", "1", "1.5", "1:30", "10.0.0.1", "2026-01-01", "0x1f", "=", "<<", "-", ""),
    *(" a", "a: b", "a #b", "é", "{a}", "*a", "&a", "!a", "%a", "@a", "it's", '"q"', "a" * 200, "on.x", "~"),
    *("y", "a/b", "1e3", "a ", "a:", "?", "1_000", "010", "+1", ".5", "-x", "NaN", ".nan"),
)
VALUES: tuple[Any, ...] = (None, True, False, 0, -5, 1.5, [], {}, [[]], [["a"], ["b", {"c": 1}]], *TEXTS)


def fleet(path: Path, sites: int, nodes: int) -> Path:
    head = (
        "apiVersion: gpufleet/v1\nfleet: atlas\nenvironment: big\nbudget: {monthly: 90000000000 USD}\n"
        "tags: {team: ml, cost-center: cc-1, project: atlas}\nsoftware: {channel: 2026.11}\nonprem:\n"
    )
    path.write_text(head + "".join(SITE.format(site=site, nodes=nodes) for site in range(sites)))
    return path


def tree(dice: random.Random, depth: int) -> Any:
    if depth == 0 or dice.random() < 0.3:
        return dice.choice(VALUES)
    if dice.random() < 0.3:
        return [tree(dice, depth - 1) for _ in range(dice.randrange(4))]
    # Empty keys and those of more than 128 characters have a form of their own there.
    keys = [text for text in TEXTS if 0 < len(text) < 100]
    return {dice.choice(keys): tree(dice, depth - 1) for _ in range(dice.randrange(4))}


@pytest.mark.parametrize("environment", ["dev", "prod", "sandbox"])
def test_text_equals_that_of_a_yaml_library(environment: str) -> None:
    validated = validate(environment, root=ROOT)
    document = build_inventory(build_plan(validated.loaded.spec, validated.catalog), validated.catalog)
    assert render(document).partition("\n")[2] == dump_yaml(document)


@pytest.mark.parametrize("seed", range(200))
def test_any_value_is_written_as_by_a_yaml_library(seed: int) -> None:
    document = {"all": {"vars": tree(random.Random(seed), 5)}}
    assert render(document).partition("\n")[2] == dump_yaml(document)
    assert yaml.safe_load(render(document)) == document


@pytest.mark.parametrize("text", ["a\nb", "\n", "a\n\n  b\n", "x: y\n- z", "\ttab\n", "\u2028\n"])
def test_multiline_texts_round_trip_at_any_depth(text: str) -> None:
    document = {"all": {"children": {"a": {"hosts": {"h": {"v": text, "l": [text, {"k": text}]}}}}}}
    assert yaml.safe_load(render(document)) == document


def test_run_time_grows_linearly_with_the_hosts(tmp_path: Path) -> None:
    def work(nodes: int) -> float:
        path = fleet(tmp_path / f"{nodes}.yaml", 2, nodes)
        begun = time.process_time()
        validated = validate(str(path), root=tmp_path)
        document = build_inventory(build_plan(validated.loaded.spec, validated.catalog), validated.catalog)
        assert len(group_members(document)["all"]) == 2 * nodes + 2
        render(document)
        return time.process_time() - begun

    work(10)  # the catalog is read once
    small = min(work(900) for _ in range(3))
    # Quadratic time in the hosts of a site would be a hundredfold.
    assert work(9000) < 30 * small
