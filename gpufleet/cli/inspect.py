"""`gpufleet validate`, `plan` and `schema`: commands without an engine or a cloud."""

from __future__ import annotations

import datetime as dt
import json as json_module
from typing import Any

import typer

from gpufleet.cli.arguments import Environment, Json
from gpufleet.cli.console import emit_json, emit_text, err, out, print_findings
from gpufleet.errors import ExitCode, SpecError
from gpufleet.findings import Finding
from gpufleet.workspace import Workspace


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command()(validate)
    app.command()(plan)
    app.command()(schema)


def validate(environment: Environment, json: Json = False) -> int:
    """Check a fleet file and list all its findings.

    Each has file and line, value, rule, and remedy.
    """
    from gpufleet.checks import validate as run_validation

    workspace = Workspace.open(environment)
    try:
        validated = run_validation(workspace.target, root=workspace.root, bought=workspace.bought_blocks)
    except SpecError as error:
        if not json:
            raise
        emit_json({"valid": False, "findings": [_finding_json(finding) for finding in error.findings]})
        return int(ExitCode.BAD_INPUT)
    if json:
        emit_json({"valid": True, "findings": [_finding_json(finding) for finding in validated.findings]})
        return int(ExitCode.DONE)
    print_findings(validated.findings)
    warnings = len(validated.findings)
    out.print(
        f"{validated.loaded.path}: valid"
        + (f", with {warnings} warning{'s' if warnings != 1 else ''}" if warnings else "")
    )
    return int(ExitCode.DONE)


def _finding_json(finding: Finding) -> dict[str, Any]:
    """Return the finding as JSON with its `fixes`, each a `field` and its new `value`."""
    from gpufleet.spec.fixes import fixes

    ways = [{"field": fix.field, "value": fix.value} for fix in fixes(finding)]
    return {**finding.to_json(), "fixes": ways}


def plan(environment: Environment, json: Json = False) -> int:
    """Show the plan of the fleet file and its monthly cost.

    Lists sites, node groups, interfaces, storage and hosts. Needs no engine and no cloud.
    """
    from gpufleet.checks import validate as run_validation
    from gpufleet.plan.json import model_to_json
    from gpufleet.pricing.json import cost_to_json

    workspace = Workspace.open(environment)
    validated = run_validation(workspace.target, root=workspace.root, bought=workspace.bought_blocks)
    fleet_plan, cost = validated.plan, validated.cost
    if json:
        document = model_to_json(fleet_plan)
        document["cost"] = cost_to_json(cost, fleet_plan)
        document["findings"] = [finding.to_json() for finding in validated.findings]
        emit_json(document)
        return int(ExitCode.DONE)
    from gpufleet.report.plan_text import print_plan

    print_findings(validated.findings, err)
    print_plan(fleet_plan, cost, out, dt.datetime.now(tz=dt.UTC).date())
    return int(ExitCode.DONE)


def schema(json: Json = False) -> None:
    """Print the JSON schema of the fleet file, for editors."""
    from gpufleet.spec.schema import fleet_schema

    if json:
        emit_json(fleet_schema())
    else:
        emit_text(json_module.dumps(fleet_schema(), indent=2) + "\n")
