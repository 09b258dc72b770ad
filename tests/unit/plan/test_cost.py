"""What fleets cost: figures that can be checked by hand, and their sources."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from gpufleet.plan import build_plan
from gpufleet.plan.cost import price_age, stale_prices
from gpufleet.plan.models import FleetPlan
from tests.unit.plan.fleets import (
    CATALOG,
    block,
    cloud_site,
    group,
    line,
    odcr,
    on_demand,
    plan_of,
    rack_site,
    spec,
    spot,
)

P5 = Decimal("55.04")


def test_an_hour_of_p5_is_as_many_times_p5_4xlarge_as_it_has_gpus() -> None:
    big = line(plan_of(group("a", "p5.48xlarge", on_demand(1, 1))), "a", "compute").monthly.expected
    small = line(plan_of(group("a", "p5.4xlarge", on_demand(1, 1))), "a", "compute").monthly.expected
    assert big is not None
    assert small is not None
    assert big / 730 / 8 == Decimal("6.88")
    assert big == 8 * small


def test_on_demand_nodes_cost_730_hours_at_each_of_their_sizes() -> None:
    priced = line(plan_of(group("a", "p5.48xlarge", on_demand(1, 8, 4))), "a", "compute")
    assert priced.monthly.low == 1 * 730 * P5
    assert priced.monthly.expected == 4 * 730 * P5
    assert priced.monthly.high == 8 * 730 * P5
    assert priced.basis == "4 x p5.48xlarge x 730 h x 55.04 USD/h"
    assert "karpenter" in priced.source
    assert priced.date == "2026-07-20"


def test_a_reservation_costs_the_on_demand_rate_for_all_of_its_nodes() -> None:
    priced = line(plan_of(group("a", "p5.48xlarge", odcr(3, zone="us-east-1a"))), "a", "compute")
    assert priced.monthly.low == priced.monthly.expected == priced.monthly.high == 3 * 730 * P5
    assert "whether it is used or not" in priced.note


def test_a_capacity_block_is_paid_upfront_and_shared_out_by_the_month() -> None:
    rate = CATALOG.capacity_block("p5.48xlarge", "us-east-1").amount
    assert rate is not None
    short = line(plan_of(group("a", "p5.48xlarge", block(8, duration="14 d"))), "a", "compute")
    assert short.upfront == 8 * 14 * 24 * rate
    assert short.monthly.expected == short.upfront
    assert short.monthly.low == short.monthly.high == short.monthly.expected
    long = line(plan_of(group("a", "p5.48xlarge", block(8, duration="182 d"))), "a", "compute")
    assert long.upfront == 8 * 182 * 24 * rate
    assert long.monthly.expected == 8 * 730 * rate


def test_the_upfront_payments_of_a_fleet_are_summed() -> None:
    plan = plan_of(group("a", "p5.48xlarge", block(1)), group("b", "p4d.24xlarge", block(1)))
    lines = [item for item in plan.cost.lines if item.upfront is not None]
    assert plan.cost.upfront == sum(item.upfront or 0 for item in lines)


def test_a_block_that_exists_is_not_paid_for_again() -> None:
    capacity = block(8, id="cr-0123456789abcdef0", zone="us-east-1a", start=None)
    plan = plan_of(group("a", "p5.48xlarge", capacity))
    priced = line(plan, "a", "compute")
    assert priced.upfront is None
    assert plan.cost.upfront == 0
    assert priced.monthly.expected is not None
    assert priced.monthly.expected > 0


def test_a_block_that_exists_for_an_undeclared_time_has_an_unknown_cost() -> None:
    capacity = {"reserved": {"capacity_block": {"nodes": 1, "id": "cr-0123456789abcdef0"}}}
    plan = plan_of(group("a", "p5.48xlarge", capacity))
    (unknown,) = [item for item in plan.cost.unknown if item.owner == "a"]
    assert "duration" in unknown.reason
    assert not [item for item in plan.cost.lines if (item.owner, item.kind) == ("a", "compute")]


def test_root_volumes_exist_as_long_as_their_block() -> None:
    whole = line(plan_of(group("a", "p5.48xlarge", block(1, duration="182 d"))), "a", "storage")
    part = line(plan_of(group("a", "p5.48xlarge", block(1, duration="7 d"))), "a", "storage")
    assert whole.monthly.expected == 200 * Decimal("0.08")
    assert part.monthly.expected == (whole.monthly.expected * 168 / 730).quantize(Decimal("0.000001"))


def test_spot_is_expected_at_the_median_between_the_cheapest_and_the_dearest_zone() -> None:
    prices = CATALOG.spot("p5en.48xlarge", "us-west-2")
    assert prices is not None
    plan = build_plan(
        spec(
            cloud=[
                cloud_site(
                    group("a", "p5en.48xlarge", {"spot": {"min": 1, "max": 4, "desired": 2}}),
                    region="us-west-2",
                    zones=["us-west-2a"],
                )
            ]
        ),
        CATALOG,
    )
    monthly = line(plan, "a", "compute").monthly
    assert monthly.low == 1 * 730 * prices.low
    assert monthly.expected == 2 * 730 * prices.median
    assert monthly.high == 4 * 730 * prices.high
    assert prices.low < prices.median < prices.high


def test_a_maximum_price_bounds_what_spot_costs() -> None:
    prices = CATALOG.spot("p5en.48xlarge", "us-west-2")
    assert prices is not None
    most = prices.median
    assert prices.low < most < prices.high
    bought = {"spot": {"min": 1, "max": 4, "desired": 2, "max_price": f"{most} USD/h"}}
    site = cloud_site(group("a", "p5en.48xlarge", bought), region="us-west-2", zones=["us-west-2a"])
    monthly = line(build_plan(spec(cloud=[site]), CATALOG), "a", "compute").monthly
    assert (monthly.low, monthly.expected, monthly.high) == (
        730 * prices.low,
        2 * 730 * most,
        4 * 730 * most,
    )


def test_spot_in_us_west_2_saves_what_the_published_figures_say() -> None:
    """Median 12.98 of 55.04 USD/h: 76.4 % before anything is lost to interruptions."""
    monthly = line(
        plan_of(
            group("a", "p5.48xlarge", {"spot": {"min": 1, "max": 1}}),
            region="us-west-2",
            zones=["us-west-2a"],
        ),
        "a",
        "compute",
    ).monthly
    assert monthly.expected is not None
    assert ((1 - monthly.expected / 730 / P5) * 100).quantize(Decimal("0.1")) == Decimal("76.4")


def test_zones_where_spot_equals_on_demand_are_the_worst_case_and_not_the_expected_one() -> None:
    """use1-az1 and use1-az4 had no spare capacity; of the four others the median is 20.2037 USD/h."""
    monthly = line(plan_of(group("a", "p5.48xlarge", {"spot": {"min": 1, "max": 1}})), "a", "compute").monthly
    assert monthly.expected == 730 * Decimal("20.2037")
    assert monthly.high == 730 * P5


def test_a_spot_group_that_falls_back_is_two_groups_that_both_can_be_full() -> None:
    both = plan_of(group("a", "p4d.24xlarge", spot(0, 4, "on-demand")))
    alone = plan_of(group("a", "p4d.24xlarge", spot(0, 4)))
    without = line(alone, "a", "compute").monthly.high
    assert without is not None
    assert without < 4 * 730 * Decimal("21.957642")
    assert line(both, "a", "compute").monthly.high == without + 4 * 730 * Decimal("21.957642")
    assert line(both, "a", "compute").monthly.expected == line(alone, "a", "compute").monthly.expected
    once = line(alone, "a", "storage").monthly.high
    assert once is not None
    assert line(both, "a", "storage").monthly.high == 2 * once


def test_of_several_types_the_first_is_expected_and_the_others_widen_the_range() -> None:
    both = line(
        plan_of(group("a", ["p4d.24xlarge", "p4de.24xlarge"], {"spot": {"min": 1, "max": 1}})), "a", "compute"
    )
    d, de = CATALOG.spot("p4d.24xlarge", "us-east-1"), CATALOG.spot("p4de.24xlarge", "us-east-1")
    assert d is not None
    assert de is not None
    assert both.monthly.expected == 730 * d.median
    assert both.monthly.low == 730 * min(d.low, de.low)
    assert both.monthly.high == 730 * max(d.high, de.high)


def test_a_price_nobody_knows_is_unknown_and_never_zero() -> None:
    plan = plan_of(group("a", "g6.xlarge", spot(1, 4)))
    assert [item for item in plan.cost.lines if (item.owner, item.kind) == ("a", "compute")] == []
    (unknown,) = plan.cost.unknown
    assert (unknown.site, unknown.owner) == ("use1", "a")
    assert "g6.xlarge" in unknown.what
    assert "us-east-1" in unknown.reason


def test_a_spot_price_that_was_not_offered_is_unknown() -> None:
    plan = plan_of(group("a", "p5.4xlarge", spot(1, 1)))
    assert [item.owner for item in plan.cost.unknown] == ["a"]


def test_of_two_types_with_one_unknown_the_line_counts_the_known_one() -> None:
    plan = plan_of(group("a", ["g6.xlarge", "g6e.xlarge"], spot(1, 1)))
    assert [item.what for item in plan.cost.unknown] == ["1 x g6.xlarge, spot"]
    assert "g6e.xlarge" in line(plan, "a", "compute").what


@pytest.mark.parametrize(
    ("lustre", "expected"),
    [
        ({"deployment": "scratch-2", "capacity": "1200 GiB"}, Decimal(168)),
        ({"throughput": "125 MB/s/TiB", "capacity": "1200 GiB"}, Decimal(174)),
    ],
)
def test_fsx_costs_what_the_published_examples_say(lustre: dict[str, str], expected: Decimal) -> None:
    plan = plan_of(storage=[{"name": "fs", "mount": "/fsx", "lustre": lustre}])
    assert line(plan, "fs", "storage").monthly.expected == expected


def test_an_fsx_tier_without_a_price_is_unknown() -> None:
    lustre = {"throughput": "1000 MB/s/TiB", "capacity": "1200 GiB"}
    plan = plan_of(storage=[{"name": "fs", "mount": "/fsx", "lustre": lustre}])
    (unknown,) = plan.cost.unknown
    assert "1000 MB/s/TiB" in unknown.what
    assert "use1/fs" not in plan.cost.by_owner


def test_provisioned_metadata_iops_have_an_unknown_price() -> None:
    lustre = {"throughput": "125 MB/s/TiB", "capacity": "1200 GiB", "metadata_iops": 6000}
    plan = plan_of(storage=[{"name": "fs", "mount": "/fsx", "lustre": lustre}])
    assert [item.what for item in plan.cost.unknown] == ["6000 metadata IOPS"]


def test_objects_in_buckets_are_not_counted_and_not_unknown() -> None:
    plan = plan_of(storage=[{"name": "data", "bucket": {"name": "atlas-data"}}])
    assert plan.cost.unknown == ()
    assert any("atlas-data" in text and "0.023" in text for text in plan.cost.not_counted)


def test_root_volumes_cost_by_size_and_by_what_exceeds_the_included_speed() -> None:
    volume = {"size": "40 GiB", "iops": 4000, "throughput": 130}
    plan = plan_of(group("a", "p5.48xlarge", on_demand(1, 1), volume=volume))
    assert line(plan, "a", "storage").monthly.expected == Decimal("3.20") + Decimal("0.20") + Decimal("5.00")


@pytest.mark.parametrize(("nat", "gateways"), [("single", 1), ("per-zone", 2)])
def test_nat_gateways_cost_by_the_hour(nat: str, gateways: int) -> None:
    plan = plan_of(network={"cidr": "10.40.0.0/16", "nat": nat})
    assert line(plan, "network", "network").monthly.expected == gateways * 730 * Decimal("0.045")


def test_a_site_without_nat_has_endpoints_of_unknown_price() -> None:
    plan = plan_of(network={"cidr": "10.40.0.0/16", "nat": "none"})
    assert [item.owner for item in plan.cost.unknown] == ["network"]


def test_a_kubernetes_site_pays_for_its_control_plane_and_system_nodes() -> None:
    plan = plan_of(scheduler="kubernetes", kubernetes={"system_nodes": {"min": 2, "max": 3}})
    assert line(plan, "control-plane", "control-plane").monthly.expected == 73
    system = line(plan, "system", "compute").monthly
    assert system.low == system.expected
    assert system.high is not None
    assert system.expected is not None
    assert 2 * system.high == 3 * system.expected
    assert line(plan, "system", "storage").monthly.expected == 2 * 200 * Decimal("0.08")


def test_a_slurm_site_pays_for_no_control_plane() -> None:
    assert not [item for item in plan_of().cost.lines if item.owner in ("control-plane", "system")]


def test_an_unknown_type_of_system_nodes_has_an_unknown_price() -> None:
    plan = plan_of(
        scheduler="kubernetes",
        kubernetes={"system_nodes": {"instance_types": ["m99.large"], "min": 1, "max": 1}},
    )
    assert [(item.owner, "m99.large" in item.what) for item in plan.cost.unknown] == [("system", True)]


def _racks(**changes: Any) -> FleetPlan:
    return build_plan(spec(onprem=[rack_site(**changes)]), CATALOG)


def test_racks_cost_their_electricity_at_expected_and_at_full_load() -> None:
    monthly = line(_racks(), "racks", "power").monthly
    full = 64 * Decimal("10.2") * Decimal("1.25") * 730 * Decimal("0.11")
    assert monthly.high == full == Decimal("65524.80")
    assert monthly.expected == full * Decimal("0.7")
    assert monthly.low == monthly.expected


def test_electricity_follows_the_formula_of_the_published_comparison() -> None:
    """1,024 GPUs of 0.7 kW, 70 % load, PUE 1.2, 0.08 USD/kWh over five years: 2,109,800 USD."""
    plan = _racks(power={"per_rack": "40 kW", "pue": 1.2, "price": "0.08 USD/kWh"})
    expected = line(plan, "racks", "power").monthly.expected
    assert expected is not None
    per_kw = expected / (64 * Decimal("10.2"))
    five_years = per_kw * Decimal("0.7") * 1024 * 60
    assert round(five_years) == 2_109_800


def test_racks_of_unknown_power_have_an_unknown_cost() -> None:
    plan = _racks(system="dgx-b300")
    (unknown,) = plan.cost.unknown
    assert (unknown.site, unknown.owner) == ("dc1", "racks")
    assert "power" in unknown.reason


def test_racks_without_a_price_of_energy_have_an_unknown_cost() -> None:
    (unknown,) = _racks(power=None).cost.unknown
    assert "power" in unknown.reason
    assert _racks(power=None).cost.monthly.expected is None


def test_ownership_is_written_off_over_its_lifetime_and_only_where_it_is_declared() -> None:
    owned = _racks(ownership={"acquisition": "270000 USD", "lifetime": "5 y"})
    assert line(owned, "racks", "ownership").monthly.expected == 64 * Decimal(270_000) / 60
    assert not [item for item in _racks().cost.lines if item.kind == "ownership"]
    assert any("sunk" in text for text in _racks().cost.not_counted)


def test_a_team_and_a_node_group_can_be_charged_by_their_tags() -> None:
    plan = plan_of(
        group("a", "p5.48xlarge", on_demand(1, 1), team="research"),
        group("b", "p5.48xlarge", on_demand(2, 2), team="serving"),
    )
    teams = plan.cost.by_tag["gpufleet:team"]
    one = line(plan, "a", "compute").monthly.expected
    assert one is not None
    volume = 200 * Decimal("0.08")
    assert teams["research"].expected == one + volume
    assert teams["serving"].expected == 2 * (one + volume)
    assert plan.cost.by_tag["team"]["ml"] == plan.cost.monthly


def test_the_budget_stands_beside_the_cost() -> None:
    assert plan_of().cost.budget_monthly == 100_000
    assert plan_of().cost.currency == "USD"


def test_every_line_has_a_basis_and_a_source() -> None:
    plan = build_plan(
        spec(
            cloud=[cloud_site(group("a", "p5.48xlarge", block(1)), scheduler="kubernetes")],
            onprem=[rack_site(ownership={"acquisition": "1 USD", "lifetime": "1 y"})],
        ),
        CATALOG,
    )
    for item in plan.cost.lines:
        assert item.basis, item
        assert item.source, item


def test_the_age_of_a_price_is_counted_from_the_day_it_was_read() -> None:
    priced = line(plan_of(group("a", "p5.48xlarge", on_demand(1, 1))), "a", "compute")
    assert price_age(priced, dt.date(2026, 7, 21)) == dt.timedelta(days=1)


def test_old_and_undated_prices_are_told_apart_from_young_ones() -> None:
    cost = plan_of(group("a", "p5.48xlarge", on_demand(1, 1))).cost
    young = {item.line.what for item in stale_prices(cost, dt.date(2026, 8, 1))}
    old = {item.line.what for item in stale_prices(cost, dt.date(2028, 8, 1))}
    assert "1 x p5.48xlarge, on-demand" not in young
    assert "1 x p5.48xlarge, on-demand" in old
    racks = build_plan(spec(onprem=[rack_site()]), CATALOG).cost
    assert stale_prices(racks, dt.date(2036, 1, 1)) == ()
    fsx = {"name": "fs", "mount": "/fsx", "lustre": {"deployment": "scratch-2", "capacity": "1200 GiB"}}
    (undated,) = [
        item
        for item in stale_prices(plan_of(storage=[fsx]).cost, dt.date(2026, 8, 1))
        if item.line.owner == "fs"
    ]
    assert undated.age is None
