"""The cost of fleets: figures that can be checked by hand, and their sources."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from gpufleet.plan import build_plan
from gpufleet.pricing.age import price_age, stale_prices
from gpufleet.pricing.by_use import CLAIMS
from gpufleet.pricing.estimates import MARGIN, SPOT_FLOOR, SPREAD
from gpufleet.pricing.json import by_tag, cost_to_json
from gpufleet.pricing.rates import Prices
from gpufleet.resources.types import ADDRESS, NAT_GATEWAY
from tests.unit.plan.fleets import (
    CATALOG,
    block,
    cloud_site,
    cost_of,
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


def test_hourly_price_of_p5_is_that_of_p5_4xlarge_times_its_gpus() -> None:
    big = line(plan_of(group("a", "p5.48xlarge", on_demand(1, 1))), "a", "compute").expected
    small = line(plan_of(group("a", "p5.4xlarge", on_demand(1, 1))), "a", "compute").expected
    assert big is not None
    assert small is not None
    assert big / 730 / 8 == Decimal("6.88")
    assert big == 8 * small


def test_on_demand_nodes_cost_730_hours_at_each_size() -> None:
    priced = line(plan_of(group("a", "p5.48xlarge", on_demand(1, 8, 4))), "a", "compute")
    assert priced.minimum == 1 * 730 * P5
    assert priced.expected == 4 * 730 * P5
    assert priced.maximum == 8 * 730 * P5
    assert priced.basis == "4 x p5.48xlarge x 730 h x 55.04 USD/h; 1 to 8 nodes"
    assert "aws.amazon.com/ec2/pricing/on-demand" in priced.source
    assert priced.date == "2026-09-18"
    assert "spot" not in priced.note


def test_reservation_costs_the_on_demand_price_for_all_nodes() -> None:
    priced = line(plan_of(group("a", "p5.48xlarge", odcr(3, zone="us-east-1a"))), "a", "compute")
    assert priced.minimum == priced.expected == priced.maximum == 3 * 730 * P5
    assert "used or not" in priced.note


def test_capacity_block_is_paid_upfront_and_spread_over_months() -> None:
    rate = CATALOG.capacity_block("p5.48xlarge", "us-east-1").amount
    assert rate is not None
    short = line(plan_of(group("a", "p5.48xlarge", block(8, duration="14 d"))), "a", "compute")
    assert short.upfront == 8 * 14 * 24 * rate
    assert short.expected == short.upfront
    assert short.minimum == short.maximum == short.expected
    long = line(plan_of(group("a", "p5.48xlarge", block(8, duration="182 d"))), "a", "compute")
    assert long.upfront == 8 * 182 * 24 * rate
    assert long.expected == 8 * 730 * rate


def test_upfront_payments_of_a_fleet_are_summed() -> None:
    plan = plan_of(group("a", "p5.48xlarge", block(1)), group("b", "p5en.48xlarge", block(1)))
    lines = [item for item in cost_of(plan).lines if item.upfront]
    assert cost_of(plan).upfront == sum(item.upfront for item in lines)
    assert len(lines) == 2


def test_existing_block_is_not_paid_again() -> None:
    capacity = block(8, id="cr-0123456789abcdef0", zone="us-east-1a", start=None)
    plan = plan_of(group("a", "p5.48xlarge", capacity))
    priced = line(plan, "a", "compute")
    assert priced.upfront == 0
    assert cost_of(plan).upfront == 0
    assert priced.expected is not None
    assert priced.expected > 0


def test_existing_block_without_dates_has_an_unknown_cost() -> None:
    capacity = {"reserved": {"capacity_block": {"nodes": 1, "id": "cr-0123456789abcdef0"}}}
    plan = plan_of(group("a", "p5.48xlarge", capacity))
    (unknown,) = [item for item in cost_of(plan).unknown if item.owner == "a"]
    assert "duration" in unknown.reason
    assert (unknown.kind, unknown.expected, unknown.upfront) == ("compute", None, 0)


def test_root_volumes_exist_as_long_as_their_block() -> None:
    whole = line(plan_of(group("a", "p5.48xlarge", block(1, duration="182 d"))), "a", "storage")
    part = line(plan_of(group("a", "p5.48xlarge", block(1, duration="7 d"))), "a", "storage")
    assert whole.expected == 200 * Decimal("0.08")
    assert part.expected == (whole.expected * 168 / 730).quantize(Decimal("0.000001"))


def test_spot_is_expected_at_the_median_of_all_zones() -> None:
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
    monthly = line(plan, "a", "compute")
    assert monthly.minimum == 1 * 730 * prices.low
    assert monthly.expected == 2 * 730 * prices.median
    assert monthly.maximum == 4 * 730 * prices.high
    assert prices.low < prices.median < prices.high


def test_spot_nodes_without_a_fallback_cost_nothing_on_demand() -> None:
    priced = line(plan_of(group("a", "p5.48xlarge", spot(1, 4))), "a", "compute")
    assert priced.source == Prices(CATALOG, "us-east-1").node("p5.48xlarge", "spot").source


@pytest.mark.parametrize(
    ("action", "access", "left_out"),
    [("drain", "direct", True), ("drain", "phased", False), ("detect", "direct", False)],
)
def test_events_of_fault_repair_are_on_volumes_once_it_is_installed(
    action: str, access: str, left_out: bool
) -> None:
    settings = {"access": access, "gpu_stack": "gpu-operator", "fault_repair": {"action": action}}
    planned = plan_of(group("a", "g6.xlarge", on_demand(1, 2)), scheduler="kubernetes", kubernetes=settings)
    assert (CLAIMS in cost_of(planned).not_counted) is left_out


def test_maximum_price_limits_the_spot_cost() -> None:
    prices = CATALOG.spot("p5en.48xlarge", "us-west-2")
    assert prices is not None
    most = prices.median
    assert prices.low < most < prices.high
    bought = {"spot": {"min": 1, "max": 4, "desired": 2, "max_price": f"{most} USD/h"}}
    site = cloud_site(group("a", "p5en.48xlarge", bought), region="us-west-2", zones=["us-west-2a"])
    monthly = line(build_plan(spec(cloud=[site]), CATALOG), "a", "compute")
    assert (monthly.minimum, monthly.expected, monthly.maximum) == (
        730 * prices.low,
        2 * 730 * most,
        4 * 730 * most,
    )


def test_spot_saving_in_us_west_2_matches_the_published_figures() -> None:
    """Median 12.98 of 55.04 USD/h: 76.4 % before anything is lost to interruptions."""
    monthly = line(
        plan_of(
            group("a", "p5.48xlarge", {"spot": {"min": 1, "max": 1}}),
            region="us-west-2",
            zones=["us-west-2a"],
        ),
        "a",
        "compute",
    )
    assert monthly.expected is not None
    assert ((1 - monthly.expected / 730 / P5) * 100).quantize(Decimal("0.1")) == Decimal("76.4")


def test_zones_where_spot_equals_on_demand_count_only_for_the_worst_case() -> None:
    """Two of six zones had no spare capacity; of the four others the median is 20.2037 USD/h."""
    monthly = line(plan_of(group("a", "p5.48xlarge", {"spot": {"min": 1, "max": 1}})), "a", "compute")
    assert monthly.expected == 730 * Decimal("20.2037")
    assert monthly.maximum == 730 * P5


def test_spot_group_with_a_fallback_is_two_groups_that_can_both_be_full() -> None:
    both = cost_of(plan_of(group("a", "p4d.24xlarge", spot(0, 4, "on-demand"))))
    single = cost_of(plan_of(group("a", "p4d.24xlarge", spot(0, 4))))
    on_demand_nodes, volumes = 4 * 730 * Decimal("21.957642"), 4 * 200 * Decimal("0.08")
    assert (
        both.by("owner")["use1/a"].maximum == single.by("owner")["use1/a"].maximum + on_demand_nodes + volumes
    )
    assert both.by("owner")["use1/a"].expected == single.by("owner")["use1/a"].expected
    fallback = [item for item in both.lines if item.name == "atlas-test-use1-a-fallback"]
    assert [(item.kind, item.maximum) for item in fallback] == [
        ("compute", on_demand_nodes),
        ("storage", volumes),
    ]


def test_first_type_is_expected_and_the_others_widen_the_range() -> None:
    both = line(
        plan_of(group("a", ["p4d.24xlarge", "p4de.24xlarge"], {"spot": {"min": 1, "max": 1}})), "a", "compute"
    )
    d, de = CATALOG.spot("p4d.24xlarge", "us-east-1"), CATALOG.spot("p4de.24xlarge", "us-east-1")
    assert d is not None
    assert de is not None
    assert both.expected == 730 * d.median
    assert both.minimum == 730 * min(d.low, de.low)
    assert both.maximum == 730 * max(d.high, de.high)


def test_unknown_price_is_never_zero() -> None:
    plan = plan_of(group("a", "p5e.48xlarge", on_demand(1, 4)))
    (unknown,) = cost_of(plan).unknown
    assert (unknown.site, unknown.owner, unknown.kind) == ("use1", "a", "compute")
    assert unknown.minimum is unknown.expected is unknown.maximum is None
    assert "p5e.48xlarge" in unknown.what
    assert "us-east-1" in unknown.reason


def test_missing_spot_price_counts_as_the_on_demand_price() -> None:
    estimated = line(plan_of(group("a", "g7.2xlarge", spot(1, 2))), "a", "compute")
    price = CATALOG.on_demand("g7.2xlarge", "us-east-1").amount
    assert price is not None
    assert estimated.estimated
    assert estimated.expected == 730 * price
    assert estimated.maximum == 2 * 730 * price
    assert estimated.minimum == 730 * (price * SPOT_FLOOR).quantize(Decimal("0.000001"))
    assert "at most the on-demand price" in estimated.note


def test_missing_price_of_a_region_is_estimated_from_the_others() -> None:
    plan = plan_of(group("a", "g7.2xlarge", on_demand(1, 2)), region="eu-central-1", zones=["eu-central-1a"])
    estimated = line(plan, "a", "compute")
    known = [price.amount for price in CATALOG.instance("g7.2xlarge").on_demand.values() if price.amount]
    assert "eu-central-1" not in CATALOG.instance("g7.2xlarge").on_demand
    assert estimated.minimum == 730 * min(known)
    # Only two different prices are known: 2.1 times the lowest covers all differences that were seen.
    assert estimated.expected == 730 * max(max(known) * MARGIN, min(known) * SPREAD)
    assert estimated.maximum == 2 * estimated.expected
    assert estimated.estimated
    assert "no on-demand price of g7.2xlarge in eu-central-1 is known" in estimated.note


def test_cost_of_nodes_is_unknown_if_one_of_two_types_is_unknown() -> None:
    """The whole group may be of the type without a price: a partial price would be misleading."""
    (unknown,) = cost_of(plan_of(group("a", ["p5.48xlarge", "p5e.48xlarge"], on_demand(1, 1)))).unknown
    assert unknown.what == "1 x p5.48xlarge, on-demand"
    assert "p5e.48xlarge" in unknown.reason


@pytest.mark.parametrize(
    ("lustre", "expected"),
    [
        ({"deployment": "scratch-2", "capacity": "1200 GiB"}, Decimal(168)),
        ({"throughput": "125 MB/s/TiB", "capacity": "1200 GiB"}, Decimal(174)),
    ],
)
def test_fsx_costs_match_the_published_examples(lustre: dict[str, str], expected: Decimal) -> None:
    plan = plan_of(storage=[{"name": "fs", "mount": "/fsx", "lustre": lustre}])
    assert line(plan, "fs", "storage").expected == expected


@pytest.mark.parametrize(
    ("throughput", "low", "high"),
    [
        # A derived price of the region itself, and a tier that was read in another region alone.
        ("500 MB/s/TiB", "0.34", "0.459"),
        ("250 MB/s/TiB", "0.21", "0.441"),
    ],
)
def test_fsx_tier_with_a_weak_or_no_price_of_the_region_is_an_estimate(
    throughput: str, low: str, high: str
) -> None:
    lustre = {"throughput": throughput, "capacity": "1200 GiB"}
    estimated = line(plan_of(storage=[{"name": "fs", "mount": "/fsx", "lustre": lustre}]), "fs", "storage")
    assert estimated.estimated
    assert (estimated.minimum, estimated.expected) == (1200 * Decimal(low), 1200 * Decimal(high))
    assert estimated.maximum == estimated.expected


def test_objects_in_buckets_are_listed_as_not_counted_and_not_as_unknown() -> None:
    plan = plan_of(storage=[{"name": "data", "bucket": {"name": "atlas-data"}}])
    assert cost_of(plan).unknown == ()
    assert "objects in S3 buckets, and requests to them" in cost_of(plan).not_counted


def test_root_volumes_are_priced_by_size_and_extra_performance() -> None:
    volume = {"size": "40 GiB", "iops": 4000, "throughput": 130}
    plan = plan_of(group("a", "p5.48xlarge", on_demand(1, 1), volume=volume))
    assert line(plan, "a", "storage").expected == Decimal("3.20") + Decimal("0.20") + Decimal("5.00")


def test_public_addresses_of_reserved_nodes_cost_extra() -> None:
    """A reservation covers the instances, and nothing else."""
    held = line(plan_of(group("a", "g6.xlarge", odcr(2), public_ip=True)), "a", "network")
    assert held.expected == 2 * 730 * Decimal("0.005")


@pytest.mark.parametrize(("nat", "gateways"), [("single", 1), ("per-zone", 2)])
def test_nat_gateways_have_an_hourly_price(nat: str, gateways: int) -> None:
    cost = cost_of(plan_of(network={"cidr": "10.40.0.0/16", "nat": nat}))
    found = [item.expected for item in cost.lines if item.type == NAT_GATEWAY]
    assert found == [730 * Decimal("0.045")] * gateways
    addresses = [item.expected for item in cost.lines if item.type == ADDRESS]
    assert addresses == [730 * Decimal("0.005")] * gateways


def test_kubernetes_site_pays_for_its_control_plane_and_system_nodes() -> None:
    plan = plan_of(scheduler="kubernetes", kubernetes={"system_nodes": {"min": 2, "max": 3}})
    control = line(plan, "control-plane", "control-plane")
    assert control.minimum == control.expected == control.maximum == 73
    system = line(plan, "system", "compute")
    assert system.minimum == system.expected
    assert system.maximum is not None
    assert system.expected is not None
    assert 2 * system.maximum == 3 * system.expected
    assert line(plan, "system", "storage").expected == 2 * 200 * Decimal("0.08")


def test_slurm_site_pays_for_no_control_plane() -> None:
    assert not [item for item in cost_of(plan_of()).lines if item.owner in ("control-plane", "system")]


def test_unknown_type_of_system_nodes_has_an_unknown_price() -> None:
    plan = plan_of(
        scheduler="kubernetes",
        kubernetes={"system_nodes": {"instance_types": ["m99.large"], "min": 1, "max": 1}},
    )
    assert [(item.owner, "m99.large" in item.what) for item in cost_of(plan).unknown] == [("system", True)]


def test_team_and_node_group_can_be_charged_by_their_tags() -> None:
    plan = plan_of(
        group("a", "p5.48xlarge", on_demand(1, 1), team="research"),
        group("b", "p5.48xlarge", on_demand(2, 2), team="serving"),
    )
    tags = by_tag(cost_of(plan), plan)
    teams = tags["gpufleet:team"]
    one = line(plan, "a", "compute").expected
    assert one is not None
    volume = 200 * Decimal("0.08")
    assert teams["research"].expected == one + volume
    assert teams["serving"].expected == 2 * (one + volume)
    assert tags["team"]["ml"] == cost_of(plan).total


def test_budget_is_shown_with_the_cost() -> None:
    plan = plan_of()
    budget = cost_to_json(cost_of(plan), plan)["budget"]
    assert {"monthly": 100_000, "currency": "USD"}.items() <= budget.items()
    assert [each["basis"] for each in budget["aws"]] == ["100,000 USD"]


def test_lines_without_a_price_are_named_apart_from_the_others() -> None:
    plan = plan_of(group("a", "p5.48xlarge", block(1, start=None, duration=None, id="cr-0123456789abcdef0")))
    found = cost_to_json(cost_of(plan), plan)
    assert [each["owner"] for each in found["monthly"]["unknown"]] == ["a"]
    assert found["lines"]
    assert all(each["monthly"]["expected"] is not None for each in found["lines"])


def test_every_line_has_a_basis_and_a_source() -> None:
    plan = build_plan(
        spec(
            cloud=[cloud_site(group("a", "p5.48xlarge", block(1)), scheduler="kubernetes")],
            onprem=[rack_site(ownership={"acquisition": "1 USD", "lifetime": "1 y"})],
        ),
        CATALOG,
    )
    for item in cost_of(plan).lines:
        assert item.basis, item
        assert item.source, item


def test_age_of_a_price_counts_from_its_read_date() -> None:
    priced = line(plan_of(group("a", "p5.48xlarge", on_demand(1, 1))), "a", "compute")
    assert price_age(priced, dt.date(2026, 9, 19)) == dt.timedelta(days=1)


def test_old_and_undated_prices_differ_from_recent_ones() -> None:
    cost = cost_of(plan_of(group("a", "p5.48xlarge", on_demand(1, 1))))
    young = {item.line.what for item in stale_prices(cost, dt.date(2026, 11, 1))}
    old = {item.line.what for item in stale_prices(cost, dt.date(2028, 8, 1))}
    assert "1 x p5.48xlarge, on-demand" not in young
    assert "1 x p5.48xlarge, on-demand" in old
    racks = cost_of(build_plan(spec(onprem=[rack_site()]), CATALOG))
    assert stale_prices(racks, dt.date(2036, 1, 1)) == ()
    spots = cost_of(plan_of(group("a", "g6e.xlarge", spot(1, 1))))
    (undated,) = [item for item in stale_prices(spots, dt.date(2026, 8, 1)) if item.line.kind == "compute"]
    assert undated.age is None
