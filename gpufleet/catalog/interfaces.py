"""The network interfaces of an instance type at launch, derived from its network cards.

The rules are AWS's own for types with several network cards (EC2 User Guide, "Maximize network
bandwidth on Amazon EC2 instances with multiple network cards",
docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.md, read 2026-11-21): the primary
interface is ENA; an EFA-only interface takes device 1 of card 0 where that card has EFA, and
device 0 of each further card. EFA-only interfaces take no IP addresses, so a 32-card node costs
one address of its subnet.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gpufleet.catalog.models import InstanceType
from gpufleet.errors import InputError

InterfaceType = Literal["interface", "efa", "efa-only"]


class NetworkInterface(Struct, frozen=True):
    """One entry of a launch template's network interfaces."""

    network_card_index: int
    device_index: int
    interface_type: InterfaceType


PRIMARY = NetworkInterface(0, 0, "interface")


def ena_layout(instance: InstanceType) -> tuple[NetworkInterface, ...]:
    """Return the layout without EFA, for any type: only the primary ENA interface."""
    return (PRIMARY,)


def efa_layout(instance: InstanceType) -> tuple[NetworkInterface, ...]:
    """Return the primary ENA interface and one EFA-only interface per card with EFA, in card order.

    There are never more EFA interfaces than the type allows. Raises InputError for a type without EFA.
    """
    if not instance.efa:
        raise InputError(
            f"{instance.name} has no EFA: it supports 0 EFA interfaces",
            remedy="set `network: ena`, or choose a type with EFA (`gpufleet catalog instances --efa`)",
        )
    efa = [
        NetworkInterface(card.index, 1 if card.index == 0 else 0, "efa-only")
        for card in instance.cards
        if "efa-only" in card.supports
    ]
    return (PRIMARY, *efa[: instance.max_efa_interfaces])
