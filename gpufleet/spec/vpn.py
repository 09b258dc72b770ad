"""The site-to-site VPN of a cloud site."""

from typing import Annotated

from pydantic import Field

from gpufleet.kinds import VPN_ASN
from gpufleet.spec.base import Model
from gpufleet.spec.fields import WHOLE, Cidr, Ipv4, Switch


class CloudVpn(Model):
    """A site-to-site VPN from the site's network to a router at the racks: two IPsec tunnels (IKEv2). Routes
    are exchanged by BGP, or are static.
    """

    gateway: Annotated[
        Ipv4, Field(description="Public IPv4 address of the router at the racks.", examples=["203.0.113.7"])
    ]
    asn: Annotated[
        int,
        Field(
            ge=1,
            le=4_294_967_294,
            description="BGP autonomous system number of the router.",
            examples=[65010],
            json_schema_extra={"unit": "ASN"},
        ),
        WHOLE,
    ] = VPN_ASN
    networks: Annotated[
        tuple[Cidr, ...],
        Field(
            max_length=100,
            description="Networks behind the router; the `network` of the only rack site if left out.",
            examples=[["10.60.0.0/22"]],
        ),
    ] = ()
    static: Annotated[Switch, Field(description="Static routes to `networks`, for a router without BGP.")] = (
        False
    )
    logs: Annotated[
        Switch, Field(description="Logs of both tunnels in CloudWatch: negotiations, dead peers, BGP.")
    ] = False
