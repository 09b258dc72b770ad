"""The program of `pulumi up` and of gpufleet's own engine: from the fleet file to resources."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulumi

from gpufleet.errors import GpufleetError, SpecError
from gpufleet.findings import FINDINGS_SHOWN
from gpufleet.stacks.imports import take_over
from gpufleet.stacks.settings import StackSettings, load_settings
from gpufleet.visible import visible_line

if TYPE_CHECKING:
    from gpufleet.findings import Finding
    from gpufleet.plan.models import FleetPlan


def run(root: Path) -> None:
    """Build the stack of the checkout `root`. Invalid input ends the run with its findings, no traceback."""
    try:
        settings = load_settings(root)
        plan = _plan(root, settings)
        build_fleet(plan, settings)
    except SpecError as error:
        raise pulumi.RunError(_text(error)) from None
    except GpufleetError as error:
        raise pulumi.RunError(f"{error.message}\n{error.remedy}".strip()) from None


def _plan(root: Path, settings: StackSettings) -> FleetPlan:
    from gpufleet.checks import validate

    # Without a state the bought blocks are unknown here. gpufleet, and later the search of an offering,
    # reject a start in the past.
    validated = validate(settings.fleet_file, root=root, bought=None)
    if not os.environ.get(FINDINGS_SHOWN):
        for finding in validated.findings:
            pulumi.log.warn(_line(finding))
    take_over(validated.loaded.path)
    plan = validated.plan
    if plan.environment != pulumi.get_stack():
        pulumi.log.warn(
            f"the stack {pulumi.get_stack()} is built from a fleet file of environment {plan.environment}"
        )
    return plan


def build_fleet(plan: FleetPlan, settings: StackSettings) -> None:
    """Register the resources of the plan's cloud sites, and export their outputs."""
    from gpufleet.stacks.account import account_provider, build_account
    from gpufleet.stacks.cloud_site import build_site
    from gpufleet.stacks.cluster_access import require_access
    from gpufleet.stacks.nodes import site_nodes
    from gpufleet.stacks.ordered_capacity import build_orders, drawing_orders, order_outputs
    from gpufleet.stacks.stopped_groups import stopped_groups

    require_access(plan, settings)
    account = account_provider(plan, settings) if plan.cloud else None
    stopped = stopped_groups(plan, account) if account and plan.budget.stops_growth else {}
    sites = [build_site(plan, site, settings, stopped) for site in plan.cloud]
    orders = build_orders(sites)
    nodes: list[pulumi.Output[list[dict[str, Any]]]] = []
    for built in sites:
        site = built.plan.site
        pulumi.export(site, {**built.exports, "ordered_capacity": order_outputs(built, orders)})
        for kind, kubeconfig in built.kubeconfigs.items():
            pulumi.export(f"{site}-{kind}", kubeconfig)
        nodes += site_nodes(built, drawing_orders(sites, orders))
    pulumi.export(
        "nodes", pulumi.Output.all(*nodes).apply(lambda lists: [node for found in lists for node in found])
    )
    pulumi.export("fleet", plan.fleet)
    pulumi.export("environment", plan.environment)
    if account is not None:
        pulumi.export("budget", build_account(plan, account))


def _text(error: SpecError) -> str:
    return "\n".join([f"{error.message}:", *(_line(finding) for finding in error.findings)])


def _line(finding: Finding) -> str:
    return visible_line(
        f"{finding.file}:{finding.line}: {finding.field}: {finding.message}; {finding.remedy}"
    )
