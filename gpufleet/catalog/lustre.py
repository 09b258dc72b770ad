"""Sizes and throughputs of FSx for Lustre file systems.

The figures are the catalog's (`LustreTier`). This module has the arithmetic for the fleet file's checks and
for the rules on resources. Deployment types have AWS's names (`PERSISTENT_2`).
"""

from __future__ import annotations

from gpufleet.catalog.catalog import Catalog


def size_steps(
    catalog: Catalog, deployment: str, throughput: int | None, *, efa: bool
) -> tuple[int, int] | None:
    """Return first size and multiple in GiB; None if the tier is unknown or has no EFA.

    A throughput that the deployment type does not have does not change its sizes.
    """
    same = [tier for tier in catalog.lustre_tiers if tier.deployment == deployment]
    exact = [tier for tier in same if tier.throughput == throughput]
    if efa:
        if not exact or exact[0].efa_multiple_gib is None:
            return None
        return exact[0].efa_multiple_gib, exact[0].efa_multiple_gib
    tiers = exact or same
    return (tiers[0].first_gib, tiers[0].multiple_gib) if tiers else None


def is_size(gib: int, steps: tuple[int, int]) -> bool:
    """Return whether a file system of `gib` GiB is possible."""
    first, multiple = steps
    return gib == first or (gib > 0 and gib % multiple == 0)


def nearest_sizes(gib: int, steps: tuple[int, int]) -> tuple[int | None, int]:
    """Return the nearest sizes below and above, in GiB."""
    first, multiple = steps
    under = gib // multiple * multiple
    below = max((size for size in (first, under) if 0 < size < gib), default=None)
    above = min(size for size in (first, under + multiple) if size > gib)
    return below, above


_INCLUDED_METADATA_IOPS = ((12_000, 12_000), (4_800, 6_000), (2_400, 3_000), (1_200, 1_500))
"""GiB and the metadata IOPS from there on, largest first, below 48,000 GiB."""


def included_metadata_iops(gib: int) -> int:
    """Return the metadata IOPS of a PERSISTENT_2 file system that its capacity includes.

    AWS provisions these in the mode AUTOMATIC, and charges only those above them (FSx for Lustre User Guide,
    "File system metadata performance").
    """
    if gib >= 48_000:
        return gib // 24_000 * 12_000
    return next((iops for least, iops in _INCLUDED_METADATA_IOPS if gib >= least), 0)
