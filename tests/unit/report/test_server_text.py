"""What `plan` prints of the servers of a Slurm in the cloud."""

from __future__ import annotations

import datetime as dt
from io import StringIO

import pytest
from rich.console import Console

from gpufleet.report.plan_text import print_plan
from tests.unit.plan.fleets import cost_of, group, on_demand, plan_of

FIRST = "Slurm servers: use1-ctl1 10.40.0.16 (m7i.xlarge)"
OTHERS = "use1-ctl2 10.40.32.17 (m7i.xlarge), use1-login1 10.40.0.18 (m7i.large)"
IMAGE = "ami-0123456789abcdef0"


@pytest.mark.parametrize(
    ("servers", "line"),
    [
        ({"login": {"hosts": 0}}, FIRST),
        (
            {"controllers": {"hosts": 2}, "login": {"instance_type": "m7i.large"}, "shared": "/work"},
            f"{FIRST}, {OTHERS}; EFS at /work; state of controllers on EFS",
        ),
    ],
)
def test_servers_are_listed_with_their_addresses_and_types(servers: dict[str, object], line: str) -> None:
    plan = plan_of(
        group("sweep", "g6e.xlarge", on_demand(0, 2), image=IMAGE),
        slurm={"servers": {"image": IMAGE, **servers}},
    )
    out = StringIO()
    print_plan(plan, cost_of(plan), Console(file=out, width=200), dt.date(2026, 9, 15))
    assert f"  {line}\n" in out.getvalue()
