"""One price: a plan, and the resources that our program registers for it, cost the same line by line.

`gpufleet plan`, `preview` and `up` show the cost of the plan, `check` and the rules that of the
resources: before they exist (a preview) and once they do (what is deployed, the base of a check).
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpufleet.environments import Choices, draft_environment
from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.plan.names import gateway_resource_name, site_resource_name
from gpufleet.pricing import CostLine, FleetCost, by_use, price_plan, price_stack
from gpufleet.pricing.rates import Prices
from gpufleet.pricing.services import price_resolver_endpoint
from gpufleet.resources.types import (
    BLOCK_EXTENSION,
    BLOCK_OFFERING,
    CAPACITY_BLOCK,
    CLUSTER,
    KEY,
    NAT_GATEWAY,
    RESOLVER_ENDPOINT,
    VPC_ENDPOINT,
    VPN_CONNECTION,
)
from gpufleet.spec.init import TEMPLATES, write_environment
from gpufleet.spec.load import load_fleet
from gpufleet.spec.models import FleetSpec
from tests.unit.plan.fleets import CATALOG, block, cloud_site, group, odcr, on_demand, spec, spot
from tests.unit.plan.random_fleets import random_fleet
from tests.unit.pricing.programs import registered

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENTS = ("sandbox", "dev", "prod")
EXAMPLES = sorted(path.parent.name for path in ROOT.glob("docs/examples/*/fleet.yaml"))
GENERATED = 200
BATCH = 10

_BOUGHT = {"basis": "", "source": "", "date": None, "note": ""}
"""Once a block is bought its price is the fee, and no longer the catalog's rate."""


def lines(cost: FleetCost, *, bought: bool) -> Counter[CostLine]:
    """The lines without values unknown to a plan; the origin of a block's price only before it is bought."""
    return Counter(
        replace(each, urn="", **(_BOUGHT if bought and each.bought == "capacity-block" else {}))
        for each in cost.lines
    )


def assert_one_price(fleet: FleetSpec, *, preview: bool = True) -> None:
    plan = build_plan(fleet, CATALOG)
    stack = registered(plan, preview=preview)
    planned, found = price_plan(plan, CATALOG), price_stack(stack, CATALOG, plan)
    bought = not preview
    missing, more = lines(planned, bought=bought), lines(found, bought=bought)
    assert list((missing - more).elements()) == list((more - missing).elements()) == []
    assert planned.total == found.total
    assert planned.upfront == found.upfront
    for key in ("site", "owner", "team"):
        assert planned.by(key) == found.by(key)
    assert len(planned.unknown) == len(found.unknown)
    assert set(planned.not_counted) == set(found.not_counted)


@pytest.mark.parametrize("preview", [True, False], ids=["before it exists", "once it exists"])
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_plan_and_stack_of_an_environment_have_the_same_price(environment: str, preview: bool) -> None:
    assert_one_price(load_fleet(environment, root=ROOT).spec, preview=preview)


@pytest.mark.parametrize("template", TEMPLATES)
def test_plan_and_stack_of_a_template_have_the_same_price(tmp_path: Path, template: str) -> None:
    text = draft_environment(Choices(template), "lab", "zeus", CATALOG).text
    write_environment(tmp_path, "lab", template, text)
    assert_one_price(load_fleet("lab", root=tmp_path).spec)


@pytest.mark.parametrize("example", EXAMPLES)
def test_plan_and_stack_of_a_documented_example_have_the_same_price(example: str) -> None:
    assert_one_price(load_fleet(str(ROOT / "docs/examples" / example / "fleet.yaml"), root=ROOT).spec)


@pytest.mark.parametrize("first", range(0, GENERATED, BATCH))
def test_plan_and_stack_of_any_fleet_have_the_same_price(first: int) -> None:
    for seed in range(first, first + BATCH):
        fleet = random_fleet(seed, most_sites=1, most_groups=3)
        # A block without a known price gets one when it is bought, which no plan can know.
        lines_of_plan = price_plan(build_plan(fleet, CATALOG), CATALOG).lines
        unpriced = any(_is_unpriced_block(each) for each in lines_of_plan)
        assert_one_price(fleet, preview=seed % 3 != 0 or unpriced)


@pytest.mark.parametrize("preview", [True, False], ids=["before it exists", "once it exists"])
def test_plan_and_stack_price_an_order_over_two_regions_alike(preview: bool) -> None:
    order = {"name": "train", "nodes": 4, "groups": ["usw2/b", "a", "usw2/c"]}
    east = cloud_site(group("a", "g6.xlarge", spot(0, 3)), ordered_capacity=[order])
    west = cloud_site(
        group("b", "g6.xlarge", on_demand(0, 3)),
        group("c", "g6.xlarge", on_demand(0, 3)),
        site="usw2",
        region="us-west-2",
        zones=["us-west-2a"],
    )
    assert_one_price(spec(cloud=[east, west]), preview=preview)


@pytest.mark.parametrize("preview", [True, False], ids=["before it exists", "once it exists"])
def test_plan_and_stack_price_node_pools_of_karpenter_alike(preview: bool) -> None:
    groups = (
        group("sweep", ["g6.xlarge", "g6.2xlarge"], spot(0, 4, "on-demand")),
        group("serve", "g6.xlarge", on_demand(1, 3), team="a"),
        group("fixed", "g6.xlarge", on_demand(2, 2)),
    )
    autoscaler = {"autoscaler": {"kind": "karpenter"}}
    site = cloud_site(*groups, scheduler="kubernetes", kubernetes=autoscaler)
    assert_one_price(spec(cloud=[site]), preview=preview)


@pytest.mark.parametrize("access", [{}, {"access": "phased"}], ids=["applied", "phased"])
@pytest.mark.parametrize("preview", [True, False], ids=["before it exists", "once it exists"])
def test_plan_and_stack_price_reservations_in_node_pools_alike(preview: bool, access: dict[str, str]) -> None:
    held = {"id": "cr-0123456789abcdef0", "zone": "us-east-1a"}
    theirs = {"id": "cr-0123456789abcdef1", "zone": "us-east-1a"}
    site = cloud_site(
        group("made", "g6.xlarge", odcr(2), zones=["us-east-1a"]),
        group("held", "g6.xlarge", odcr(2, **held), team="a"),
        group("bought", "p5.48xlarge", block(1), zones=["us-east-1a"]),
        group("theirs", "p5.48xlarge", block(1, start=None, **theirs)),
        scheduler="kubernetes",
        kubernetes={"autoscaler": {"kind": "karpenter", "reserved_nodes": "node-pools"}, **access},
    )
    fleet = spec(cloud=[site])
    assert_one_price(fleet, preview=preview)
    # Used or not: only the volumes depend on the nodes that run.
    cost, reserved = price_plan(build_plan(fleet, CATALOG), CATALOG), ("made", "held", "bought", "theirs")
    depends = {each.kind for each in cost.lines if each.owner in reserved and each.minimum != each.maximum}
    assert depends == (set() if access else {"storage"})


def _is_unpriced_block(line: CostLine) -> bool:
    block = line.type in (CAPACITY_BLOCK, BLOCK_EXTENSION)
    return block and (line.expected is None or line.assumed)


def test_plan_prices_interface_endpoints_of_a_slurm_site_without_nat() -> None:
    """The plan had 1,207 USD and an unknown where `check` had 1,304 USD or more and none."""
    network = {"cidr": "10.40.0.0/16", "nat": "none"}
    nodes = group("serve", "g6.xlarge", on_demand(2, 2))
    fleet = spec(cloud=[cloud_site(nodes, network=network, zones=["us-east-1a"])])
    cost = price_plan(build_plan(fleet, CATALOG), CATALOG)
    assert cost.unknown == ()
    endpoints = [line for line in cost.lines if line.type == VPC_ENDPOINT]
    assert len(endpoints) == 13
    assert {line.expected for line in endpoints} == {
        730 * CATALOG.service_price("vpc-endpoint-interface-hour", "us-east-1").amount
    }
    assert_one_price(fleet)


@pytest.mark.parametrize("preview", [True, False], ids=["before it exists", "once it exists"])
@pytest.mark.parametrize("region", ["us-east-1", "eu-north-1"])
def test_plan_and_stack_price_a_vpn_alike_where_its_price_is_known_and_where_not(
    region: str, preview: bool
) -> None:
    vpn = {"gateway": "203.0.113.7", "networks": ["10.60.0.0/22"], "static": True}
    network = {"cidr": "10.40.0.0/16", "vpn": vpn}
    fleet = spec(cloud=[cloud_site(network=network, region=region, zones=[f"{region}a"])])
    (line,) = [
        each for each in price_plan(build_plan(fleet, CATALOG), CATALOG).lines if each.type == VPN_CONNECTION
    ]
    assert (line.name, line.owner) == ("atlas-test-use1-vpn", "network")
    assert line.estimated is (region != "us-east-1")
    assert_one_price(fleet, preview=preview)


@pytest.mark.parametrize("owner", [None, "444455556666"])
def test_plan_and_stack_leave_out_what_direct_connect_costs_by_use(owner: str | None) -> None:
    direct = {"gateway": "5f294f92-bafb-4011-916d-9b0bec1f4f35", "networks": ["10.60.0.0/22"]}
    network = {"cidr": "10.40.0.0/16", "direct_connect": direct | ({"owner": owner} if owner else {})}
    fleet = spec(cloud=[cloud_site(network=network)])
    cost = price_plan(build_plan(fleet, CATALOG), CATALOG)
    assert by_use.DIRECT_CONNECT in cost.not_counted
    assert cost.unknown == ()
    assert_one_price(fleet)


@pytest.mark.parametrize("preview", [True, False], ids=["before it exists", "once it exists"])
def test_plan_and_stack_price_each_address_of_dns_endpoints(preview: bool) -> None:
    """0.125 USD per address and hour (Route 53 pricing, "Resolver endpoints")."""
    dns = {"forward": [{"domain": "corp.example", "servers": ["10.60.0.53"]}], "inbound": True}
    vpn = {"gateway": "203.0.113.7", "networks": ["10.60.0.0/22"]}
    fleet = spec(cloud=[cloud_site(network={"cidr": "10.40.0.0/16", "vpn": vpn, "dns": dns})])
    cost = price_plan(build_plan(fleet, CATALOG), CATALOG)
    assert not cost.unknown
    lines = [each for each in cost.lines if each.type == RESOLVER_ENDPOINT]
    assert {each.name for each in lines} == {
        f"atlas-test-use1-dns-{each}" for each in ("inbound", "outbound")
    }
    assert {each.what for each in lines} == {"Route 53 Resolver endpoint with 2 addresses"}
    assert {each.expected for each in lines} == {Decimal("182.5")}
    assert not any(each.estimated for each in lines)
    assert_one_price(fleet, preview=preview)


@pytest.mark.parametrize("region", sorted(CATALOG.regions))
def test_price_of_dns_endpoints_is_the_same_in_all_regions(region: str) -> None:
    line = price_resolver_endpoint(Prices(CATALOG, region), 4)
    assert (line.minimum, line.expected, line.maximum) == (Decimal(365),) * 3
    assert line.left_out == (by_use.DNS,)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_plan_lists_every_key_log_group_add_on_gateway_and_image_of_the_stack(environment: str) -> None:
    plan: FleetPlan = build_plan(load_fleet(environment, root=ROOT).spec, CATALOG)
    stack = registered(plan, preview=True)
    sites = plan.cloud
    assert {each.name for each in stack.of_type(KEY)} == {
        key.name for keys in (plan.keys, *(site.keys for site in sites)) for key in keys
    }
    made = stack.of_type("aws:cloudwatch/logGroup:LogGroup")
    planned = [*plan.log_groups, *(logs for site in sites for logs in site.log_groups)]
    assert {(each.get("name"), each.get("retentionInDays")) for each in made} == {
        (logs.name, logs.retention_days) for logs in planned
    }
    assert {each.get("addonName") for each in stack.of_type("aws:eks/addon:Addon")} == {
        name for site in sites if site.kubernetes is not None for name in site.kubernetes.addons
    }
    assert {tuple(each.get("enabledClusterLogTypes")) for each in stack.of_type(CLUSTER)} == {
        site.kubernetes.log_types for site in sites if site.kubernetes is not None
    }
    assert {each.name for each in stack.of_type(NAT_GATEWAY)} == {
        gateway_resource_name(site_resource_name(plan.fleet, plan.environment, site.site), zone)
        for site in sites
        for zone in site.nat_zones
    }
    # The plan's image is in the launch template.
    assert {each.get("amiType") for each in stack.of_type("aws:eks/nodeGroup:NodeGroup")} <= {"CUSTOM"}


def test_block_of_the_emulated_aws_costs_what_the_plan_says() -> None:
    """p5en has the price of "most regions": the emulated AWS made one up and asked 672 USD for 27,962."""
    reserved = {"reserved": {"capacity_block": {"nodes": 1, "duration": "28 d", "start": "in 14 d"}}}
    fleet = spec(cloud=[cloud_site(group("train", "p5en.48xlarge", reserved))])
    plan = build_plan(fleet, CATALOG)
    (offering,) = registered(plan, preview=False).of_type(BLOCK_OFFERING)
    assert f"{price_plan(plan, CATALOG).upfront:.2f}" == offering.get("upfront_fee")
    assert_one_price(fleet, preview=False)


def test_block_without_a_price_is_unknown_in_plan_and_stack_until_it_is_bought() -> None:
    region = "us-east-1"
    name = next(each for each in sorted(CATALOG.instances) if not CATALOG.capacity_block(each, region).known)
    reserved = {"reserved": {"capacity_block": {"nodes": 1, "duration": "7 d", "start": "in 14 d"}}}
    fleet = spec(cloud=[cloud_site(group("train", name, reserved), region=region)])
    assert_one_price(fleet)
    plan = build_plan(fleet, CATALOG)
    bought = price_stack(registered(plan, preview=False), CATALOG, plan)
    assert [each.type for each in price_plan(plan, CATALOG).unknown] == [CAPACITY_BLOCK]
    assert bought.unknown == ()
    assert bought.upfront > 0
