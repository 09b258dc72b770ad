"""Usage of the sites of a fleet: jobs at the price of the site's GPU-hours, and what was not used."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from gpufleet.catalog import Catalog
from gpufleet.economics.rightsizing import advise
from gpufleet.economics.usage import JobUse, SiteCapacity, UsageReport, allocate, daily, find_anomalies
from gpufleet.errors import InputError
from gpufleet.plan.models import CloudSitePlan, FleetPlan, OnPremSitePlan
from gpufleet.pricing.models import FleetCost
from gpufleet.pricing.rates import HOURS_PER_MONTH


class SitePrice(Struct, frozen=True):
    """USD per GPU-hour of a site, None if a part of its cost is unknown, with `reason`.

    `owned` is False if the purchase price of the nodes is not part of it.
    """

    price: float | None
    basis: str
    reason: str = ""
    owned: bool = True


def find_site(plan: FleetPlan, name: str | None, scheduler: str) -> CloudSitePlan | OnPremSitePlan:
    """Return the site of that name, or the only one with the scheduler. Raises InputError for neither."""
    sites = {each.site: each for each in plan.sites}
    if name is not None:
        if name not in sites:
            raise InputError(f"the fleet has no site {name!r}", remedy=f"write one of {', '.join(sites)}")
        return sites[name]
    having = [each for each in plan.sites if each.scheduler == scheduler]
    if len(having) != 1:
        raise InputError(
            f"{len(having)} sites of the fleet use {scheduler}",
            remedy=f"choose one with --site: {', '.join(sites)}",
        )
    return having[0]


def gpu_hour_price(site: CloudSitePlan | OnPremSitePlan, cost: FleetCost) -> SitePrice:
    """Return what an hour of a GPU of racks costs: the site's monthly cost / its GPUs / 730 h.

    The jobs of a cloud site are priced by the cloud's own report.
    """
    if isinstance(site, CloudSitePlan):
        return SitePrice(None, "", f"the cost of {site.site} is in the report of AWS (--cur)")
    lines = [line for line in cost.lines if line.site == site.site]
    unknown = [line for line in lines if line.expected is None]
    if unknown or not lines:
        why = unknown[0].reason if unknown else "it has no priced part"
        return SitePrice(None, "", f"the cost of {site.site} is not known: {why}")
    gpus = site.nodes * site.gpus_per_node
    total = sum(float(line.expected or 0) for line in lines)
    kinds = ", ".join(sorted({line.kind for line in lines}))
    basis = f"{total:,.0f} USD per month ({kinds}) / {gpus:,} GPUs / {HOURS_PER_MONTH} h"
    owned = any(line.kind == "ownership" for line in lines)
    return SitePrice(total / gpus / HOURS_PER_MONTH, basis, owned=owned)


def report_jobs(
    jobs: Sequence[JobUse],
    site: CloudSitePlan | OnPremSitePlan,
    price: SitePrice,
    catalog: Catalog,
    source: str,
    region: str | None,
) -> UsageReport:
    """Return the allocations, idle GPU-hours, unusual days and advice of the jobs of a site."""
    notes = [] if price.price is not None else [f"{site.site}: {price.reason}"]
    if price.price is not None and not price.owned:
        notes.append(f"{site.site}: without `ownership` in the fleet file the price has no purchase price")
    unmeasured = sum(1 for job in jobs if job.utilization is None)
    if jobs and unmeasured:
        notes.append(f"{site.site}: the utilization of {unmeasured:,} of {len(jobs):,} jobs was not measured")
    days = _days(jobs)
    return UsageReport(
        sources=(f"{source}: {len(jobs):,} jobs with GPUs{days}",),
        allocations=allocate(jobs, site.site, price.price),
        capacities=(_capacity(jobs, site, price),),
        anomalies=find_anomalies(daily(jobs), site.site, "GPU-hours"),
        advice=advise(jobs, catalog, region),
        notes=tuple(notes),
    )


def _capacity(jobs: Sequence[JobUse], site: CloudSitePlan | OnPremSitePlan, price: SitePrice) -> SiteCapacity:
    if isinstance(site, CloudSitePlan):
        return SiteCapacity(
            site.site, None, None, None, None, "", "its nodes scale: AWS's report has their hours"
        )
    starts = [job.start for job in jobs if job.start is not None]
    ends = [job.end for job in jobs if job.end is not None]
    if not starts or len(starts) < len(jobs):
        return SiteCapacity(
            site.site, None, None, None, price.price, price.basis, "jobs without a start time"
        )
    hours = (max(ends) - min(starts)).total_seconds() / 3600
    all_hours = hours * site.nodes * site.gpus_per_node
    idle = all_hours - sum(job.gpu_hours for job in jobs)
    if idle < -1e-6 * all_hours:
        reason = "the jobs have more GPU-hours than the site: the file is of another cluster, or of several"
        return SiteCapacity(site.site, all_hours, None, None, price.price, price.basis, reason)
    idle = max(idle, 0.0)
    cost = None if price.price is None else idle * price.price
    return SiteCapacity(site.site, all_hours, idle, cost, price.price, price.basis)


def _days(jobs: Sequence[JobUse]) -> str:
    starts = [job.start for job in jobs if job.start is not None]
    return f", {min(starts).date()} to {max(starts).date()}" if starts else ""
