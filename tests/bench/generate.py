"""Fleet files of any size, for measuring."""

from __future__ import annotations

from pathlib import Path

_HEAD = """\
apiVersion: gpufleet/v1
fleet: bench
environment: {environment}
budget: {{monthly: 900000000 USD}}
tags: {{team: bench, cost-center: cc-1, project: bench}}
cloud:
  - site: use1
    region: us-east-1
    zones: [us-east-1a, us-east-1b]
    network: {{cidr: 10.0.0.0/16}}
    scheduler: {scheduler}
    node_groups:
"""
_GROUP = """\
      - name: group-{index:04d}
        instance_types: [g6e.2xlarge]
        capacity: {{on_demand: {{min: 0, max: 4, desired: 1}}}}
        workload: batch
        labels: {{shard: "{index}"}}
"""
_TAIL = "software: {channel: 2026.11}\n"


def fleet_file(groups: int, environment: str = "bench", scheduler: str = "kubernetes") -> str:
    """A valid fleet file with so many node groups in one site."""
    body = "".join(_GROUP.format(index=index) for index in range(groups))
    return _HEAD.format(environment=environment, scheduler=scheduler) + body + _TAIL


def write_environment(root: Path, groups: int, scheduler: str = "kubernetes") -> Path:
    """Writes the environment `bench` of a checkout, with its stack configuration for the sandbox."""
    folder = root / "stacks" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fleet.yaml").write_text(fleet_file(groups, scheduler=scheduler), encoding="utf-8")
    (root / "stacks" / "Pulumi.bench.yaml").write_text(
        "config:\n  gpufleet:cloud: sandbox\n", encoding="utf-8"
    )
    return folder / "fleet.yaml"
