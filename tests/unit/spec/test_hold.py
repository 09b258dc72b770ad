"""Shipped environments and templates hold under every check, today and in two years."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from gpufleet.catalog import load_catalog
from gpufleet.checks import validate
from gpufleet.environments import Choices, draft_environment
from gpufleet.plan import build_plan
from gpufleet.pricing import price_plan
from gpufleet.spec.init import TEMPLATES, write_environment
from tests.unit.spec.samples import ROOT

READ = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
MOMENTS = [READ, READ + dt.timedelta(days=730)]
# Warnings that come with time and say that facts are old.
AGE = {"price-age", "driver-support"}
# Finding of a shipped environment with a Slurm site in the cloud.
UNCONNECTED = {"sandbox": {"slurm-cloud-unconnected"}, "prod": {"slurm-cloud-unconnected"}}


def rules(target: str, root: Path, now: dt.datetime) -> set[str]:
    """The rules that have something to say. An error would have been raised as SpecError."""
    return {finding.rule for finding in validate(target, root=root, now=now).findings}


@pytest.mark.parametrize("now", MOMENTS, ids=["today", "in two years"])
@pytest.mark.parametrize("environment", ["sandbox", "dev", "prod"])
def test_shipped_environment_has_no_finding_except_the_age_of_data(
    environment: str, now: dt.datetime
) -> None:
    assert rules(environment, ROOT, now) - AGE == UNCONNECTED.get(environment, set())


@pytest.mark.parametrize("now", MOMENTS, ids=["today", "in two years"])
@pytest.mark.parametrize("template", TEMPLATES)
def test_template_has_no_finding_except_the_age_of_data(
    tmp_path: Path, template: str, now: dt.datetime
) -> None:
    text = draft_environment(Choices(template), "lab", "zeus", load_catalog()).text
    write_environment(tmp_path, "lab", template, text)
    assert rules("lab", tmp_path, now) <= AGE


@pytest.mark.parametrize("environment", ["sandbox", "dev", "prod"])
def test_shipped_environment_is_within_its_budget_at_maximum_size(environment: str) -> None:
    spec = validate(environment, root=ROOT, now=READ).loaded.spec
    cost = price_plan(build_plan(spec, load_catalog()), load_catalog())
    assert cost.unknown == ()
    assert 0 < cost.total.maximum < spec.budget.monthly.amount
    if cost.upfront:
        assert spec.budget.upfront is not None
        assert cost.upfront < spec.budget.upfront.amount
