"""What shared storage of a cloud site costs."""

from __future__ import annotations

from gpufleet.catalog import Catalog
from gpufleet.plan.cost.ledger import Ledger, Rate, fixed, missing, number
from gpufleet.plan.models import BucketPlan, CostLine, LustrePlan, UnknownCost


def price_lustre(system: LustrePlan, region: str, catalog: Catalog, ledger: Ledger) -> None:
    """Add a file system. AWS's "GB-month" of FSx is 2^30 bytes (1.2 TiB in its console is 1,200 GiB):
    GiB are counted as they are.
    """
    tier = catalog.lustre_tier(system.deployment, system.throughput)
    speed = f" {system.throughput} MB/s/TiB" if system.throughput is not None else ""
    what = f"FSx for Lustre {system.deployment}{speed}, {system.capacity_gib:,} GiB"
    price = catalog.lustre_price(tier, region)
    rate = Rate.of(price)
    if rate is None:
        ledger.unknown.append(UnknownCost(system.site, system.name, what, missing(price)))
    else:
        ledger.lines.append(
            CostLine(
                site=system.site,
                owner=system.name,
                kind="storage",
                what=what,
                monthly=fixed(system.capacity_gib * rate.expected),
                basis=f"{system.capacity_gib} GB-month x {number(rate.expected)} USD",
                source=rate.source,
                date=rate.date,
                tags=system.tags,
                note=rate.note,
            )
        )
    if system.metadata_iops is not None:
        ledger.unknown.append(
            UnknownCost(
                system.site,
                system.name,
                f"{system.metadata_iops} metadata IOPS",
                "no price of provisioned metadata IOPS was read",
            )
        )
    if system.backup_days:
        ledger.leave_out(f"{system.site}/{system.name}: backups, which cost by the GB that changed")


def note_bucket(bucket: BucketPlan, region: str, catalog: Catalog, ledger: Ledger) -> None:
    """Say that a bucket is not counted: it costs by what is put into it, which no fleet file says.

    That is use, not an unknown price: it does not make the fleet's cost unknown.
    """
    rate = Rate.of(catalog.service_price("s3-standard", region))
    price = f" at {number(rate.expected)} USD per GB-month" if rate is not None else ""
    ledger.leave_out(f"{bucket.site}/{bucket.name}: objects in the bucket {bucket.bucket}{price}")
