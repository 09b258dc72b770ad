"""A fleet without findings, changes to it, and the resulting findings."""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec import structs

from gpufleet.catalog import Catalog
from gpufleet.checks import run_checks
from gpufleet.checks.rules import BoughtBlocks, Fleet, nothing_bought
from gpufleet.errors import SpecError
from gpufleet.findings import Finding
from gpufleet.spec.load import load_fleet
from tests.unit.spec.remedies import useless

# Two months after the newest prices in the catalog were read: no price and no driver branch is
# old then, except those with a source older than a year.
NOW = dt.datetime(2026, 9, 15, 12, 0, tzinfo=dt.UTC)
ALWAYS = {"price-age"}

FLEET: dict[str, Any] = {
    "apiVersion": "gpufleet/v1",
    "fleet": "atlas",
    "environment": "test",
    "budget": {
        "monthly": "900000 USD",
        "upfront": "100000 USD",
        "alerts": ["50%", "80%", "100%"],
        "notify": ["finops@example.com"],
    },
    "tags": {"team": "ml", "cost-center": "cc-1", "project": "atlas"},
    "cloud": [
        {
            "site": "use1",
            "region": "us-east-1",
            "zones": ["us-east-1a", "us-east-1b"],
            "network": {"cidr": "10.40.0.0/16"},
            "scheduler": "kubernetes",
            "kubernetes": {
                "version": "1.35",
                "private_cidrs": ["10.60.0.0/24"],
                "teams": [{"name": "research", "gpus": 16}],
            },
            "node_groups": [
                {
                    "name": "train",
                    "instance_types": ["p5.48xlarge"],
                    "capacity": {"on_demand": {"min": 0, "max": 2}},
                    "zones": ["us-east-1a"],
                    "network": "efa",
                    "workload": "training",
                    "team": "research",
                },
                {
                    "name": "block",
                    "instance_types": ["p5.48xlarge"],
                    "capacity": {
                        "reserved": {"capacity_block": {"nodes": 1, "duration": "7 d", "start": "in 14 d"}}
                    },
                    "network": "efa",
                },
                {
                    "name": "held",
                    "instance_types": ["p4d.24xlarge"],
                    "capacity": {"reserved": {"odcr": {"nodes": 1, "zone": "us-east-1b"}}},
                },
                {
                    "name": "sweep",
                    "instance_types": ["p4d.24xlarge", "p4de.24xlarge"],
                    "capacity": {"spot": {"min": 0, "max": 4}},
                },
            ],
            "storage": [
                {
                    "name": "scratch",
                    "mount": "/fsx/scratch",
                    "lustre": {
                        "capacity": "2400 GiB",
                        "throughput": "125 MB/s/TiB",
                        "import_from": "s3://atlas-test-data/train",
                    },
                },
                {"name": "data", "bucket": {"name": "atlas-test-data"}},
            ],
        }
    ],
    "onprem": [
        {
            "site": "dc1",
            "system": "dgx-h100",
            "nodes": "dgx[001-008]",
            "bmc": "bmc[001-008]",
            "controllers": "ctl[01-02]",
            "login": "login01",
            "network": "10.60.0.0/24",
            "fabric": {"kind": "infiniband", "speed": "ndr"},
            "scheduler": "slurm",
            "power": {"per_rack": "40 kW", "pue": 1.25, "price": "0.11 USD/kWh"},
            "storage": [{"name": "home", "kind": "nfs", "source": "nas01:/export", "mount": "/shared/home"}],
            "teams": [{"name": "research", "gpus": 64}],
        }
    ],
    "software": {"channel": "2026.11"},
}

GONE: Any = object()


class FindingList:
    """Findings of one fleet."""

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = findings

    @property
    def rules(self) -> set[str]:
        """The violated rules, without those that every test fleet violates."""
        return {finding.rule for finding in self.findings} - ALWAYS

    def of(self, rule: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.rule == rule]

    def fields(self, rule: str) -> list[str]:
        """The fields of the findings of a rule."""
        return [finding.field for finding in self.of(rule)]

    def only(self, rule: str, severity: str = "error") -> Finding:
        """The only finding: of this rule and severity."""
        reported = "\n".join(str(finding) for finding in self.findings)
        assert self.rules == {rule}, reported
        found = self.of(rule)
        assert len(found) == 1, reported
        assert found[0].severity == severity, reported
        assert found[0].message
        assert found[0].remedy
        assert found[0].value is not None, reported
        return found[0]


class Judge:
    """Write the fleet with changes to a file, load it like a user's, and run all checks.

    Apply every remedy that a program can apply: the finding disappears, and no other error appears.
    """

    def __init__(self, folder: Path, catalog: Catalog) -> None:
        self.folder = folder
        self.catalog = catalog
        self.bought: BoughtBlocks | None = nothing_bought

    def __call__(
        self,
        changes: Mapping[str, Any] | None = None,
        *,
        now: dt.datetime = NOW,
        bought: BoughtBlocks | None = nothing_bought,
    ) -> FindingList:
        self.bought = bought
        fleet = copy.deepcopy(FLEET)
        for path, value in (changes or {}).items():
            # Later paths change what earlier ones set: never the object of the test.
            change(fleet, path, value if value is GONE else copy.deepcopy(value))
        shown = FindingList(self._findings(fleet, now))
        failed = useless(fleet, shown.findings, lambda tree: self._again(tree, now))
        assert not failed, "\n".join(failed)
        self._write(fleet)
        return shown

    def change_catalog(self, table: str, **changes: Mapping[str, Any]) -> None:
        """Change entries of a table of the catalog: `change_catalog("locks", **{"2026.11": {...}})`."""
        entries = dict(getattr(self.catalog, table))
        for name, update in changes.items():
            entries[name] = entries[name].model_copy(update=update)
        self.catalog = structs.replace(self.catalog, **{table: entries})

    def _write(self, fleet: Any) -> Path:
        file = self.folder / "fleet.yaml"
        file.write_text(yaml.dump(fleet, Dumper=yaml.CSafeDumper, sort_keys=False), encoding="utf-8")
        return file

    def _findings(self, fleet: Any, now: dt.datetime) -> list[Finding]:
        loaded = load_fleet(str(self._write(fleet)), root=self.folder)
        return run_checks(Fleet(loaded.spec, self.catalog, loaded.source, now, self.bought))

    def _again(self, fleet: Any, now: dt.datetime) -> list[Finding]:
        try:
            return self._findings(fleet, now)
        except SpecError as error:
            return list(error.findings)


def change(fleet: Any, path: str, value: Any) -> None:
    """Set the field at a dotted path (`cloud.0.zones`), append with `+`, or remove it with GONE."""
    *parents, last = path.split(".")
    where = fleet
    for part in parents:
        where = where[int(part)] if isinstance(where, list) else where.setdefault(part, {})
    if last == "+":
        where.append(value)
    elif value is GONE:
        del where[int(last) if isinstance(where, list) else last]
    elif isinstance(where, list):
        where[int(last)] = value
    else:
        where[last] = value
