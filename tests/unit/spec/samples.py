"""A checkout with one environment, and the loader's findings for its fleet file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufleet.errors import SpecError
from gpufleet.findings import Finding
from gpufleet.spec.load import LoadedFleet, load_fleet
from tests.unit.spec.remedies import useless

ROOT = Path(__file__).resolve().parents[3]

VALID = """\
apiVersion: gpufleet/v1
fleet: atlas
environment: demo
budget: {monthly: 1000 USD}
tags: {team: ml, cost-center: 4711, project: atlas}
cloud:
  - site: use1
    region: us-east-1
    zones: [us-east-1a]
    network: {cidr: 10.0.0.0/16}
    kubernetes: {version: 1.30}
    node_groups:
      - name: serve
        instance_types: [g6.xlarge]
        capacity: {on_demand: {min: 1, max: 2}}
        labels: {nvidia.com/gpu: true}
    storage:
      - name: scratch
        mount: /fsx/scratch
        lustre: {deployment: scratch-2, capacity: 1200 GiB}
onprem:
  - site: dc1
    system: dgx-h100
    nodes: dgx[01-04]
    fabric: {kind: infiniband, speed: ndr}
    power: {per_rack: 40 kW, pue: 1.25, price: 0.11 USD/kWh}
software: {channel: 2026.10}
"""


@dataclass(frozen=True)
class Checkout:
    """A folder with `stacks/demo/fleet.yaml` in it."""

    root: Path

    @property
    def path(self) -> Path:
        return self.root / "stacks" / "demo" / "fleet.yaml"

    def write(self, text: str | bytes, name: str = "stacks/demo/fleet.yaml") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def load(self, text: str | bytes) -> LoadedFleet:
        self.write(text)
        return load_fleet("demo", root=self.root)

    def findings(self, text: str | bytes) -> list[Finding]:
        """The findings of a file that must not load."""
        self.write(text)
        with pytest.raises(SpecError) as caught:
            load_fleet("demo", root=self.root)
        found = list(caught.value.findings)
        if isinstance(text, str):
            self._try_remedies(text, found)
        return found

    def _try_remedies(self, text: str, found: list[Finding]) -> None:
        """Apply every remedy that a program can apply: the finding disappears, and no other error appears."""

        def again(tree: Any) -> list[Finding]:
            self.write(yaml.safe_dump(tree, sort_keys=False))
            try:
                load_fleet("demo", root=self.root)
            except SpecError as error:
                return list(error.findings)
            return []

        try:
            tree = yaml.load(text, yaml.BaseLoader)
        except yaml.YAMLError:
            return
        if isinstance(tree, dict) and "extends" not in tree:
            failed = useless(tree, found, again)
            self.write(text)
            assert not failed, "\n".join(failed)

    def only(self, text: str | bytes) -> Finding:
        """The one finding of a file that has one thing wrong."""
        found = self.findings(text)
        assert len(found) == 1, [f"{each.rule}: {each.message}" for each in found]
        return found[0]

    def changed(self, old: str, new: str) -> Finding:
        """The one finding of the valid file with one text replaced."""
        assert VALID.count(old) == 1, old
        return self.only(VALID.replace(old, new))
