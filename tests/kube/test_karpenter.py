"""A real Karpenter with the settings and rights that `up` gives it, on a real API server and an emulated AWS.

The server has Karpenter's own definitions, which judge our node pools. The tests go on from each other, in
the order in which they stand.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
import yaml

from gpufleet.lab.kubernetes.rest import Rest
from tests.conftest import Checkout
from tests.kube.build import MINOR
from tests.kube.cluster import ApiServerProcess
from tests.kube.cluster_programs import CLUSTER_MODULE, KARPENTER, KARPENTER_MODULE, module_folder
from tests.kube.karpenter_controller import (
    CLASSES,
    CLUSTER,
    DEFINITIONS,
    ENVIRONMENT,
    GPU,
    ORDER,
    POOLS,
    REGION,
    Controller,
    changed,
    claims,
    items,
    launched,
    path_of,
    ready,
    refusal,
    served,
    wait,
    wait_for_node,
)

pytestmark = pytest.mark.xdist_group("kube")

FLEET: dict[str, Any] = {
    "apiVersion": "gpufleet/v1",
    "fleet": "krp",
    "environment": ENVIRONMENT,
    "budget": {"monthly": "900000 USD", "on_breach": "stop-scale-out"},
    "tags": {"team": "ml", "cost-center": "cc-1", "project": "atlas"},
    "cloud": [
        {
            "site": "use1",
            "region": REGION,
            "zones": ["us-east-1a", "us-east-1b"],
            "network": {"cidr": "10.42.0.0/16"},
            "scheduler": "kubernetes",
            "kubernetes": {
                "version": "1.35",
                "access": "ssm",
                "autoscaler": {"kind": "karpenter", "reserved_nodes": "node-pools"},
            },
            "node_groups": [
                {
                    "name": "sweep",
                    "instance_types": ["g5.xlarge", "g5.2xlarge"],
                    "capacity": {"spot": {"min": 0, "max": 2, "on_shortage": ["other-type", "on-demand"]}},
                },
                {
                    "name": "train",
                    "instance_types": ["p4d.24xlarge"],
                    "capacity": {"on_demand": {"min": 0, "max": 2}},
                    "zones": ["us-east-1a"],
                    "network": "efa",
                    "taints": [{"key": "dedicated"}],
                },
                {
                    "name": "serve",
                    "instance_types": ["m7i.xlarge", "m6i.xlarge"],
                    "capacity": {"on_demand": {"min": 1, "max": 3}},
                    "user_data": ["#!/bin/sh\nsysctl -w vm.max_map_count=1000000\n"],
                    "labels": {"tier": "online"},
                },
                {
                    "name": "held",
                    "instance_types": ["g6.xlarge"],
                    "capacity": {"reserved": {"odcr": {"nodes": 1}}},
                    "zones": ["us-east-1a"],
                },
                {
                    "name": "later",
                    "instance_types": ["p5.48xlarge"],
                    "capacity": {
                        "reserved": {"capacity_block": {"nodes": 1, "duration": "7 d", "start": "in 14 d"}}
                    },
                },
                {
                    "name": "fixed",
                    "instance_types": ["g6.xlarge"],
                    "capacity": {"on_demand": {"min": 1, "max": 1}},
                },
            ],
        }
    ],
    "software": {"channel": "2026.11"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServerProcess]:
    """A server of its own, with Karpenter's definitions: those of the chart that `up` installs."""
    made = ApiServerProcess(tmp_path_factory.mktemp("server"), minor=MINOR)
    made.start()
    folder = module_folder(CLUSTER_MODULE, KARPENTER_MODULE) / "pkg/apis/crds"
    for file in sorted(folder.glob("karpenter.*.yaml")):
        made.rest().call("POST", DEFINITIONS, yaml.load(file.read_text(), Loader=yaml.CSafeLoader))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def checkout(shared_checkout: Checkout) -> Iterator[Checkout]:
    """A checkout whose fleet is up in the emulated AWS. It installs no charts on a server: what is in the
    cluster are files."""
    file = shared_checkout.root / "stacks" / ENVIRONMENT / "fleet.yaml"
    file.write_text(yaml.safe_dump(FLEET, sort_keys=False))
    options = ("--engine", "embedded", "--yes", "--skip-policies")
    done = shared_checkout.json("up", ENVIRONMENT, *options)
    assert done["ok"], done
    yield shared_checkout
    shared_checkout.run("destroy", ENVIRONMENT, *options[:3], "--allow-data-loss")


@pytest.fixture(scope="module")
def rest(checkout: Checkout, server: ApiServerProcess) -> Rest:
    """The API server, with Karpenter and our node pools as `up` writes them."""
    made = server.rest()
    wait("definitions are served", lambda: served(made, POOLS) and served(made, CLASSES), lambda: "")
    found = [yaml.safe_load(file.read_text()) for file in (checkout.root / ".gpufleet").rglob("*.yaml")]
    objects = [each for each in found if isinstance(each, dict) and each.get("kind") in ORDER]
    for item in sorted(objects, key=lambda each: ORDER.index(each["kind"])):
        name = item["metadata"]["name"]
        if item["kind"] in ("EC2NodeClass", "NodePool") or name == "karpenter":
            made.call("POST", path_of(item), item)
    return made


def test_installed_version_is_that_of_the_definitions(rest: Rest) -> None:
    deployment = rest.call("GET", "/apis/apps/v1/namespaces/kube-system/deployments/karpenter")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert f":{KARPENTER}@sha256:" in container["image"]


def test_server_accepts_all_pools_and_classes(rest: Rest) -> None:
    assert set(items(rest, POOLS)) == {"sweep", "train", "serve", "serve.always", "held", "later"}
    assert set(items(rest, CLASSES)) == {"sweep", "train", "serve", "held", "later"}


def test_server_refuses_what_its_definitions_do_not_allow(
    checkout: Checkout, server: ApiServerProcess
) -> None:
    rest = server.rest()
    pool, held = (items(rest, POOLS)[name] for name in ("sweep", "serve.always"))
    own = items(rest, CLASSES)["train"]
    assert refusal(rest, POOLS, pool) == refusal(rest, POOLS, held) == refusal(rest, CLASSES, own) == ""
    assert "weight" in refusal(rest, POOLS, changed(held, weight=20))
    assert "only 'limits.nodes' is supported" in refusal(rest, POOLS, changed(held, limits={"cpu": "4"}))
    assert "role" in refusal(rest, CLASSES, changed(own, role="nodes"))
    adapters = own["spec"]["networkInterfaces"]
    assert "duplicate" in refusal(rest, CLASSES, changed(own, networkInterfaces=[*adapters, adapters[-1]]))
    assert "'alias' is improperly" in refusal(
        rest, CLASSES, changed(own, amiSelectorTerms=[{"alias": "al2023"}])
    )
    tags = {**own["spec"]["tags"], "karpenter.sh/nodepool": "mine"}
    assert "restricted tag" in refusal(rest, CLASSES, changed(own, tags=tags))


@pytest.fixture(scope="module")
def karpenter(
    checkout: Checkout, server: ApiServerProcess, rest: Rest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Controller]:
    made = Controller(checkout, server, rest, tmp_path_factory.mktemp("karpenter"))
    yield made
    made.stop()


def test_node_classes_and_pools_are_ready(karpenter: Controller) -> None:
    karpenter.waits(
        "node classes are ready",
        lambda: all(ready(each) == "True" for each in items(karpenter.rest, CLASSES).values()),
    )


def test_nodes_that_always_run_start_without_a_pod(karpenter: Controller) -> None:
    karpenter.waits("a node is launched", lambda: len(launched(karpenter.rest, "serve.always")) == 1)
    assert claims(karpenter.rest, "serve") == []


def test_instance_is_as_the_node_group_would_launch_it(karpenter: Controller) -> None:
    (claim,) = launched(karpenter.rest, "serve.always")
    identity = claim["status"]["providerID"].rpartition("/")[2]
    ec2 = boto3.client("ec2", region_name=REGION, **karpenter.keys)
    (reservation,) = ec2.describe_instances(InstanceIds=[identity])["Reservations"]
    tags = {each["Key"]: each["Value"] for each in reservation["Instances"][0]["Tags"]}
    expected = {
        "team": "ml",
        "gpufleet:site": "use1",
        "gpufleet:node-group": "serve",
        "Name": f"{CLUSTER}-serve",
    }
    assert expected.items() <= tags.items()
    assert tags[f"kubernetes.io/cluster/{CLUSTER}"] == "owned"
    (template,) = [
        each
        for each in ec2.describe_launch_templates()["LaunchTemplates"]
        if each["LaunchTemplateName"].startswith("karpenter.k8s.aws/")
    ]
    (version,) = ec2.describe_launch_template_versions(LaunchTemplateId=template["LaunchTemplateId"])[
        "LaunchTemplateVersions"
    ]
    data = version["LaunchTemplateData"]
    metadata = data["MetadataOptions"]
    assert (metadata["HttpTokens"], int(metadata["HttpPutResponseHopLimit"])) == ("required", 1)
    (device,) = data["BlockDeviceMappings"]
    assert device["Ebs"]["Encrypted"] is True
    text = base64.b64decode(data["UserData"]).decode()
    assert "vm.max_map_count=1000000" in text and f"name: {CLUSTER}" in text


def test_reserved_node_starts_in_its_reservation_for_a_pod(karpenter: Controller) -> None:
    assert claims(karpenter.rest, "held") == []
    for number in range(2):
        wait_for_node(karpenter.rest, f"held-{number}", "held", {GPU: "1"})
    karpenter.waits("a reserved node is launched", lambda: len(launched(karpenter.rest, "held")) == 1)
    (claim,) = claims(karpenter.rest, "held")
    labels = claim["metadata"]["labels"]
    own = items(karpenter.rest, CLASSES)["held"]["spec"]["capacityReservationSelectorTerms"]
    assert labels["karpenter.sh/capacity-type"] == "reserved"
    assert [{"id": labels["karpenter.k8s.aws/capacity-reservation-id"]}] == own
    ec2 = boto3.client("ec2", region_name=REGION, **karpenter.keys)
    (held,) = ec2.describe_capacity_reservations(CapacityReservationIds=[own[0]["id"]])[
        "CapacityReservations"
    ]
    assert (held["TotalInstanceCount"], held["AvailableInstanceCount"]) == (1, 0)


def test_node_of_a_block_does_not_start_before_it(karpenter: Controller) -> None:
    wait_for_node(karpenter.rest, "later", "later", {GPU: "8"})
    time.sleep(15)
    assert claims(karpenter.rest, "later") == []
    assert "capacity-reservation-type" in str(items(karpenter.rest, POOLS)["later"])


def test_pods_get_nodes_of_their_group_up_to_its_limit(karpenter: Controller) -> None:
    for number in range(5):
        wait_for_node(karpenter.rest, f"sweep-{number}", "sweep", {GPU: "1"})
    karpenter.waits("nodes are launched", lambda: len(launched(karpenter.rest, "sweep")) >= 2)
    time.sleep(15)
    assert len(claims(karpenter.rest, "sweep")) == 2, karpenter.tail()
    kinds = {
        each["metadata"]["labels"]["karpenter.sh/capacity-type"] for each in claims(karpenter.rest, "sweep")
    }
    assert kinds == {"spot"}


def test_limit_of_nodes_does_not_hold_for_a_batch_of_pods(karpenter: Controller) -> None:
    """Why pools have limits of devices and vCPUs too, and why a rule asks for them."""
    pool = changed(items(karpenter.rest, POOLS)["train"], limits={"nodes": "1"})
    pool["spec"]["template"]["metadata"]["labels"]["gpufleet.io/node-group"] = "loose"
    karpenter.rest.call("POST", POOLS, {**pool, "metadata": {"name": "loose"}})
    for number in range(4):
        wait_for_node(karpenter.rest, f"loose-{number}", "loose", {GPU: "8"})
    karpenter.waits("more nodes than the limit", lambda: len(claims(karpenter.rest, "loose")) > 1)
