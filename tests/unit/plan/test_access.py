"""How a run reaches a cluster: a port of this machine that no other process gets."""

from __future__ import annotations

from gpufleet.plan.access import access_port
from gpufleet.spec.models import Kubernetes


def test_port_is_below_those_of_outgoing_connections_and_differs_by_cluster() -> None:
    ports = [access_port(f"atlas-prod-site{number}", Kubernetes()) for number in range(50)]
    assert all(port is not None and 20_000 <= port < 30_000 for port in ports)
    assert len(set(ports)) > 40
    assert access_port("atlas-prod-site0", Kubernetes()) == ports[0]
