"""What shares out the devices of a Kubernetes site among its teams, for `gpufleet plan`."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.kinds import NEURON_RESOURCE
from gpufleet.plan.models import KubernetesPlan

_UNITS = {False: "GPUs", True: "Neuron devices"}
"""What is shared out, by whether it is of Neuron."""


def queue_lines(cluster: KubernetesPlan) -> Iterator[str]:
    """Yield `Kueue v0.19.2 guarantees 20 GPUs: research 13, serving 7`, and which nodes have a topology."""
    queues = cluster.queues
    if queues is None:
        return
    for neuron, unit in _UNITS.items():
        own = [flavor for flavor in queues.flavors if (flavor.resource == NEURON_RESOURCE) is neuron]
        if not own:
            continue
        shares = [
            f"{team} {sum(found.get(flavor.name, 0) for flavor in own):,}"
            for team, found in queues.guaranteed.items()
        ]
        total = sum(flavor.devices for flavor in own)
        yield f"Kueue v{queues.kueue} shares out {total:,} {unit}: {', '.join(shares) or 'no team'}"
    if placed := [group for flavor in queues.flavors if flavor.topology for group in flavor.node_groups]:
        yield f"jobs on {', '.join(placed)} are placed by EC2's topology"
    for name, version in (("JobSet", queues.jobset), ("LeaderWorkerSet", queues.leader_worker_set)):
        if version is not None:
            yield f"{name} v{version} is installed"
