"""The system type of a site's hosts: one of the catalog, or none for servers in the cloud."""

from __future__ import annotations

from gpufleet.catalog import Catalog, System
from gpufleet.catalog.models import Price
from gpufleet.plan.models import OnPremSitePlan

NO_GPUS = System(
    name="",
    title="EC2 instances without GPUs",
    gpus=0,
    gpu="",
    nvswitches=0,
    compute_nics=0,
    price=Price(amount=None, unit="node", verified=False),
    sources=(),
)
"""What servers are to the roles: nothing that GPU roles install. They have prices of their own."""


def system_of(site: OnPremSitePlan, catalog: Catalog) -> System:
    """The system type of a site. Raises InputError for a name that the catalog lacks."""
    return catalog.system(site.system) if site.system else NO_GPUS
