"""Names of a cloud site at the racks, and of the racks in a cloud site."""

from typing import Annotated

from pydantic import Field

from gpufleet.kinds import MOST_DNS_SERVERS
from gpufleet.spec.base import Model
from gpufleet.spec.fields import Domain, Ipv4, Switch


class DnsForward(Model):
    """A domain whose names DNS servers at the racks answer."""

    domain: Annotated[
        Domain,
        Field(min_length=1, description="The domain, with all names below it.", examples=["corp.example"]),
    ]
    servers: Annotated[
        tuple[Ipv4, ...],
        Field(
            min_length=1,
            max_length=MOST_DNS_SERVERS,
            description="Addresses of its DNS servers (port 53).",
            examples=[["10.60.0.53", "10.60.1.53"]],
        ),
    ]


class CloudDns(Model):
    """DNS over the connection to the racks, by endpoints of Route 53 Resolver in the site's network."""

    forward: Annotated[
        tuple[DnsForward, ...],
        Field(max_length=50, description="Domains of the racks, which the site asks DNS servers there for."),
    ] = ()
    inbound: Annotated[
        Switch,
        Field(description="Addresses at which DNS servers of the racks ask for names of the site's network."),
    ] = False
