"""Direct Connect of a cloud site."""

from typing import Annotated

from pydantic import Field

from gpufleet.spec.base import Model
from gpufleet.spec.fields import AwsAccount, Cidr, DirectConnectGateway


class CloudDirectConnect(Model):
    """The site's network associated with an existing Direct Connect gateway. Connections, virtual interfaces
    and the gateway are ordered and set up outside of gpufleet.
    """

    gateway: Annotated[
        DirectConnectGateway,
        Field(
            description="ID of the Direct Connect gateway.", examples=["5f294f92-bafb-4011-916d-9b0bec1f4f35"]
        ),
    ]
    owner: Annotated[
        AwsAccount | None,
        Field(
            description="The AWS account of the gateway, which has to accept the association; that of the"
            " environment if left out.",
            examples=["111122223333"],
        ),
    ] = None
    networks: Annotated[
        tuple[Cidr, ...],
        Field(
            max_length=100,
            description="Networks that are reached through it; the `network` of the only rack site if left"
            " out.",
            examples=[["10.60.0.0/22"]],
        ),
    ] = ()
