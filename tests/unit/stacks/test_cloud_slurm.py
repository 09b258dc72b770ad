"""A site whose nodes the Slurm of a rack site launches, built in moto."""

from __future__ import annotations

import base64
import email
import json
from decimal import Decimal
from typing import Any

import pytest
import yaml

from gpufleet.account.actions import linked_roles
from gpufleet.errors import InputError
from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.pricing.of_plan import price_plan
from gpufleet.pricing.rates import settle
from gpufleet.racks.inventory import build_inventory
from gpufleet.resources.types import AUTO_SCALING_GROUP, LAUNCHED_NODES
from gpufleet.stacks.program import build_fleet
from gpufleet.stacks.settings import StackSettings
from tests.unit.components.recording import Recording, record
from tests.unit.plan.fleets import CATALOG, block, cloud_site, group, odcr, on_demand, spec, spot
from tests.unit.plan.random_fleets import LAUNCHED, SLURM_RACK
from tests.unit.stacks.moto_mocks import MotoMocks, emulated_aws, simulated_actions

SETTINGS = StackSettings("sandbox", "sandbox", False, None, {}, {})
IMAGE = "ami-12c6146b"
LUSTRE = {"name": "fs", "mount": "/fsx", "lustre": {"capacity": "1200 GiB", "throughput": "125 MB/s/TiB"}}


def plan(
    *groups: dict[str, Any],
    on_breach: str = "notify",
    storage: list[Any] | None = None,
    burst: dict[str, Any] | None = None,
) -> FleetPlan:
    slurm = LAUNCHED if burst is None else {**LAUNCHED, "burst": burst}
    site = cloud_site(*groups, slurm=slurm, storage=storage or [])
    budget = {"monthly": "100000 USD", "on_breach": on_breach}
    return build_plan(spec(cloud=[site], onprem=[SLURM_RACK], budget=budget), CATALOG)


def sweep(**changes: Any) -> dict[str, Any]:
    return group("sweep", ["g6e.xlarge", "g6e.2xlarge"], on_demand(0, 16), image=IMAGE, **changes)


def built(of: FleetPlan) -> tuple[Recording, dict[str, Any]]:
    """The resources of the fleet, and its exports."""
    exports: dict[str, Any] = {}

    def program() -> None:
        import pulumi

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pulumi, "export", exports.__setitem__)
            build_fleet(of, SETTINGS)
            pulumi.Output.all(exports["use1"]).apply(lambda found: exports.update(use1=found[0]))

    with emulated_aws():
        made = record(program, MotoMocks())
    return made, exports


def test_site_has_launch_templates_and_no_groups() -> None:
    made, _ = built(plan(sweep(), group("spot", "g6e.xlarge", spot(0, 4), image=IMAGE)))
    assert not made.of(AUTO_SCALING_GROUP)
    nodes = {each.name: each.inputs for each in made.of(LAUNCHED_NODES)}
    assert {name: (each["most"], each["spot"]) for name, each in nodes.items()} == {
        "atlas-test-use1-sweep": (16, False),
        "atlas-test-use1-spot": (4, True),
    }
    assert nodes["atlas-test-use1-sweep"]["tags"] == {
        "gpufleet:fleet": "atlas",
        "gpufleet:environment": "test",
        "gpufleet:site": "use1",
        "gpufleet:node-group": "sweep",
    }


def test_nodes_find_their_controllers_key_and_file_systems_in_their_user_data() -> None:
    made, _ = built(plan(sweep(user_data=["#!/bin/sh\ntrue\n"]), storage=[LUSTRE]))
    data = base64.b64decode(made.one("LaunchTemplate").inputs["userData"])
    parts = [part.get_payload() for part in email.message_from_bytes(data).walk() if not part.is_multipart()]
    (file,) = yaml.safe_load(str(parts[0]))["write_files"]
    assert file["path"] == "/etc/gpufleet/cloud-node.json"
    settings = json.loads(file["content"])
    (mount,) = settings.pop("mounts")
    assert settings == {
        "controllers": ["10.99.0.11:6817"],
        "region": "us-east-1",
        "munge_parameter": "/gpufleet/atlas/test/use1/munge-key",
    }
    assert (mount["kind"], mount["path"]) == ("lustre", "/fsx") and "@tcp:/" in mount["source"]
    assert any("true" in str(part) for part in parts[1:])


@pytest.mark.parametrize(
    ("capacity", "purchases"),
    [
        (on_demand(0, 4), ["on-demand"]),
        (spot(0, 4, "wait"), ["spot"]),
        (spot(0, 4, "other-zone", "on-demand"), ["spot", "on-demand"]),
        (odcr(2), ["on-demand"]),
        (block(1, id="cr-0123456789abcdef0", zone="us-east-1a"), ["capacity-block"]),
    ],
)
def test_controllers_learn_how_nodes_are_bought(capacity: dict[str, Any], purchases: list[str]) -> None:
    _, exports = built(plan(group("sweep", "p5.48xlarge", capacity, image=IMAGE)))
    (found,) = exports["use1"]["slurm"]["groups"]
    assert found["purchases"] == purchases
    assert (found["name"], found["prefix"]) == ("atlas-test-use1-sweep", "use1-sweep-")


def test_inventory_gives_the_controllers_the_nodes_and_the_way_to_launch_them() -> None:
    of = plan(sweep(team="a"), group("cpu", "m7i.xlarge", on_demand(0, 2), image=IMAGE))
    _, exports = built(of)
    outputs = {"use1": exports["use1"]}
    given = build_inventory(of, CATALOG, outputs)["all"]["children"]["site_r9"]["vars"]
    assert given["slurm_cloud_sites"] == [exports["use1"]["slurm"]]
    assert given["slurm_cloud_retry_s"] == 600
    gpu, cpu = given["slurm_controller_cloud_groups"]
    assert gpu == {
        "nodes": "use1-sweep-[1-16]",
        "partition": "use1-sweep",
        "cpus": 4,
        "sockets": 1,
        "cores_per_socket": 2,
        "threads_per_core": 2,
        "memory_mib": 31129,
        "gpu_type": "l40s",
        "gpus": 1,
        "accounts": ["a"],
        "max_minutes": 0,
        "suspend_s": 600,
        "resume_s": 1200,
    }
    assert (cpu["nodes"], cpu["gpus"], cpu["gpu_type"]) == ("use1-cpu-[1-2]", 0, "")
    assert "10.40.0.0/16" in given["firewall_networks"]
    # Without the stack's outputs the controllers know no nodes that they could launch.
    before = build_inventory(of, CATALOG)["all"]["children"]["site_r9"]["vars"]
    assert (before["slurm_cloud_sites"], before["slurm_controller_cloud_groups"]) == ([], [])


def test_controllers_learn_which_waiting_jobs_may_use_the_nodes() -> None:
    rules = {"teams": ["a"], "monthly": "99.50 USD", "partitions": ["gpu"], "groups": ["sweep"]}
    of = plan(sweep(), group("cpu", "m7i.xlarge", on_demand(0, 2), image=IMAGE), burst=rules)
    _, exports = built(of)

    def given(site: Any) -> Any:
        hosts = build_inventory(of, CATALOG, {"use1": site})["all"]["children"]["site_r9"]["vars"]
        return hosts["slurm_cloud_sites"][0]["burst"]

    (line,) = [
        line for line in price_plan(of, CATALOG).lines if "g6e" in line.what and line.kind == "compute"
    ]
    (disks,) = [
        line for line in price_plan(of, CATALOG).lines if line.owner == "sweep" and line.kind == "storage"
    ]
    assert line.maximum is not None and disks.maximum is not None
    hourly = settle((line.maximum + disks.maximum) / 16 / 730)
    # The second type is the more expensive one: 2.24208 USD/h (EC2 on-demand prices, us-east-1).
    assert hourly > Decimal("2.24208")
    found = given(exports["use1"])
    assert found == {
        "accounts": ["a"],
        "partitions": ["gpu"],
        "after_s": 1800,
        "boot_s": 1200,
        "idle_s": 600,
        "monthly_usd": "99.50",
        "groups": [
            {
                "partition": "use1-sweep",
                "nodes": 16,
                "cpus": 4,
                "memory_mib": 31129,
                "gpus": 1,
                "gpu_type": "l40s",
                "usd_per_hour": f"{hourly:f}",
            }
        ],
    }
    # A group that `up` has not made yet is no place for jobs.
    before = {**exports["use1"], "slurm": {**exports["use1"]["slurm"], "groups": []}}
    assert given(before)["groups"] == []


def test_group_without_a_price_is_refused_where_jobs_may_burst() -> None:
    of = plan(sweep(), burst={"teams": ["a"], "monthly": "99 USD"})
    slurm = of.cloud[0].slurm
    assert slurm is not None and slurm.burst is not None
    # The racks declare no partition of their own, and the site one group.
    assert (slurm.burst.partitions, slurm.burst.groups) == (("gpu",), ("sweep",))
    _, exports = built(of)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpufleet.racks.inventory.node_hours", lambda *_: {"sweep": None})
        with pytest.raises(InputError, match="no price of node group 'sweep' of site 'use1' is known"):
            build_inventory(of, CATALOG, {"use1": exports["use1"]})


def test_breach_of_the_budget_stops_launches_where_the_fleet_file_says_so() -> None:
    made, exports = built(plan(sweep(), on_breach="stop-scale-out"))
    assert exports["use1"]["slurm"]["stopped_parameter"] == "/gpufleet/atlas/test/stopped-groups"
    (function,) = made.of("Function")
    settings = json.loads(function.inputs["code"]["settings.json"])
    assert settings["launched"] == {"atlas-test-use1-sweep": 16}
    assert settings["sites"] == []
    _, exports = built(plan(sweep()))
    assert exports["use1"]["slurm"]["stopped_parameter"] == ""


def test_preflight_asks_for_what_launched_nodes_need_and_for_no_groups() -> None:
    of = plan(sweep())
    assert {"ssm:PutParameter", "kms:Encrypt", "iam:CreateRole"} <= simulated_actions(of)
    assert not any(action.startswith("autoscaling:") for action in simulated_actions(of))
    assert linked_roles(of) == {}


def test_breach_of_the_budget_drains_spot_nodes_where_the_fleet_file_says_so() -> None:
    cheap = group("cheap", "g6e.xlarge", spot(0, 4, "on-demand"), image=IMAGE)
    made, exports = built(plan(sweep(), cheap, on_breach="drain-spot"))
    slurm = exports["use1"]["slurm"]
    parameter = "/gpufleet/atlas/test/drained/atlas-test-use1-cheap"
    assert [each.get("drained_parameter") for each in slurm["groups"]] == [None, parameter]
    assert slurm["checkpoint_s"] == 90
    (function,) = [each for each in made.of("Function") if each.name.endswith("-drain")]
    settings = json.loads(function.inputs["code"]["settings.json"])
    assert (settings["launched"], settings["sites"]) == ({"atlas-test-use1-cheap": 4}, [])
    statements = [
        each
        for policy in made.of("RolePolicy")
        if policy.name == "atlas-test-use1-launcher"
        for each in json.loads(policy.inputs["policy"])["Statement"]
    ]
    (reads,) = [each for each in statements if each["Action"] == ["ssm:GetParameters"]]
    assert reads["Resource"][0].endswith(":parameter/gpufleet/atlas/test/drained/*")
    _, exports = built(plan(sweep(), cheap, on_breach="stop-scale-out"))
    assert "checkpoint_s" not in exports["use1"]["slurm"]
    assert all("drained_parameter" not in each for each in exports["use1"]["slurm"]["groups"])
