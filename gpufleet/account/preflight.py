"""A preflight: all checks of all regions of a plan, at the same time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from gpufleet.account.caller import Caller, find_caller
from gpufleet.account.direct_connect import CHECK as DIRECT_CONNECT
from gpufleet.account.direct_connect import check_direct_connect
from gpufleet.account.needs import RegionNeeds, region_needs
from gpufleet.account.permissions import (
    NOT_SIMULATED,
    PERMISSIONS,
    ROLES,
    check_linked_roles,
    check_permissions,
)
from gpufleet.account.quotas import check_quotas
from gpufleet.account.reading import Clients, NotCheckedError
from gpufleet.account.reservations import check_reservations
from gpufleet.account.result import AccountCheck, Preflight
from gpufleet.account.zones import check_zones
from gpufleet.catalog import Catalog
from gpufleet.plan.models import FleetPlan

GLOBAL = "all regions"
_PARALLEL = 8


def run_preflight(plan: FleetPlan, catalog: Catalog, clients: Clients, now: dt.datetime) -> Preflight:
    """Check the account of `clients` against the plan. Nothing is changed, and no error of AWS is raised.

    A call that AWS refuses or does not answer makes its check `not-checked`. `now` is in UTC.
    """
    regions = region_needs(plan)
    if not regions:
        return Preflight("", ())
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        caller = find_caller(clients, regions[0].region)
    except (BotoCoreError, ClientError, NotCheckedError) as error:
        caller = Caller("", "aws", "", str(error))
    jobs: list[tuple[str, str, Callable[[], AccountCheck]]] = []
    for needs in regions:
        jobs += _jobs(catalog, needs, caller, clients, now)
    jobs.append((ROLES, GLOBAL, lambda: check_linked_roles(plan, regions[0].region, GLOBAL, caller, clients)))
    with ThreadPoolExecutor(_PARALLEL) as pool:
        results = [*pool.map(lambda job: _run(*job), jobs)]
    notes = (
        (NOT_SIMULATED,) if any(each.check == PERMISSIONS and not each.unchecked for each in results) else ()
    )
    return Preflight(caller.masked if caller.account else "", tuple(results), notes)


def _jobs(
    catalog: Catalog,
    needs: RegionNeeds,
    caller: Caller,
    clients: Clients,
    now: dt.datetime,
) -> list[tuple[str, str, Callable[[], AccountCheck]]]:
    region = needs.region
    jobs: list[tuple[str, str, Callable[[], AccountCheck]]] = [
        ("zones", region, lambda: check_zones(needs, clients)),
        ("quotas", region, lambda: check_quotas(needs, catalog, clients)),
        ("reservations", region, lambda: check_reservations(needs, clients, now)),
        (PERMISSIONS, region, lambda: check_permissions(needs, caller, clients)),
    ]
    if any(site.plan.direct_connect is not None for site in needs.sites):
        jobs.append((DIRECT_CONNECT, region, lambda: check_direct_connect(needs, caller, clients)))
    return jobs


def _run(check: str, region: str, job: Callable[[], AccountCheck]) -> AccountCheck:
    """Run one check; an error that it does not expect from AWS makes it `not-checked`."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return job()
    except (BotoCoreError, ClientError, NotCheckedError) as error:
        return AccountCheck(check, region, unchecked=(str(error),))
