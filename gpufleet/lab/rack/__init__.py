"""A rack in a box: the hosts of a rack site as systemd-nspawn containers in their own network.

`start_rack` creates them from a fleet file and boots them, `take_down` removes them completely, `Rack`
operates a running rack. It needs Linux, root and the tools of `gpufleet.lab.rack.needs`.
"""

from __future__ import annotations

from gpufleet.lab.rack.kit import Kit
from gpufleet.lab.rack.model import RackHost, RackSite, rack_site
from gpufleet.lab.rack.needs import missing, require
from gpufleet.lab.rack.rack import HostStatus, Rack, start_rack, take_down

__all__ = [
    "HostStatus",
    "Kit",
    "Rack",
    "RackHost",
    "RackSite",
    "missing",
    "rack_site",
    "require",
    "start_rack",
    "take_down",
]
