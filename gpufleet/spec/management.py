"""How the nodes' management controllers are reached, what they have to show, and how GPUs are divided."""

from typing import Annotated, Literal

from pydantic import Field

from gpufleet.spec.base import Model
from gpufleet.spec.fields import WHOLE, AbsolutePath, BmcUser, Certificate, HostName, MigProfile, PlainText
from gpufleet.spec.quantity import HostRange, Power


class Management(Model):
    """Management controllers (`bmc` of the site): how to reach them, and what they have to show."""

    protocol: Annotated[
        Literal["redfish", "ipmi"], Field(description="IPMI only where a controller has no Redfish.")
    ] = "redfish"
    port: Annotated[
        Annotated[int, Field(ge=1, le=65535), WHOLE] | None,
        Field(description="Its port; 443 for Redfish and 623 for IPMI if left out.", examples=[443]),
    ] = None
    user: Annotated[
        BmcUser, Field(description="Who logs in; the password is a secret of the site.", examples=["admin"])
    ]
    ca: Annotated[
        AbsolutePath | None,
        Field(
            description="Certificates (PEM) that sign the controllers', where gpufleet runs.",
            examples=["/etc/ssl/bmc-ca.pem"],
        ),
    ] = None
    certificates: dict[HostName, Certificate] = Field(
        default_factory=dict,
        description="SHA-256 of controllers' own certificates, 64 hexadecimal digits, by node.",
        examples=[{"dgx001": "0000000000000000000000000000000000000000000000000000000000000000"}],
    )
    model: Annotated[
        PlainText | None,
        Field(
            description="The model that controllers report; the system type's if left out.",
            examples=["DGXH100"],
        ),
    ] = None
    serials: dict[HostName, PlainText] = Field(
        default_factory=dict,
        description="Serial numbers of nodes, by node.",
        examples=[{"dgx001": "1660123000001"}],
    )
    firmware: dict[PlainText, PlainText] = Field(
        default_factory=dict,
        description="Versions that firmware has to have, by component: compared, not flashed.",
        examples=[{"BMC": "24.09.17"}],
    )
    power_cap: Annotated[Power | None, Field(description="The most that a node may draw.")] = None
    boot_order: Annotated[
        tuple[Literal["pxe", "http", "disk", "cd", "usb"], ...],
        Field(max_length=5, description="What nodes boot from first; left as it is if left out."),
    ] = ()
    bios: dict[PlainText, PlainText] = Field(
        default_factory=dict,
        description="BIOS attributes and their values; they wait for the next reboot.",
        examples=[{"PowerProfile": "Performance"}],
    )


class MigLayout(Model):
    """GPUs that are divided (MIG), all in the same way."""

    nodes: Annotated[HostRange, Field(description="The GPU nodes.")]
    gpus: Annotated[
        tuple[Annotated[int, Field(ge=0, le=15), WHOLE], ...],
        Field(
            max_length=16, description="Which GPUs of each node, from 0; all if left out.", examples=[[0, 1]]
        ),
    ] = ()
    profiles: dict[MigProfile, Annotated[int, Field(ge=1, le=7), WHOLE]] = Field(
        description="How many instances of each profile a GPU has, as { 1g.10gb: 7 }.",
        examples=[{"1g.10gb": 7}],
        json_schema_extra={"unit": "instances"},
    )
