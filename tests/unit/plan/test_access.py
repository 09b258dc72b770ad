"""How a run reaches a cluster: directly, or by a port of this machine that no other process gets."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.plan.access import access_port, kubernetes_access
from gpufleet.spec.models import Kubernetes


def test_port_is_below_those_of_outgoing_connections_and_differs_by_cluster() -> None:
    ports = [access_port(f"atlas-prod-site{number}", Kubernetes()) for number in range(50)]
    assert all(port is not None and 20_000 <= port < 30_000 for port in ports)
    assert len(set(ports)) > 40
    assert access_port("atlas-prod-site0", Kubernetes()) == ports[0]


@pytest.mark.parametrize(
    ("settings", "access", "port"),
    [
        ({"access_port": 20_443}, "ssm", 20_443),
        ({"public_cidrs": ["203.0.113.0/24"], "access_port": 20_443}, "direct", None),
        ({"public_cidrs": ["203.0.113.0/24"], "access": "ssm", "access_port": 20_443}, "ssm", 20_443),
        ({"access": "direct"}, "direct", None),
    ],
)
def test_private_endpoint_is_reached_through_a_node_unless_the_fleet_file_says_so(
    settings: dict[str, Any], access: str, port: int | None
) -> None:
    declared = Kubernetes.model_validate(settings)
    assert (kubernetes_access(declared), access_port("atlas-prod-use1", declared)) == (access, port)
