"""Cross-field checks of a fleet file. One run reports all findings."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from gpufleet.catalog import Catalog, load_catalog
from gpufleet.checks import (
    architectures,
    autoscaler,
    buckets,
    budget,
    capacity_blocks,
    cloud_slurm,
    connections,
    costs,
    direct_connect,
    dns,
    efa,
    fault_repair,
    gpu_sharing,
    hosts,
    instances,
    interruptions,
    karpenter,
    labels,
    lustre,
    management,
    mig,
    mount_options,
    mounts,
    names,
    networks,
    node_images,
    ordered_capacity,
    placement,
    queues,
    rack_costs,
    rack_fabric,
    rack_hosts,
    rack_kubernetes,
    rack_monitoring,
    rack_node_groups,
    rack_slurm,
    reach,
    regions,
    reservations,
    scaling,
    slurm_servers,
    software,
    spot,
    tags,
    teams,
    user_data,
    vpn,
)
from gpufleet.checks.rules import BoughtBlocks, Check, FieldFinding, Fleet, nothing_bought
from gpufleet.errors import SpecError
from gpufleet.findings import Finding
from gpufleet.plan.models import FleetPlan
from gpufleet.pricing import FleetCost
from gpufleet.spec.load import FleetReading, LoadedFleet, fewer, read_fleet
from gpufleet.spec.partial import partials
from gpufleet.spec.source import SourceMap

__all__ = ["ALL_CHECKS", "PLANNED_CHECKS", "Check", "ValidFleet", "run_checks", "validate"]

ALL_CHECKS: tuple[Check, ...] = (
    *networks.CHECKS,
    *reach.CHECKS,
    *vpn.CHECKS,
    *direct_connect.CHECKS,
    *dns.CHECKS,
    *connections.CHECKS,
    *regions.CHECKS,
    *instances.CHECKS,
    *architectures.CHECKS,
    *efa.CHECKS,
    *gpu_sharing.CHECKS,
    *placement.CHECKS,
    *scaling.CHECKS,
    *autoscaler.CHECKS,
    *karpenter.CHECKS,
    *queues.CHECKS,
    *fault_repair.CHECKS,
    *capacity_blocks.CHECKS,
    *reservations.CHECKS,
    *slurm_servers.CHECKS,
    *spot.CHECKS,
    *interruptions.CHECKS,
    *lustre.CHECKS,
    *buckets.CHECKS,
    *mounts.CHECKS,
    *mount_options.CHECKS,
    *hosts.CHECKS,
    *rack_costs.CHECKS,
    *rack_fabric.CHECKS,
    *rack_slurm.CHECKS,
    *cloud_slurm.CHECKS,
    *rack_kubernetes.CHECKS,
    *rack_node_groups.CHECKS,
    *rack_monitoring.CHECKS,
    *rack_hosts.CHECKS,
    *management.CHECKS,
    *mig.CHECKS,
    *names.CHECKS,
    *teams.CHECKS,
    *tags.CHECKS,
    *labels.CHECKS,
    *budget.CHECKS,
    *software.CHECKS,
    *node_images.CHECKS,
    *ordered_capacity.CHECKS,
    *user_data.CHECKS,
)
"""Checks of the fleet file itself."""

PLANNED_CHECKS: tuple[Check, ...] = costs.CHECKS
"""Checks of the plan. They run only on a fleet file without errors."""

OVERRIDES = Path(".gpufleet") / "catalog"
"""Where `gpufleet catalog refresh` writes, below the checkout."""


class ValidFleet(Struct, frozen=True):
    """A fleet without errors. `findings` contains only warnings."""

    loaded: LoadedFleet
    findings: tuple[Finding, ...]
    fleet: Fleet

    @property
    def catalog(self) -> Catalog:
        """The catalog that the checks used."""
        return self.fleet.catalog

    @property
    def plan(self) -> FleetPlan:
        """The plan of the fleet."""
        return self.fleet.plan

    @property
    def cost(self) -> FleetCost:
        """The cost of the plan."""
        return self.fleet.cost


def run_checks(fleet: Fleet) -> list[Finding]:
    """Return the errors and warnings of all checks, ordered by line.

    Price ages, support dates and booking windows are compared with `fleet.now`. A passed date causes only
    warnings, except for Capacity Blocks: a start in the past is an error unless `fleet.bought` contains the
    block and it still runs. If `fleet.bought` is None, it is a warning.
    """
    findings = _run(fleet, ALL_CHECKS)
    if not any(finding.severity == "error" for finding in findings):
        findings += _run(fleet, PLANNED_CHECKS)
    return _sorted(findings, fleet.source)


def validate(
    target: str,
    *,
    root: Path,
    catalog: Catalog | None = None,
    now: dt.datetime | None = None,
    bought: BoughtBlocks | None = nothing_bought,
) -> ValidFleet:
    """Load the fleet `target` (an environment below `root`, or a file's path) and run every check.

    Raises InputError if the fleet does not exist, and SpecError with all findings if one is an error.
    `catalog` defaults to the shipped one, updated by `gpufleet catalog refresh` of the checkout. `now` is in
    UTC and defaults to the current time. `bought` reads the purchased Capacity Blocks; pass None for commands
    that buy nothing.
    """
    reading = read_fleet(target, root=root)
    facts = catalog if catalog is not None else load_catalog(root / OVERRIDES)
    if reading.fleet is None:
        found = [
            *reading.findings,
            *_findings_of_invalid_file(reading, facts, now or dt.datetime.now(dt.UTC), bought),
        ]
        raise SpecError(fewer(_sorted(found, reading.source)))
    loaded = reading.fleet
    fleet = Fleet(loaded.spec, facts, loaded.source, now or dt.datetime.now(dt.UTC), bought)
    findings = run_checks(fleet)
    if any(finding.severity == "error" for finding in findings):
        raise SpecError(findings)
    return ValidFleet(loaded, tuple(findings), fleet)


def _findings_of_invalid_file(
    reading: FleetReading, catalog: Catalog, now: dt.datetime, bought: BoughtBlocks | None
) -> list[Finding]:
    """Return the findings of a file with syntax or type errors that its invalid fields do not cause."""
    parts = partials(reading.root)
    broken = {path for part in parts for path in part.broken}
    fields = {next((str(part) for part in reversed(path) if isinstance(part, str)), "") for path in broken}
    checks = [check for check in ALL_CHECKS if not fields & set(check.refers)]
    seen: list[dict[tuple[str, tuple[str | int, ...]], Finding]] = []
    for part in parts:
        fleet = Fleet(part.spec, catalog, part.source, now, bought)
        found = {
            (check.rule, path := part.original(finding.path)): _finding(reading.source, check, finding, path)
            for check in checks
            for finding in check.run(fleet)
        }
        seen.append(found)
    return [
        finding
        for key, finding in (seen[0] if seen else {}).items()
        if any(key in other for other in seen[1:]) and not any(key[1][: len(each)] == each for each in broken)
    ]


def _sorted(findings: Iterable[Finding], source: SourceMap) -> list[Finding]:
    return sorted(findings, key=lambda finding: (finding.file != source.file, finding.file, finding.line))


def _run(fleet: Fleet, checks: tuple[Check, ...]) -> list[Finding]:
    return [
        _finding(fleet.source, check, finding, finding.path)
        for check in checks
        for finding in check.run(fleet)
    ]


def _finding(source: SourceMap, check: Check, finding: FieldFinding, path: tuple[str | int, ...]) -> Finding:
    return source.finding(
        path,
        rule=check.rule,
        message=finding.message,
        remedy=finding.remedy,
        severity=finding.severity,
        value=finding.value,
    )
