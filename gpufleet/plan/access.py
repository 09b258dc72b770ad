"""How a run reaches the API of a site's EKS cluster."""

from __future__ import annotations

import hashlib

from gpufleet.kinds import KubernetesAccess
from gpufleet.spec.models import Kubernetes

_FIRST_PORT, _PORTS = 20_000, 10_000
"""Below the ports that Linux gives to outgoing connections (32768 and above, ip(7)): a connection of another
process never holds one of them."""


def kubernetes_access(settings: Kubernetes) -> KubernetesAccess:
    """How a run reaches the API: as written, else directly if the endpoint is public, else through a node."""
    if settings.access is not None:
        return settings.access
    return "direct" if settings.public_cidrs else "ssm"


def access_port(name: str, settings: Kubernetes) -> int | None:
    """The port that leads to the cluster `name` with `ssm`; None otherwise.

    It is the same on every machine and in every run, since the state has it in the address of the API.
    """
    if kubernetes_access(settings) != "ssm":
        return None
    if settings.access_port is not None:
        return settings.access_port
    return _FIRST_PORT + int(hashlib.sha256(name.encode()).hexdigest(), 16) % _PORTS
