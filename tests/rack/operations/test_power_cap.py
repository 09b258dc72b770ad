"""GPU power caps, set and reset by an operation."""

from __future__ import annotations

import pytest

from tests.rack.operations.operating import why
from tests.rack.site import Site


@pytest.mark.breaks("dgx01", "dgx02")
def test_power_cap_outside_the_limits_is_refused_and_a_valid_cap_is_set_and_reset(
    site_to_break: Site,
) -> None:
    site = site_to_break
    lab = site.lab
    limits = "nvidia-smi --query-gpu=power.limit --format=csv,noheader,nounits | sort -u"
    nodes = ("--limit", "dgx01,dgx02")

    refused = site.configure("power_cap", "-o", "watts=900", *nodes, verb="operate", code=4)
    assert "900 W is not within what GPU 0" in why(refused, "dgx01")
    assert refused["changed"] == 0

    foreseen = site.configure("power_cap", "-o", "watts=500", *nodes, "--check", verb="operate", code=1)
    capped = site.configure("power_cap", "-o", "watts=500", *nodes, verb="operate")
    assert site.changes(foreseen) == site.changes(capped)
    assert capped["states"] == {"dgx01": "done", "dgx02": "done"}
    again = site.configure("power_cap", "-o", "watts=500", *nodes, verb="operate")
    assert again["changed"] == 0
    assert lab.sh("dgx01", limits) == "500.00\n"
    assert lab.sh("dgx03", limits) == "700.00\n"
    # The driver forgets it at a boot; the unit sets it again.
    lab.sh("dgx01", "nvidia-smi -pl 700 >/dev/null; systemctl restart gpufleet-power-cap")
    assert lab.sh("dgx01", f"systemctl is-enabled gpufleet-power-cap; {limits}") == "enabled\n500.00\n"

    site.configure("power_cap", "-o", "watts=0", *nodes, verb="operate")
    assert lab.sh("dgx01", limits) == "700.00\n"
    assert lab.sh("dgx01", "systemctl cat gpufleet-power-cap 2>&1", code=None).startswith("No files found")
