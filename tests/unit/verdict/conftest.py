"""A fleet in a file, resources as a program would register them, and verdicts made by hand."""

from __future__ import annotations

import datetime as dt
import subprocess
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpufleet.resources.resource import Resource, ResourceOptions
from gpufleet.spec.load import LoadedFleet, load_fleet
from gpufleet.spec.policy import Exemption
from gpufleet.verdict.models import (
    ChangedResource,
    ComparisonBase,
    CostDifference,
    Costs,
    ExemptionUse,
    GuardrailChanges,
    LocatedViolation,
    OpenChangeCost,
    RackDifference,
    RackFigures,
    RuleResult,
    Verdict,
)

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)

FLEET = """\
extends: ../base.yaml
environment: prod
cloud:
  - site: use1
    provider: aws
    region: us-east-1
    zones: [us-east-1a]
    network: { cidr: 10.70.0.0/16, nat: single }
    scheduler: kubernetes
    kubernetes: { private_cidrs: [10.1.0.0/24] }
    node_groups:
      - name: burst
        instance_types: [g6e.2xlarge]
        capacity: { on_demand: { min: 0, max: 2 } }
        workload: batch
    storage:
      - name: data
        bucket: { name: atlas-prod-data }
onprem:
  - site: lab
    system: dgx-h100
    nodes: dgx[01-09]
    network: 10.90.0.0/24
    fabric: { kind: infiniband, speed: ndr }
    controllers: ctl01
    power: { per_rack: 40 kW, pue: 1.25, price: 0.11 USD/kWh }
"""
BASE = """\
apiVersion: gpufleet/v1
fleet: atlas
budget: { monthly: 60000 USD }
tags: { team: ml, cost-center: cc-1, project: atlas }
software: { channel: 2026.11 }
"""


def line_of(text: str) -> int:
    """The line of FLEET that holds the text."""
    return next(number for number, line in enumerate(FLEET.splitlines(), 1) if text in line)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with the fleet above as prod."""
    (tmp_path / "stacks" / "prod").mkdir(parents=True)
    (tmp_path / "stacks" / "base.yaml").write_text(BASE)
    (tmp_path / "stacks" / "prod" / "fleet.yaml").write_text(FLEET)
    return tmp_path


@pytest.fixture
def loaded(root: Path) -> LoadedFleet:
    """The fleet above."""
    return load_fleet("prod", root=root)


def urn_of(kind: str, name: str) -> str:
    """A URN as Pulumi writes it."""
    return f"urn:pulumi:prod::gpufleet::{kind}::{name}"


def resource(kind: str, name: str, **values: Any) -> Resource:
    """A resource; `parent` is another one, `protect` and `aliases` are options, the rest is properties."""
    parent: Resource | None = values.pop("parent", None)
    options = ResourceOptions(protect=values.pop("protect", False), aliases=values.pop("aliases", ()))
    return Resource(
        type=kind,
        name=name,
        urn=urn_of(kind, name),
        props=values,
        inputs=values,
        options=options,
        parent=parent.urn if parent else "",
    )


def violated(message: str = "it is open", **changes: Any) -> LocatedViolation:
    """A violation of a bucket."""
    fields: dict[str, Any] = {
        "resource": urn_of("aws:s3/bucket:Bucket", "atlas-prod-use1-data"),
        "name": "atlas-prod-use1-data",
        "message": message,
        "remedy": "close it",
        "file": "stacks/prod/fleet.yaml",
        "line": 17,
        "effect": "mandatory",
        "prop": "acl",
    }
    return LocatedViolation(**{**fields, **changes})


def rule(name: str = "closed-buckets", *violations: LocatedViolation, **changes: Any) -> RuleResult:
    """A rule's result; failed where it has violations."""
    fields: dict[str, Any] = {
        "name": name,
        "group": "security",
        "scope": "resource",
        "title": "Buckets are closed",
        "why": "Open ones are read.",
        "fix": "Close it.",
        "severity": "high",
        "enforcement": "mandatory",
        "status": "failed" if violations else "passed",
        "violations": violations,
    }
    return RuleResult(**{**fields, **changes})


def cost_line(what: str, before: int | None, after: int | None, **changes: Any) -> CostDifference:
    """A line of the cost of node group use1/burst."""
    fields: dict[str, Any] = {
        "what": what,
        "site": "use1",
        "owner": "burst",
        "before": None if before is None else Decimal(before),
        "after": None if after is None else Decimal(after),
        "at_max_before": None if before is None else Decimal(before * 2),
        "at_max": None if after is None else Decimal(after * 2),
        "changed": before != after,
    }
    return CostDifference(**{**fields, **changes})


def costs(*lines: CostDifference, **changes: Any) -> Costs:
    """Costs with these lines."""
    fields: dict[str, Any] = {
        "before": Decimal(1000),
        "after": Decimal("1234.565"),
        "at_max_before": Decimal(2000),
        "at_max": Decimal(2500),
        "currency": "USD",
        "budget": Decimal(60000),
        "upfront_before": Decimal(0),
        "upfront": Decimal(500),
        "lines": lines,
        "unknown": tuple(line for line in lines if line.reason),
        "not_counted": ("data transfer",),
        "oldest_price": dt.date(2026, 11, 1),
        "oldest_price_days": 20,
    }
    return Costs(**{**fields, **changes})


def exemption(**changes: Any) -> Exemption:
    """An exemption of a bucket."""
    fields = {
        "rule": "closed-buckets",
        "resource": "atlas-prod-use1-data",
        "reason": "public data",
        "approver": "carol",
        "expires": "2027-01-31",
    }
    return Exemption.model_validate({**fields, **changes})


def verdict(*rules: RuleResult, **changes: Any) -> Verdict:
    """A verdict on prod against main."""
    fields: dict[str, Any] = {
        "environment": "prod",
        "engine": "embedded",
        "judged_at": NOW,
        "fleet_file": "stacks/prod/fleet.yaml",
        "base": ComparisonBase("main", "0123456789abcdef0123456789abcdef01234567"),
        "rules": rules,
        "changes": (
            ChangedResource(
                urn_of("aws:s3/bucket:Bucket", "atlas-prod-use1-data"),
                "aws:s3/bucket:Bucket",
                "atlas-prod-use1-data",
                "replace",
                "use1",
                "data",
                ("bucket", "tags"),
                ("bucket",),
                protected=True,
            ),
            ChangedResource(
                urn_of("aws:sns/topic:Topic", "atlas-prod"),
                "aws:sns/topic:Topic",
                "atlas-prod",
                "create",
                "",
                "",
            ),
        ),
        "unchanged": 50,
        "costs": costs(cost_line("2 x g6e.2xlarge", 100, 300), cost_line("volumes", 5, 5)),
        "racks": (
            RackDifference(
                "lab",
                RackFigures(2, 16, 3, Decimal("20.4"), Decimal("25.5"), 16, 1),
                RackFigures(4, 32, 5, Decimal("40.8"), Decimal("51"), 32, 2),
            ),
        ),
        "exemptions": (ExemptionUse(exemption(), True, 1, "stacks/prod/fleet.yaml", 40),),
        "guard": GuardrailChanges(("policies/rules/a.py",), ("budget.monthly",)),
        "open_changes": (
            OpenChangeCost("feature/x", Decimal(70)),
            OpenChangeCost("broken", None, "no such environment"),
        ),
        "seconds": 5.25,
    }
    return Verdict(**{**fields, **changes})


class Git:
    """A repository that a test may do anything with."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self("init", "--quiet", "--initial-branch=main")

    def __call__(self, *arguments: str) -> str:
        """Run git there, with a fixed user and without the machine's settings."""
        env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_SYSTEM": "/dev/null",
            "GIT_AUTHOR_NAME": "t",
            "GIT_AUTHOR_EMAIL": "t@example.com",
            "GIT_COMMITTER_NAME": "t",
            "GIT_COMMITTER_EMAIL": "t@example.com",
        }
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env=env, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, message: str = "change") -> str:
        """Commit everything; the commit's hash."""
        self("add", "--all")
        self("commit", "--quiet", "--allow-empty", "--message", message)
        return self("rev-parse", "HEAD")


@pytest.fixture
def make_git() -> Callable[[Path], Git]:
    """Makes a repository of a folder."""
    return Git
