"""Sites: networks, storage, clusters, hosts, and the plan as a whole."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpufleet.kinds import EKS_ADDONS
from gpufleet.plan import build_plan
from gpufleet.pricing import Amount, price_plan
from tests.unit.plan.fleets import CATALOG, cloud_site, group, on_demand, plan_of, rack_site, spec


def test_kubernetes_site_without_settings_has_the_defaults() -> None:
    (site,) = plan_of(scheduler="kubernetes").cloud
    assert site.kubernetes is not None
    assert site.kubernetes.public_cidrs == ()
    assert site.kubernetes.system_nodes.min == 2
    assert (
        build_plan(spec(cloud=[cloud_site(scheduler="kubernetes", kubernetes={})]), CATALOG).cloud[0] == site
    )


def test_cluster_gets_the_plugin_and_operator_of_its_channel() -> None:
    (site,) = plan_of(scheduler="kubernetes").cloud
    lock = CATALOG.locks["2026.11"]
    assert site.kubernetes is not None
    assert site.kubernetes.device_plugin_version == f"v{lock.device_plugin}"
    assert site.kubernetes.gpu_operator_version == f"v{lock.gpu_operator}"


def test_slurm_site_with_cluster_settings_has_no_cluster() -> None:
    (site,) = plan_of(kubernetes={"version": "1.35"}).cloud
    assert site.kubernetes is None


def test_drivers_of_storage_are_installed_where_pods_mount_it() -> None:
    def addons(*buckets: dict[str, object], lustre: bool = False) -> tuple[str, ...]:
        scratch = {"deployment": "scratch-2", "capacity": "1200 GiB", "zone": "us-east-1a"}
        storage: list[dict[str, object]] = [{"name": "data", "bucket": {"name": "atlas-data"}}]
        storage += [{"name": "scratch", "lustre": scratch}] if lustre else []
        teams = [{"name": "a", "gpus": 8}, {"name": "b", "gpus": 8, "buckets": list(buckets)}]
        (site,) = plan_of(scheduler="kubernetes", kubernetes={"teams": teams}, storage=storage).cloud
        assert site.kubernetes is not None
        assert site.kubernetes.addon_versions.keys() == set(site.kubernetes.addons)
        return site.kubernetes.addons[len(EKS_ADDONS) :]

    assert addons({"storage": "data"}) == ()
    assert addons({"storage": "data", "mount": True}) == ("aws-mountpoint-s3-csi-driver",)
    assert addons({"storage": "data"}, lustre=True) == ("aws-fsx-csi-driver",)
    both = ("aws-fsx-csi-driver", "aws-mountpoint-s3-csi-driver")
    assert addons({"storage": "data", "access": "read", "mount": True}, lustre=True) == both


def test_site_without_nat_reaches_what_a_mount_needs() -> None:
    """The driver's images, and the agent of Pod Identity; S3 has a gateway endpoint in every site."""
    (site,) = plan_of(scheduler="kubernetes", network={"cidr": "10.40.0.0/16", "nat": "none"}).cloud
    assert {"ecr.api", "ecr.dkr", "eks-auth"} <= set(site.interface_endpoints)
    assert plan_of(scheduler="kubernetes").cloud[0].interface_endpoints == ()


@pytest.mark.parametrize(("notices", "queue"), [({}, True), (None, False)])
def test_handler_of_notices_reaches_its_queue_without_nat(notices: Any, queue: bool) -> None:
    network = {"cidr": "10.40.0.0/16", "nat": "none"}
    (site,) = plan_of(scheduler="kubernetes", network=network, interruptions=notices).cloud
    assert ("sqs" in site.interface_endpoints) is queue


def test_cluster_and_network_write_logs() -> None:
    def names(**site: Any) -> list[str]:
        return [each.name for each in plan_of(**site).cloud[0].log_groups]

    assert names() == ["/gpufleet/atlas-test-use1/flow-logs"]
    assert names(scheduler="kubernetes") == [
        "/gpufleet/atlas-test-use1/flow-logs",
        "/aws/eks/atlas-test-use1/cluster",
    ]


def test_storage_is_planned_with_its_defaults() -> None:
    lustre = {"capacity": "4800 GiB", "throughput": "125 MB/s/TiB", "import_from": "s3://data/train/v1/"}
    (site,) = plan_of(
        storage=[
            {"name": "scratch", "lustre": lustre},
            {"name": "data", "bucket": {"name": "atlas-data", "expire_after": "30 d"}},
        ]
    ).cloud
    (system,) = site.lustre
    assert system.deployment == "PERSISTENT_2"
    assert system.capacity_gib == 4800
    assert system.zone == "us-east-1a"
    assert system.mount == "/mnt/scratch"
    assert (system.import_bucket, system.import_prefix) == ("data", "train/v1")
    assert (system.throughput, system.compression, system.backup_days) == (125, "LZ4", 0)
    assert system.tags["gpufleet:storage"] == "scratch"
    (bucket,) = site.buckets
    assert (bucket.bucket, bucket.expire_days, bucket.versioning) == ("atlas-data", 30, True)


def test_file_system_is_backed_up_and_compressed_as_declared() -> None:
    lustre = {"capacity": "4800 GiB", "throughput": "125 MB/s/TiB", "compression": "none", "backups": "7 d"}
    (site,) = plan_of(storage=[{"name": "fs", "lustre": lustre}]).cloud
    assert (site.lustre[0].compression, site.lustre[0].backup_days) == ("NONE", 7)


def test_file_system_without_an_import_has_no_bucket() -> None:
    lustre = {"capacity": "1200 GiB", "deployment": "scratch-2", "zone": "us-east-1b"}
    (site,) = plan_of(storage=[{"name": "s", "mount": "/fsx", "lustre": lustre}]).cloud
    (system,) = site.lustre
    assert (system.import_bucket, system.import_prefix, system.throughput) == (None, "", None)
    assert (system.zone, system.mount) == ("us-east-1b", "/fsx")
    assert site.buckets == ()


def test_each_host_has_an_address_and_its_bmc() -> None:
    fleet = spec(
        onprem=[
            rack_site(
                nodes="dgx[001-003]",
                bmc="bmc[001-003]",
                controllers="ctl01",
                login="login01",
                ssh={"domain": "dc1.example.com"},
            )
        ]
    )
    (site,) = build_plan(fleet, CATALOG).onprem
    assert [(host.name, host.role) for host in site.hosts] == [
        ("dgx001", "gpu"),
        ("dgx002", "gpu"),
        ("dgx003", "gpu"),
        ("ctl01", "controller"),
        ("login01", "login"),
    ]
    assert site.hosts[1].address == "dgx002.dc1.example.com"
    assert site.hosts[1].bmc == "bmc002.dc1.example.com"
    assert site.hosts[3].bmc is None
    assert site.power_kw_per_node == Decimal("10.2")


def test_hosts_without_a_domain_are_reached_by_name() -> None:
    (site,) = build_plan(spec(onprem=[rack_site()]), CATALOG).onprem
    assert site.hosts[0].address == "dgx001"
    assert site.hosts[0].bmc is None


def test_gpus_are_counted_over_clouds_and_racks() -> None:
    fleet = spec(cloud=[cloud_site(group("a", "p5.48xlarge", on_demand(0, 4)))], onprem=[rack_site()])
    assert build_plan(fleet, CATALOG).gpus_at_maximum == 8 * 4 + 8 * 64


def test_neuron_devices_are_counted_apart_from_gpus() -> None:
    plan = plan_of(
        group("gpu", "p5.48xlarge", on_demand(0, 5)),
        group("neuron", "trn1.32xlarge", on_demand(0, 2)),
        group("cpu", "m7i.xlarge", on_demand(0, 3)),
    )
    assert (plan.neuron_devices_at_maximum, plan.gpus_at_maximum) == (16 * 2, 8 * 5)
    assert [(each.gpu, each.gpus_per_node) for each in plan.node_groups] == [("H100", 8), ("", 0), ("", 0)]


def test_launched_groups_are_those_of_sites_with_a_slurm() -> None:
    servers = {"servers": {"image": "ami-0123456789abcdef0"}}
    sites = [
        cloud_site(group("burst", "g6.xlarge", on_demand(0, 4)), slurm=servers),
        cloud_site(group("rest", "g6.xlarge", on_demand(0, 2)), site="use2"),
    ]
    plan = build_plan(spec(cloud=sites), CATALOG)
    assert plan.launched_maxima() == {"atlas-test-use1-burst": 4}


def test_uncertain_versions_of_addons_are_those_that_the_cluster_has() -> None:
    (site,) = plan_of(scheduler="kubernetes", kubernetes={"version": "1.35"}).cloud
    assert site.kubernetes is not None
    assert site.kubernetes.unverified_addons == ("eks-pod-identity-agent", "aws-ebs-csi-driver")


def test_each_purpose_of_a_site_has_a_key_unless_its_storage_brings_one() -> None:
    def owners(**changes: Any) -> list[tuple[str, str]]:
        (site,) = plan_of(**changes).cloud
        return [(each.name.removeprefix("atlas-test-use1"), each.owner) for each in site.keys]

    flow_logs = ("-flow-logs", "network")
    assert owners() == [flow_logs]
    assert owners(scheduler="kubernetes") == [flow_logs, ("", "control-plane")]
    servers = {"image": "ami-0123456789abcdef0", "shared": "/shared"}
    assert owners(slurm={"servers": servers}) == [
        flow_logs,
        ("-munge", "network"),
        ("-slurm-shared", "system"),
    ]
    own = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    scratch = {"deployment": "scratch-2", "capacity": "1200 GiB", "zone": "us-east-1a"}
    kept = {"capacity": "1200 GiB", "throughput": "125 MB/s/TiB"}
    storage = [
        {"name": "data", "bucket": {"name": "atlas-data"}},
        {"name": "theirs", "bucket": {"name": "atlas-theirs", "kms_key": own}},
        {"name": "scratch", "lustre": scratch},
        {"name": "fs", "lustre": kept},
        {"name": "fs-theirs", "lustre": kept | {"kms_key": own}},
    ]
    assert owners(storage=storage) == [flow_logs, ("-data", "data"), ("-fs", "fs")]


def test_same_fleet_gives_the_same_plan() -> None:
    fleet = spec(cloud=[cloud_site(group("a", "p5.48xlarge", on_demand(0, 4)))], onprem=[rack_site()])
    assert build_plan(fleet, CATALOG) == build_plan(fleet.model_copy(deep=True), CATALOG)


def test_empty_fleet_costs_nothing_and_has_nothing_unknown() -> None:
    cost = price_plan(build_plan(spec(), CATALOG), CATALOG)
    assert cost.total == Amount()
    assert cost.unknown == ()
