"""Racks whose power and ownership have prices, as the spec gives them."""

from __future__ import annotations

from typing import Any

PRICED_RACKS: dict[str, Any] = {
    "site": "dc1",
    "system": "dgx-h100",
    "nodes": "dgx[01-04]",
    "bmc": "bmc[01-04]",
    "controllers": "ctl01",
    "login": "login01",
    "network": "10.61.0.0/24",
    "fabric": {"kind": "infiniband", "speed": "ndr", "topology": "rail-optimized"},
    "scheduler": "slurm",
    "power": {"per_rack": "40 kW", "pue": 1.25, "price": "0.11 USD/kWh"},
    "ownership": {"acquisition": "270000 USD", "lifetime": "5 y"},
    "ssh": {"user": "ubuntu", "domain": "dc1.example.com"},
}
