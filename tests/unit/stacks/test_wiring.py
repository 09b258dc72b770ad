"""Every value of a plan reaches the components: none is lost or replaced by a default."""

from __future__ import annotations

import base64
import email
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace
from pulumi.runtime.mocks import MockCallArgs

from gpufleet.catalog import load_catalog
from gpufleet.catalog.images import eks_image_parameter
from gpufleet.plan import build_plan
from gpufleet.plan.capacity_models import CapacityPlan, ExistingReservationPlan, OnDemandPlan
from gpufleet.plan.models import FleetPlan, TeamBucketPlan
from gpufleet.spec.load import load_fleet
from gpufleet.stacks.program import build_fleet
from gpufleet.stacks.settings import StackSettings
from tests.unit.components.recording import EchoMocks, Recording, record

ROOT = Path(__file__).resolve().parents[3]


def plan(environment: str) -> FleetPlan:
    return build_plan(load_fleet(environment, root=ROOT).spec, load_catalog())


def built(of: FleetPlan, *, protect: bool = True) -> Recording:
    settings = StackSettings("sandbox", of.environment, protect, None, {}, {})
    return record(lambda: build_fleet(of, settings))


def with_site(of: FleetPlan, **changes: Any) -> FleetPlan:
    """The plan with its first site changed, and no other site."""
    return replace(of, cloud=[replace(of.cloud[0], **changes)])


def test_buckets_are_versioned_as_planned() -> None:
    dev = plan("dev")
    (bucket,) = dev.cloud[0].buckets
    for versioning in (True, False):
        site = with_site(dev, buckets=[replace(bucket, versioning=versioning)])
        assert bool(built(site).of("BucketVersioning")) is versioning


def test_public_subnets_are_those_of_the_plan() -> None:
    dev = plan("dev")
    wanted = {(s.cidr, s.kind == "public") for site in dev.cloud for s in site.subnets}
    subnets = built(dev).of("Subnet")
    assert {(s.inputs["cidrBlock"], "-public-" in s.name) for s in subnets} == wanted


def test_logs_of_the_network_and_of_the_cluster_are_kept_as_planned() -> None:
    dev = plan("dev")
    site = dev.cloud[0]
    assert site.cluster_logs is not None
    kept = built(
        with_site(
            dev,
            flow_logs=replace(site.flow_logs, retention_days=30),
            cluster_logs=replace(site.cluster_logs, retention_days=60),
        )
    )
    days = {each.inputs["name"]: each.inputs["retentionInDays"] for each in kept.of("LogGroup")}
    assert days.items() >= {site.flow_logs.name: 30, site.cluster_logs.name: 60}.items()


def test_cluster_stays_at_its_version_after_standard_support_only_as_planned() -> None:
    dev = plan("dev")
    assert dev.cloud[0].kubernetes is not None
    for kind in ("STANDARD", "EXTENDED"):
        site = with_site(dev, kubernetes=replace(dev.cloud[0].kubernetes, support_type=kind))
        policy = built(site).one("aws:eks/cluster:Cluster").inputs["upgradePolicy"]
        assert policy == {"supportType": kind}


def test_cluster_is_open_to_the_networks_of_the_plan() -> None:
    dev = plan("dev")
    assert dev.cloud[0].kubernetes is not None
    kubernetes = replace(dev.cloud[0].kubernetes, public_cidrs=("203.0.113.0/24",))
    config = built(with_site(dev, kubernetes=kubernetes)).one("aws:eks/cluster:Cluster").inputs["vpcConfig"]
    assert config["publicAccessCidrs"] == ["203.0.113.0/24"]


@pytest.mark.parametrize("protect", [True, False])
def test_protected_resources_cannot_be_deleted_and_others_can(protect: bool) -> None:
    made = built(plan("prod"), protect=protect)
    assert made.one("aws:eks/cluster:Cluster").inputs["deletionProtection"] is protect
    persistent = [s for s in made.of("LustreFileSystem") if s.inputs["deploymentType"] == "PERSISTENT_2"]
    assert persistent
    for system in persistent:
        linked = any(
            a.inputs["fileSystemId"] == f"{system.name}-id" for a in made.of("DataRepositoryAssociation")
        )
        # FSx takes no backup of a file system that is linked to a bucket.
        assert system.inputs["skipFinalBackup"] is (linked or not protect)


def test_file_system_joins_the_efa_group_only_with_efa() -> None:
    for environment in ("prod", "dev"):
        of = plan(environment)
        wanted = {
            f"{of.fleet}-{environment}-{s.site}-{item.name}": item.efa for s in of.cloud for item in s.lustre
        }
        for system in built(of).of("LustreFileSystem"):
            assert (len(system.inputs["securityGroupIds"]) == 2) is wanted[system.name], system.name


def test_nodes_are_in_the_cluster_group_and_get_public_addresses_only_on_request() -> None:
    dev = plan("dev")
    groups = [replace(g, public_ip=True) for g in dev.cloud[0].node_groups if not g.efa][:1]
    made = built(with_site(dev, node_groups=groups))
    (template,) = [t for t in made.of("LaunchTemplate") if t.name.endswith(f"-{groups[0].name}")]
    (interface,) = template.inputs["networkInterfaces"]
    assert interface["associatePublicIpAddress"] == "true"
    assert "sg-cluster" in interface["securityGroups"]


def with_capacity(
    of: FleetPlan, name: str, *, placement_group: bool, capacity: CapacityPlan | None = None
) -> FleetPlan:
    """The plan with one node group of its first site, which is bought otherwise."""
    (group,) = [each for each in of.cloud[0].node_groups if each.name == name]
    changed = replace(group, placement_group=placement_group, capacity=capacity or group.capacity)
    return with_site(of, node_groups=[changed])


def placed(made: Recording) -> list[Any]:
    """Where the launch templates of node groups are placed; those of system nodes are not."""
    return [t.inputs.get("placement") for t in made.of("LaunchTemplate") if not t.name.endswith("-system")]


def test_nodes_of_a_reservation_are_placed_with_it() -> None:
    prod = plan("prod")
    packed = built(with_capacity(prod, "serve-base", placement_group=True))
    (group,) = packed.of("PlacementGroup")
    assert (
        packed.one("CapacityReservation").inputs["placementGroupArn"].endswith(f"PlacementGroup/{group.name}")
    )
    assert placed(packed) == [{"groupName": f"{group.name}-1234567"}]
    loose = built(with_capacity(prod, "serve-base", placement_group=False))
    assert loose.of("PlacementGroup") == []
    assert placed(loose) == [None]


def test_nodes_of_an_existing_reservation_are_placed_with_it() -> None:
    prod = plan("prod")
    held = ExistingReservationPlan(2, "cr-0123456789abcdef0", prod.cloud[0].zones[0], "packed")
    of = with_capacity(prod, "serve-base", placement_group=False, capacity=held)
    assert placed(built(of)) == [{"groupName": "packed"}]


def test_on_demand_nodes_use_a_placement_group_as_planned() -> None:
    prod = plan("prod")
    for wanted in (True, False):
        of = with_capacity(prod, "serve-base", placement_group=wanted, capacity=OnDemandPlan(1, 2, 1))
        assert len(built(of).of("PlacementGroup")) == wanted


def test_block_fee_is_limited_by_the_stack_settings(programs: Path) -> None:
    of = with_capacity(plan("prod"), "pretrain", placement_group=False)
    settings = StackSettings("aws", "prod", True, "1234.50", {}, {})
    offering = record(lambda: build_fleet(of, settings)).one("CapacityBlockOffering")
    assert offering.inputs["max_upfront_usd"] == "1234.50"


def with_group(of: FleetPlan, **changes: Any) -> FleetPlan:
    """The plan with only its first site and only that site's first node group, changed."""
    return with_site(of, node_groups=[replace(of.cloud[0].node_groups[0], **changes)])


def user_data(made: Recording, name: str) -> str:
    given: str = made.one("LaunchTemplate", name).inputs["userData"]
    return base64.b64decode(given).decode()


class ParameterMocks(EchoMocks):
    """Answers an SSM parameter with its own name."""

    def call(self, args: MockCallArgs) -> Any:
        if args.token == "aws:ssm/getParameter:getParameter":
            return {"value": args.args["name"]}
        return super().call(args)


def test_every_eks_group_has_the_image_of_the_plan_and_every_add_on_its_version() -> None:
    dev = plan("dev")
    cluster = dev.cloud[0].kubernetes
    assert cluster is not None
    settings = StackSettings("sandbox", dev.environment, True, None, {}, {})
    made = record(lambda: build_fleet(with_site(dev), settings), ParameterMocks())
    images = {each.name: each.inputs["imageId"] for each in made.of("LaunchTemplate")}
    assert images == {"atlas-dev-use1-system": eks_image_parameter(cluster.system_nodes.image)} | {
        f"atlas-dev-use1-{group.name}": eks_image_parameter(group.image) for group in dev.cloud[0].node_groups
    }
    groups = made.of("aws:eks/nodeGroup:NodeGroup")
    assert {each.inputs["amiType"] for each in groups} == {"CUSTOM"}
    assert not any({"version", "releaseVersion"} & each.inputs.keys() for each in groups)
    versions = {each.inputs["addonName"]: each.inputs["addonVersion"] for each in made.of("Addon")}
    assert versions == cluster.addon_versions


def test_striped_drives_and_the_users_parts_are_one_document() -> None:
    own = "#!/bin/sh\necho ready\n"
    dev = plan("dev")
    group = dev.cloud[0].node_groups[0]
    text = user_data(
        built(with_group(dev, user_data=(*group.user_data, own))), f"atlas-dev-use1-{group.name}"
    )
    assert text.startswith("MIME-Version: 1.0\nContent-Type: multipart/mixed;")
    assert text.index("strategy: RAID0") < text.index("echo ready")
    assert text.index("certificateAuthority") < text.index("strategy: RAID0")


def test_slurm_nodes_without_drives_or_parts_have_no_user_data() -> None:
    prod = plan("prod")
    group = replace(prod.cloud[1].node_groups[0], user_data=())
    made = built(replace(prod, cloud=[replace(prod.cloud[1], node_groups=[group])]))
    assert "userData" not in made.one("LaunchTemplate").inputs


@pytest.mark.parametrize(
    ("name", "flags"),
    [("system", []), ("ci", ["--register-with-taints=nvidia.com/gpu=present:NoSchedule"])],
)
def test_nodes_join_the_cluster_by_their_user_data_with_their_taints(name: str, flags: list[str]) -> None:
    first, *_ = [
        part
        for part in email.message_from_string(
            user_data(built(with_site(plan("dev"))), f"atlas-dev-use1-{name}")
        ).walk()
        if not part.is_multipart()
    ]
    config = yaml.safe_load(str(first.get_payload()))
    assert config["spec"].get("kubelet", {}).get("flags", []) == flags
    assert config["spec"]["cluster"] == {
        "name": "atlas-dev-use1",
        "apiServerEndpoint": "https://1234.eks.test",
        "certificateAuthority": "Q0E=",
        "cidr": "172.20.0.0/16",
    }


@pytest.mark.parametrize(
    ("kind", "image", "expected"),
    [
        ("ami-name", "Deep Learning 1", "ami-by-name"),
        ("parameter", "/golden/gpu:7", "ami-0123456789abcdef0"),
        ("ami-id", "ami-mine", "ami-mine"),
    ],
)
def test_slurm_group_starts_from_the_image_of_the_plan(kind: Any, image: str, expected: str) -> None:
    prod = plan("prod")
    site = replace(
        prod.cloud[1],
        node_groups=[replace(prod.cloud[1].node_groups[0], image=image, image_kind=kind)],
    )
    made = built(replace(prod, cloud=[site]))
    assert made.one("LaunchTemplate").inputs["imageId"] == expected


def test_team_reaches_its_buckets_by_a_service_account_in_its_namespace() -> None:
    dev = plan("dev")
    cluster, (bucket,) = dev.cloud[0].kubernetes, dev.cloud[0].buckets
    assert cluster is not None
    (team,) = cluster.teams
    reached = replace(team, buckets=(TeamBucketPlan(bucket.name, True),))
    made = built(with_site(dev, kubernetes=replace(cluster, teams=(reached,))))
    association = made.one("PodIdentityAssociation", f"atlas-dev-use1-{team.name}-data").inputs
    assert (association["namespace"], association["serviceAccount"]) == (team.name, "gpufleet-data")
    account = made.one("ServiceAccount").inputs
    assert account["metadata"]["name"] == "gpufleet-data"
    assert account["automountServiceAccountToken"] is False
    policy = made.one("RolePolicy", f"atlas-dev-use1-{team.name}-data").inputs["policy"]
    assert f"/{team.name}/*" in policy and "/shared/*" in policy
    assert made.one("Role", f"atlas-dev-use1-{team.name}-data").inputs["tags"]["gpufleet:team"] == team.name


def test_mounted_bucket_shows_the_folder_of_the_team_and_the_shared_one() -> None:
    dev = plan("dev")
    cluster, (bucket,) = dev.cloud[0].kubernetes, dev.cloud[0].buckets
    assert cluster is not None
    (team,) = cluster.teams
    reached = replace(team, buckets=(TeamBucketPlan(bucket.name, True, mount=True),))
    made = built(with_site(dev, kubernetes=replace(cluster, teams=(reached,))))
    volumes = {
        each.name: (each.inputs["spec"]["mountOptions"][0], each.inputs["spec"]["csi"]["volumeAttributes"])
        for each in made.of("PersistentVolume")
    }
    base = f"atlas-dev-use1-base-{team.name}-{bucket.name}"
    assert {name: prefix for name, (prefix, _) in volumes.items()} == {
        f"{base}-rw": f"prefix {team.name}/",
        f"{base}-shared-ro": "prefix shared/",
    }
    assert {each["bucketName"] for _, each in volumes.values()} == {bucket.bucket}


def test_bucket_that_is_not_mounted_has_no_volume() -> None:
    dev = plan("dev")
    cluster, (bucket,) = dev.cloud[0].kubernetes, dev.cloud[0].buckets
    assert cluster is not None
    reached = replace(cluster.teams[0], buckets=(TeamBucketPlan(bucket.name, True),))
    made = built(with_site(dev, kubernetes=replace(cluster, teams=(reached,))))
    assert made.of("PersistentVolume") == []


def test_team_without_buckets_has_neither_role_nor_service_account() -> None:
    made = built(with_site(plan("dev")))
    assert made.of("ServiceAccount") == []
    assert not any(each.name.endswith("-data") for each in made.of("Role"))
