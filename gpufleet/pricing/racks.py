"""On-premises sites as cost lines: what the plan says of their electricity and ownership."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.plan.models import CostLine, FleetPlan
from gpufleet.pricing.models import ResourceCost


def price_racks(plan: FleetPlan) -> Iterator[ResourceCost]:
    """The lines of all rack sites. They are no resources of the program: their URN is empty.

    Electricity or machines for nothing are a mistake of the fleet file, and unknown.
    """
    sites = {site.site for site in plan.onprem}
    for line in plan.cost.lines:
        if line.site not in sites:
            continue
        amounts = line.monthly
        known = all(each is not None and each > 0 for each in (amounts.low, amounts.expected, amounts.high))
        yield ResourceCost(
            urn="",
            type="",
            name=line.site,
            what=line.what,
            kind=line.kind,
            minimum=amounts.low if known else None,
            expected=amounts.expected if known else None,
            maximum=amounts.high if known else None,
            site=line.site,
            owner=line.owner,
            basis=line.basis,
            source=line.source,
            date=line.date,
            reason="" if known else _for_nothing(line),
        )
    for missing in plan.cost.unknown:
        if missing.site in sites:
            yield ResourceCost(
                urn="",
                type="",
                name=missing.site,
                what=missing.what,
                kind="power",
                minimum=None,
                expected=None,
                maximum=None,
                site=missing.site,
                owner=missing.owner,
                reason=missing.reason,
            )


def _for_nothing(line: CostLine) -> str:
    return f"the fleet file has it cost 0 USD ({line.basis}), which cannot be"
