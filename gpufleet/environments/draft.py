"""The fleet file of a new environment with costs: its budget, and estimates for unknown prices."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpufleet.catalog import Catalog
from gpufleet.checks import ValidFleet, validate
from gpufleet.environments.assumptions import CostAssumption, assumptions_for
from gpufleet.environments.choices import Choices, cloud_sites, rack_site
from gpufleet.errors import InputError, SpecError
from gpufleet.spec.init import check_name, render_template
from gpufleet.spec.load import FLEET_FILE, STACKS
from gpufleet.spec.quantity import Money

_ROOM = Decimal("1.1")
"""Ratio of a default budget to the cost at maximum size."""

_NO_LIMIT = "1000000000 USD"


class Draft(Struct, frozen=True):
    """A valid fleet file. `highest` is its monthly cost at maximum size, in USD."""

    text: str
    highest: Decimal
    monthly: Money
    assumed: tuple[CostAssumption, ...]


def draft_environment(
    choices: Choices,
    environment: str,
    fleet: str,
    catalog: Catalog,
    *,
    budget: Money | None = None,
    expires: dt.date | None = None,
) -> Draft:
    """Return the fleet file of a template with the choices. By default `budget` is its highest cost plus 10%.

    Raises `InputError` for names, regions and systems that do not exist, for a region without the needed
    types, and for a budget below the cost at maximum size.
    """
    check_name("environment", environment)
    check_name("fleet", fleet)
    sites = cloud_sites(choices, catalog, f"{fleet}-{environment}")
    values: dict[str, Any] = {
        "environment": environment,
        "fleet": fleet,
        "expires": expires,
        "cloud": sites,
        "rack": rack_site(choices, catalog) if choices.has_racks else None,
        "assume": [],
        "monthly": _NO_LIMIT,
        "upfront": _NO_LIMIT if choices.has_training else "",
        "highest": "",
    }
    planned = _planned(choices.template, values, catalog)
    assumed = tuple(assumptions_for(planned.plan, catalog))
    cost = planned.cost
    highest = sum((each.amount for each in assumed), cost.total.maximum)
    if budget is not None and budget.amount < highest:
        raise InputError(
            f"at maximum size the fleet costs about {highest:,.0f} USD a month; the budget is {budget}",
            remedy=f"set it to '{_rounded(highest)} USD' or more, or use fewer nodes; maximum sizes"
            " can be lowered in the fleet file afterwards",
        )
    monthly = budget or Money(_rounded(highest * _ROOM), "USD")
    upfront = cost.upfront
    values |= {
        "assume": assumed,
        "monthly": str(monthly),
        "highest": f"{highest:,.0f} USD",
        "upfront": f"{_rounded(upfront * _ROOM)} USD" if upfront else "",
    }
    _planned(choices.template, values, catalog)
    return Draft(render_template(choices.template, values), highest, monthly, assumed)


def _planned(template: str, values: Mapping[str, Any], catalog: Catalog) -> ValidFleet:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / STACKS / str(values["environment"]) / FLEET_FILE
        path.parent.mkdir(parents=True)
        path.write_text(render_template(template, values), encoding="utf-8")
        try:
            return validate(str(path), root=Path(folder), catalog=catalog)
        except SpecError as error:
            first = next(finding for finding in error.findings if finding.severity == "error")
            raise InputError(f"{first.field}: {first.message}", remedy=first.remedy) from None


def _rounded(amount: Decimal) -> Decimal:
    """Round up to two significant digits."""
    step = Decimal(10) ** max(0, amount.adjusted() - 1)
    return (amount / step).to_integral_value(ROUND_CEILING) * step
