"""The plan of the shipped sandbox environment, and text as a console prints it."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gpufleet.catalog import load_catalog
from gpufleet.checks import validate
from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.pricing import FleetCost, price_plan

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def plan() -> FleetPlan:
    """Two cloud sites, use1 and usw2, and the rack site lab."""
    validated = validate("sandbox", root=ROOT)
    return build_plan(validated.loaded.spec, validated.catalog)


@pytest.fixture(scope="session")
def cost(plan: FleetPlan) -> FleetCost:
    """The cost of the environment."""
    return price_plan(plan, load_catalog())


@pytest.fixture
def text() -> Callable[..., list[str]]:
    """`text(function, *arguments)`: the lines that the function prints on the console it is given last."""

    def printed(
        function: Callable[..., None], *arguments: Any, width: int = 140, **options: Any
    ) -> list[str]:
        stream = io.StringIO()
        function(*arguments, Console(file=stream, width=width, highlight=False), **options)
        return [line.rstrip() for line in stream.getvalue().splitlines()]

    return printed
