"""Instance types: known, offered, and alike within a group."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gpufleet.catalog import Catalog
from gpufleet.checks import ALL_CHECKS
from gpufleet.checks.rules import Fleet
from gpufleet.spec.load import load_fleet
from tests.unit.checks.fleets import FLEET, NOW, Judge
from tests.unit.checks.test_networks import SLURM

GROUP = "cloud.0.node_groups.0"
SAME_COUNT = "all nodes of a group need the same number of GPUs"
SAME_DEVICES = "all nodes of a group need the same number of devices"
ONE_KIND = "a node group has one kind of accelerator"


GPU_GROUP = {"name": "gpu", "instance_types": ["g6.xlarge"], "capacity": {"on_demand": {"max": 1}}}


def neuron_group(name: str) -> dict[str, Any]:
    return {"name": "neuron", "instance_types": [name], "capacity": {"on_demand": {"max": 1}}}


def test_unknown_instance_type_is_refused_with_the_nearest_known_one(judge: Judge) -> None:
    finding = judge({f"{GROUP}.instance_types": ["p5.48xlagre"]}).only("instance-type-known")
    assert finding.field == "cloud[0].node_groups[0].instance_types[0]"
    assert finding.value == "p5.48xlagre"
    assert "p5.48xlarge" in finding.remedy


def test_unknown_type_of_system_nodes_is_a_warning(judge: Judge) -> None:
    judge({"cloud.0.kubernetes.system_nodes": {"instance_types": ["m99i.xlarge"]}}).only(
        "instance-type-known", "warning"
    )


def test_type_not_offered_in_the_region_is_refused(judge: Judge) -> None:
    shown = judge({f"{GROUP}.instance_types": ["p5e.48xlarge"]})
    finding = shown.of("instance-type-in-region")[0]
    assert finding.severity == "error"
    assert "us-east-1" in finding.message
    assert "us-west-2" in finding.remedy


def test_type_without_a_known_offering_is_a_warning(judge: Judge, catalog: Catalog) -> None:
    judge()
    loaded = load_fleet(str(judge.folder / "fleet.yaml"), root=judge.folder)
    p5 = catalog.instances["p5.48xlarge"].model_copy(update={"regions": frozenset()})
    blind = replace(catalog, instances={**catalog.instances, p5.name: p5})
    check = next(check for check in ALL_CHECKS if check.rule == "instance-type-in-region")
    findings = list(check.run(Fleet(loaded.spec, blind, loaded.source, NOW)))
    assert {finding.severity for finding in findings} == {"warning"}
    assert len(findings) == 2


def test_types_in_a_region_without_known_offerings_are_a_warning(judge: Judge) -> None:
    elsewhere = {
        name: {"regions": item.regions - {"us-east-1"}} for name, item in judge.catalog.instances.items()
    }
    judge.change_catalog("instances", **elsewhere)
    found = judge().of("instance-type-in-region")
    assert {finding.severity for finding in found} == {"warning"}
    assert judge({"cloud.0.region": "us-east-9"}).of("instance-type-in-region") == []


def test_type_listed_twice_is_refused(judge: Judge) -> None:
    judge({"cloud.0.node_groups.3.instance_types": ["p4d.24xlarge", "p4d.24xlarge"]}).only(
        "instance-type-repeated"
    )


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (
            ["p4d.24xlarge", "p5.48xlarge"],
            f"p5.48xlarge has H100 and p4d.24xlarge has A100: {ONE_KIND}",
        ),
        (
            ["p4d.24xlarge", "m7i.xlarge"],
            f"m7i.xlarge has no accelerator and p4d.24xlarge has A100: {ONE_KIND}",
        ),
        (
            ["m7i.xlarge", "g6.xlarge"],
            f"g6.xlarge has L4 and m7i.xlarge has no accelerator: {ONE_KIND}",
        ),
        (
            ["trn1.2xlarge", "trn1.32xlarge"],
            f"trn1.32xlarge has 16 Neuron devices and trn1.2xlarge has 1 Neuron device: {SAME_DEVICES}",
        ),
        (
            ["g6.xlarge", "inf2.xlarge"],
            f"inf2.xlarge has Inferentia2 and g6.xlarge has L4: {ONE_KIND}",
        ),
        (
            ["g6.xlarge", "g6.12xlarge"],
            f"g6.12xlarge has 4 GPUs and g6.xlarge has 1 GPU: {SAME_COUNT}",
        ),
        (
            ["g6.xlarge", "g6f.xlarge"],
            f"g6f.xlarge has 0.125 of a GPU and g6.xlarge has 1 GPU: {SAME_COUNT}",
        ),
    ],
)
def test_different_types_cannot_share_a_group(judge: Judge, types: list[str], message: str) -> None:
    shown = judge({"cloud.0.node_groups.3.instance_types": types})
    found = shown.of("instance-types-alike")
    assert len(found) == 1
    assert found[0].message == message
    assert found[0].value == types[1]


def test_types_of_two_architectures_cannot_share_a_group(judge: Judge, catalog: Catalog) -> None:
    judge()
    loaded = load_fleet(str(judge.folder / "fleet.yaml"), root=judge.folder)
    arm = catalog.instances["p4de.24xlarge"].model_copy(update={"architectures": ("arm64",)})
    mixed = replace(catalog, instances={**catalog.instances, arm.name: arm})
    check = next(check for check in ALL_CHECKS if check.rule == "instance-types-alike")
    (finding,) = check.run(Fleet(loaded.spec, mixed, loaded.source, NOW))
    assert "arm64" in finding.message


def test_types_with_the_same_gpus_can_share_a_group(judge: Judge) -> None:
    shown = judge({"cloud.0.node_groups.3.instance_types": ["p4de.24xlarge", "p4d.24xlarge"]})
    assert shown.rules == set()


def test_public_address_on_a_type_with_several_cards_is_refused(judge: Judge) -> None:
    finding = judge({"cloud.0.node_groups.3.public_ip": True}).only("public-ip-multi-card")
    assert finding.field == "cloud[0].node_groups[3].public_ip"
    assert "p4d.24xlarge" in finding.message


def test_public_address_with_efa_is_refused_on_a_type_with_one_card(judge: Judge) -> None:
    shown = judge(
        {
            f"{GROUP}.instance_types": ["g6.8xlarge"],
            f"{GROUP}.public_ip": True,
            "cloud.0.kubernetes.teams.0.gpus": 8,
        }
    )
    shown.only("public-ip-multi-card")


def test_public_address_on_a_type_with_one_card_passes(judge: Judge) -> None:
    shown = judge(
        {
            "cloud.0.node_groups.+": {
                "name": "notebooks",
                "instance_types": ["g6.xlarge"],
                "capacity": {"on_demand": {"max": 1}},
                "public_ip": True,
            }
        }
    )
    assert shown.rules == set()


@pytest.mark.parametrize(
    ("volume", "field", "message", "remedy"),
    [
        (
            {"size": "200 GiB", "iops": 3000, "throughput": 751},
            "throughput",
            "751 MB/s need 3004 IOPS, and the volume has 3000",
            "write 'iops: 3004', or a throughput of 750",
        ),
        (
            {"size": "10 GiB", "iops": 5001},
            "iops",
            "5001 IOPS are more than the 5000 that a gp3 volume of 10 GiB has",
            "use 5000 IOPS or less, or a volume of 11 GiB",
        ),
    ],
)
def test_volume_faster_than_gp3_is_refused(
    judge: Judge, volume: dict[str, object], field: str, message: str, remedy: str
) -> None:
    finding = judge({f"{GROUP}.volume": volume}).only("volume-performance")
    assert finding.field == f"cloud[0].node_groups[0].volume.{field}"
    assert (finding.message, finding.remedy) == (message, remedy)


@pytest.mark.parametrize(
    "volume",
    [{"size": "200 GiB", "iops": 3000, "throughput": 750}, {"size": "10 GiB", "iops": 5000}],
)
def test_fastest_volumes_of_gp3_pass(judge: Judge, volume: dict[str, object]) -> None:
    assert judge({f"{GROUP}.volume": volume}).rules == set()


def test_type_with_an_unknown_accelerator_is_a_warning(judge: Judge) -> None:
    unread = {"accelerator": None, "unverified": ("accelerator",)}
    judge.change_catalog("instances", **{"trn1.32xlarge": unread})
    judge({"cloud.0.node_groups.+": neuron_group("trn1.32xlarge")}).only("accelerator-unknown", "warning")


@pytest.mark.parametrize("name", ["trn1.32xlarge", "trn1n.32xlarge", "inf1.xlarge", "inf2.xlarge"])
def test_neuron_devices_pass_on_kubernetes(judge: Judge, name: str) -> None:
    assert judge({"cloud.0.node_groups.+": neuron_group(name)}).rules == set()


def test_inf1_on_slurm_is_refused_unless_it_has_an_image_of_its_own(judge: Judge) -> None:
    groups = [neuron_group("inf1.xlarge")]
    finding = judge(SLURM | {"cloud.0.node_groups": groups}).of("accelerator-unsupported")
    assert [each.field for each in finding] == ["cloud[0].node_groups[0].instance_types[0]"]
    assert "Inferentia" in finding[0].message
    for other in (neuron_group("inf2.xlarge"), groups[0] | {"image": "ami-0123456789abcdef0"}):
        assert not judge(SLURM | {"cloud.0.node_groups": [other]}).of("accelerator-unsupported")


def test_gpu_operator_without_gpus_is_a_warning(judge: Judge) -> None:
    changes = {
        "cloud.0.node_groups": [neuron_group("trn1.32xlarge")],
        "cloud.0.kubernetes.teams": [],
        "cloud.0.kubernetes.gpu_stack": "gpu-operator",
    }
    assert judge(changes).only("gpu-stack-unused", "warning").field == "cloud[0].kubernetes.gpu_stack"
    without_devices = [GPU_GROUP | {"instance_types": ["m7i.xlarge"]}]
    both = [*changes["cloud.0.node_groups"], GPU_GROUP]
    for groups in (FLEET["cloud"][0]["node_groups"], both, without_devices):
        shown = judge({"cloud.0.kubernetes.gpu_stack": "gpu-operator", "cloud.0.node_groups": groups})
        assert not shown.of("gpu-stack-unused")
    del changes["cloud.0.kubernetes.gpu_stack"]
    assert not judge(changes).of("gpu-stack-unused")


def test_type_that_cannot_boot_the_images_is_refused(judge: Judge, catalog: Catalog) -> None:
    judge()
    loaded = load_fleet(str(judge.folder / "fleet.yaml"), root=judge.folder)
    arm = catalog.instances["p5.48xlarge"].model_copy(update={"architectures": ("arm64",)})
    other = replace(catalog, instances={**catalog.instances, "p5.48xlarge": arm})
    (check,) = (check for check in ALL_CHECKS if check.rule == "architecture-unsupported")
    reported = [finding.path for finding in check.run(Fleet(loaded.spec, other, loaded.source, NOW))]
    assert reported == [("cloud", 0, "node_groups", number, "instance_types", 0) for number in (0, 1)]
    assert not list(check.run(Fleet(loaded.spec, catalog, loaded.source, NOW)))


def test_sites_without_system_nodes_pass(judge: Judge) -> None:
    assert judge(SLURM).rules == {"slurm-cloud-unconnected"}
