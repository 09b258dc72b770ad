"""The inventory plugin `shared_yaml` against Ansible's own `yaml`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpufleet.checks import validate
from gpufleet.plan import build_plan
from gpufleet.racks.inventory import build_inventory
from gpufleet.racks.inventory_text import render
from tests.programs import ROOT

PLUGINS = ROOT / "gpufleet" / "racks" / "configure" / "inventory"


def listed(inventory: Path, plugin: str) -> tuple[str, str]:
    """What ansible-inventory prints of a file with only this plugin, and its warnings."""
    env = os.environ | {"ANSIBLE_INVENTORY_PLUGINS": str(PLUGINS), "ANSIBLE_INVENTORY_ENABLED": plugin}
    program = Path(sys.executable).with_name("ansible-inventory")
    done = subprocess.run(
        [program, "-i", inventory, "--list"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.replace(plugin, "<plugin>")


def test_inventory_of_prod_is_read_as_by_ansible(tmp_path: Path) -> None:
    validated = validate("prod", root=ROOT)
    plan = build_plan(validated.loaded.spec, validated.catalog)
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(render(build_inventory(plan, validated.catalog)))
    ours = listed(inventory, "shared_yaml")
    assert ours == listed(inventory, "yaml")
    assert "dgx001" in json.loads(ours[0])["_meta"]["hostvars"]


@pytest.mark.parametrize("text", ["- a list", "all: [", "plugin: yaml\n"])
def test_bad_inventory_is_reported_as_by_ansible(tmp_path: Path, text: str) -> None:
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(text)
    ours = listed(inventory, "shared_yaml")
    assert ours == listed(inventory, "yaml")
    assert "Unable to parse" in ours[1]


SCRIPT = f"""
import copy, sys
sys.path.insert(0, {str(PLUGINS)!r})
from ansible.parsing.dataloader import DataLoader
import shared_yaml
text = "tasks: [{{name: first, when: [a, b]}}, {{number: 3, share: 0.5}}]"
read = DataLoader().load(text, "/book.yml")
copied = copy.deepcopy(read)
assert copied == read and type(copied) is type(read)
copied["tasks"][0]["when"].append("c")
copied["tasks"][1]["number"] = 4
assert read["tasks"] == [{{"name": "first", "when": ["a", "b"]}}, {{"number": 3, "share": 0.5}}]
assert copied["tasks"][0]["name"] is read["tasks"][0]["name"]
"""


def test_copies_share_texts_and_no_lists() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
