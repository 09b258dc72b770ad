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
"""
_SITE = """\
  - site: use{number}
    region: us-east-1
    zones: [us-east-1a, us-east-1b]
    network: {{cidr: 10.{number}.0.0/16}}
    scheduler: {scheduler}
"""
_A_SITE = 50
"""Node groups of a site: the pods of all nodes fit its subnets."""
_GROUPS = "    node_groups:\n"
_GROUP = """\
      - name: group-{index:04d}
        instance_types: [g6e.2xlarge]
        capacity: {{on_demand: {{min: 0, max: 4, desired: 1}}}}
        workload: batch
        labels: {{shard: "{index}"}}
"""
_TEAMS = "    kubernetes:\n      teams:\n"
_TEAM = "        - {{name: team-{index:04d}, gpus: 64}}\n"
_RESERVED = """\
      - name: group-{index:04d}
        instance_types: [g6e.48xlarge]
        capacity: {{reserved: {{odcr: {{nodes: 2}}}}}}
        zones: [us-east-1a]
        placement: cluster
        workload: training
        team: team-{index:04d}
"""
_SPOT = """\
      - name: group-{index:04d}
        instance_types: [g6e.xlarge, g6e.2xlarge]
        capacity: {{spot: {{min: 0, max: 1, desired: 1, on_shortage: [other-type, on-demand]}}}}
        workload: batch
        team: team-{index:04d}
"""
_TAIL = "software: {channel: 2026.11}\n"


def fleet_file(groups: int, environment: str = "bench", scheduler: str = "kubernetes") -> str:
    """A valid fleet file with so many node groups, 50 in a site."""
    lines = [_HEAD.format(environment=environment)]
    for first in range(0, groups, _A_SITE):
        lines += [_SITE.format(number=first // _A_SITE + 1, scheduler=scheduler), _GROUPS]
        lines += [_GROUP.format(index=index) for index in range(first, min(first + _A_SITE, groups))]
    return "".join(lines) + _TAIL


def teams_file(groups: int, environment: str = "bench") -> str:
    """A valid fleet file in which each node group has a team of its own: ten resources for each group.

    Every other group has a reservation in a placement group; the rest is on spot, with a second group
    that buys on demand. 200 groups make 2,077 resources, and their pods fit the site's subnets.
    """
    teams = "".join(_TEAM.format(index=index) for index in range(groups))
    body = "".join((_SPOT if index % 2 else _RESERVED).format(index=index) for index in range(groups))
    head = _HEAD.format(environment=environment) + _SITE.format(number=1, scheduler="kubernetes")
    return head + _TEAMS + teams + _GROUPS + body + _TAIL


def write_environment(root: Path, text: str) -> Path:
    """Writes the environment `bench` of a checkout, with its stack configuration for the sandbox."""
    folder = root / "stacks" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fleet.yaml").write_text(text, encoding="utf-8")
    (root / "stacks" / "Pulumi.bench.yaml").write_text(
        "config:\n  gpufleet:cloud: sandbox\n", encoding="utf-8"
    )
    return folder / "fleet.yaml"
