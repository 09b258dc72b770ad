"""The network interfaces of a launch, by type, checked against EC2's model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from gpufleet.catalog import NetworkInterface, efa_layout, ena_layout, load_catalog
from gpufleet.catalog.models import InstanceType
from gpufleet.errors import InputError

ENA = (0, 0, "interface")
EFA_ON_CARD_0 = (0, 1, "efa-only")

# type -> (card, device, interface type) of every interface after the primary one
LAYOUTS = {
    "p4d.24xlarge": [EFA_ON_CARD_0, *((card, 0, "efa-only") for card in range(1, 4))],
    "p4de.24xlarge": [EFA_ON_CARD_0, *((card, 0, "efa-only") for card in range(1, 4))],
    "p5.48xlarge": [EFA_ON_CARD_0, *((card, 0, "efa-only") for card in range(1, 32))],
    "p5e.48xlarge": [EFA_ON_CARD_0, *((card, 0, "efa-only") for card in range(1, 32))],
    "p5en.48xlarge": [EFA_ON_CARD_0, *((card, 0, "efa-only") for card in range(1, 16))],
    "p6-b200.48xlarge": [EFA_ON_CARD_0, *((card, 0, "efa-only") for card in range(1, 8))],
    "p6-b300.48xlarge": [(card, 0, "efa-only") for card in range(1, 17)],
    "g6e.48xlarge": [EFA_ON_CARD_0, *((card, 0, "efa-only") for card in range(1, 4))],
    "g6e.24xlarge": [EFA_ON_CARD_0, (1, 0, "efa-only")],
    "g6e.12xlarge": [EFA_ON_CARD_0],
    "g5.48xlarge": [EFA_ON_CARD_0],
    "p5.4xlarge": [EFA_ON_CARD_0],
}
WITH_EFA = sorted(item.name for item in load_catalog().instances.values() if item.efa)
WITHOUT_EFA = sorted(item.name for item in load_catalog().instances.values() if not item.efa)


def plain(layout: tuple[NetworkInterface, ...]) -> list[tuple[int, int, str]]:
    return [(item.network_card_index, item.device_index, item.interface_type) for item in layout]


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_interface_layout_of_each_type_matches_exactly(name: str) -> None:
    assert plain(efa_layout(load_catalog().instance(name))) == [ENA, *LAYOUTS[name]]


def test_card_0_of_p6_b300_has_only_ena() -> None:
    layout = efa_layout(load_catalog().instance("p6-b300.48xlarge"))
    assert [item for item in plain(layout) if item[0] == 0] == [ENA]
    assert sum(item.interface_type == "efa-only" for item in layout) == 16


@pytest.mark.parametrize("name", WITH_EFA)
def test_layout_uses_every_efa_interface_of_the_type_once(name: str) -> None:
    item = load_catalog().instance(name)
    layout = efa_layout(item)
    places = [(entry.network_card_index, entry.device_index) for entry in layout]
    assert len(set(places)) == len(places)
    efa = [entry for entry in layout if entry.interface_type == "efa-only"]
    assert len(efa) == item.max_efa_interfaces
    assert len({entry.network_card_index for entry in efa}) == len(efa), "two EFA on one card"
    assert len(layout) <= item.max_enis


@pytest.mark.parametrize("name", WITH_EFA)
def test_card_supports_each_interface_of_the_layout(name: str) -> None:
    item = load_catalog().instance(name)
    for entry in efa_layout(item):
        card = item.cards[entry.network_card_index]
        assert entry.interface_type in card.supports
        assert entry.device_index < card.max_interfaces


@pytest.mark.parametrize("name", sorted(load_catalog().instances))
def test_primary_interface_is_always_ena(name: str) -> None:
    item = load_catalog().instance(name)
    assert plain(ena_layout(item)) == [ENA]
    if item.efa:
        assert plain(efa_layout(item))[0] == ENA
        assert [entry for entry in plain(efa_layout(item)) if entry[2] == "interface"] == [ENA]


@pytest.mark.parametrize("name", WITHOUT_EFA)
def test_efa_on_a_type_without_it_is_refused_with_a_remedy(name: str) -> None:
    with pytest.raises(InputError, match="0 EFA interfaces") as caught:
        efa_layout(load_catalog().instance(name))
    assert "ena" in caught.value.remedy


def test_type_with_fewer_efa_interfaces_than_cards_gets_no_more() -> None:
    p4d = load_catalog().instance("p4d.24xlarge")
    fewer: InstanceType = p4d.model_copy(update={"max_efa_interfaces": 2})
    assert plain(efa_layout(fewer)) == [ENA, EFA_ON_CARD_0, (1, 0, "efa-only")]


@pytest.fixture(scope="module")
def ec2() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client(
            "ec2", region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
        )


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_ec2_accepts_a_launch_template_with_the_layout(ec2: Any, name: str) -> None:
    layout = efa_layout(load_catalog().instance(name))
    template = ec2.create_launch_template(
        LaunchTemplateName=f"layout-{name}",
        LaunchTemplateData={
            "InstanceType": name,
            "NetworkInterfaces": [
                {
                    "NetworkCardIndex": entry.network_card_index,
                    "DeviceIndex": entry.device_index,
                    "InterfaceType": entry.interface_type,
                    "Groups": ["sg-12345678"],
                }
                for entry in layout
            ],
        },
    )["LaunchTemplate"]
    versions = ec2.describe_launch_template_versions(LaunchTemplateId=template["LaunchTemplateId"])
    stored = versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]["NetworkInterfaces"]
    assert [
        (int(item["NetworkCardIndex"]), int(item["DeviceIndex"]), item["InterfaceType"]) for item in stored
    ] == plain(layout)
