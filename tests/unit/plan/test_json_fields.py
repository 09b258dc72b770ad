"""Every field of every model of the plan is in its JSON: found by changing each of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from decimal import Decimal
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from msgspec import Struct
from msgspec.structs import replace

from gpufleet.plan.json import MONEY, model_to_json
from gpufleet.plan.models import FleetPlan
from gpufleet.pricing.json import cost_to_json
from gpufleet.pricing.models import CostLine, FleetCost

VALUES: dict[Any, tuple[Any, Any]] = {
    str: ("one", "other"),
    int: (1, 2),
    float: (1.5, 2.5),
    bool: (False, True),
    Decimal: (Decimal("1.5"), Decimal("2.5")),
    dt.timedelta: (dt.timedelta(days=1), dt.timedelta(days=2)),
}


def sample(kind: Any) -> Any:
    """A value of the type, with everything that it may have."""
    return next(pairs(kind, ""))[1]


def pairs(kind: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    """Two values of the type for each field in it, which differ in that field only."""
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Struct):
        hints = {name: get_type_hints(kind)[name] for name in kind.__struct_fields__}
        whole: Any = kind(**{name: sample(hint) for name, hint in hints.items()})
        for name, hint in hints.items():
            for path, before, after in pairs(hint, f"{where}.{name}"):
                yield path, replace(whole, **{name: before}), replace(whole, **{name: after})
    elif origin in (Union, UnionType):
        for each in arguments:
            if each is not type(None):
                yield from pairs(each, where)
    elif origin is tuple:
        for path, before, after in pairs(arguments[0], where):
            yield path, (before,), (after,)
    elif origin is Mapping:
        for path, before, after in pairs(arguments[1], where):
            yield path, {"key": before}, {"key": after}
    elif origin is Literal:
        yield where, arguments[0], arguments[-1] if len(arguments) > 1 else "another"
    else:
        yield (where, *VALUES[kind])


@pytest.mark.parametrize(
    ("before", "after"),
    [pytest.param(before, after, id=path) for path, before, after in pairs(FleetPlan, "plan")],
)
def test_change_of_any_plan_field_changes_its_json(before: FleetPlan, after: FleetPlan) -> None:
    assert model_to_json(before) != model_to_json(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [pytest.param(before, after, id=path) for path, before, after in pairs(CostLine, "line")],
)
def test_change_of_any_cost_line_field_changes_the_cost(before: CostLine, after: CostLine) -> None:
    plan = replace(sample(FleetPlan), cloud=())
    assert cost_to_json(FleetCost((before,)), plan) != cost_to_json(FleetCost((after,)), plan)


class Priced(Struct, frozen=True):
    amount: Annotated[Decimal, MONEY]
    effectiveness: Decimal


def test_only_money_is_rounded_to_cents() -> None:
    document = model_to_json(Priced(Decimal("1.255"), Decimal("1.255")))
    assert document == {"amount": 1.26, "effectiveness": 1.255}
