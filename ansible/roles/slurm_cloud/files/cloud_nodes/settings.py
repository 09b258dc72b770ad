"""The settings that the role writes: sites, node groups, and how their nodes are bought."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Group:
    """A node group: nodes `prefix` + a number, launched from one launch template.

    `name` is what the record of stopped groups calls it. `purchases` are tried in order: `spot`, `on-demand`
    (an on-demand reservation too), `capacity-block`. `drained_parameter` says whether a breach of the budget
    drains its spot nodes; empty if it never does.
    """

    name: str
    prefix: str
    launch_template: str
    version: str
    instance_types: Sequence[str]
    subnets: Sequence[str]
    purchases: Sequence[str]
    max_price: str = ""
    drained_parameter: str = ""


@dataclass(frozen=True)
class BurstGroup:
    """A partition of cloud nodes that jobs of the racks may use: how many nodes there are, what one has, and
    what it costs at most, in USD per hour. `gpu_type` is that of slurm.conf.
    """

    partition: str
    nodes: int
    cpus: int
    memory_mib: int
    gpus: int
    gpu_type: str
    usd_per_hour: Decimal


@dataclass(frozen=True)
class Burst:
    """When waiting jobs of the racks may use cloud nodes: jobs of `accounts` in `partitions` of the racks
    that waited `after_s` seconds or would miss their deadline, as long as all jobs on these nodes cost at
    most `monthly_usd` in a month. A node takes at most `boot_s` seconds to be up, and is terminated
    `idle_s` seconds after its last job.
    """

    accounts: Sequence[str]
    partitions: Sequence[str]
    after_s: int
    boot_s: int
    idle_s: int
    monthly_usd: Decimal
    groups: Sequence[BurstGroup]


@dataclass(frozen=True)
class Site:
    """Node groups in one region. `tags` are on each of their instances, and on no other instance.

    `role` is the IAM role to take on; empty for the credentials as they are. `munge_parameter` is the SSM
    parameter with the munge key, which nodes read, and `munge_key_arn` the KMS key that encrypts it.
    `stopped_parameter` has the groups that a breach of the budget stopped, in its own region; empty if none
    can be; parameters of drained groups are there too. A signalled job may take `checkpoint_s` seconds for
    its checkpoint. `endpoint` replaces the address of AWS's API.
    """

    site: str
    region: str
    tags: Mapping[str, str]
    groups: Sequence[Group]
    role: str = ""
    munge_parameter: str = ""
    munge_key_arn: str = ""
    stopped_parameter: str = ""
    stopped_region: str = ""
    checkpoint_s: int = 90
    endpoint: str = ""
    burst: Burst | None = None

    def group_of(self, node: str) -> Group | None:
        """Return the group of a node, by its name."""
        return next((group for group in self.groups if _belongs(node, group.prefix)), None)


@dataclass(frozen=True)
class Settings:
    """Settings of a cluster. A node that could not be launched is tried again after `retry_s` seconds."""

    sites: Sequence[Site]
    retry_s: int

    def site_of(self, node: str) -> Site | None:
        """Return the site of a node, by its name."""
        return next((site for site in self.sites if site.group_of(node)), None)


def read_settings(path: Path) -> Settings:
    """Read the settings. Raises OSError, ValueError, KeyError or TypeError for a file of others."""
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return Settings(tuple(map(_site, found["sites"])), int(found["retry_s"]))


def _site(given: Mapping[str, Any]) -> Site:
    values = {**given, "groups": tuple(map(_group, given["groups"]))}
    if given.get("burst"):
        values["burst"] = _burst(given["burst"])
    return Site(**values)


def _burst(given: Mapping[str, Any]) -> Burst:
    groups = [
        BurstGroup(**{**each, "usd_per_hour": Decimal(each["usd_per_hour"])}) for each in given["groups"]
    ]
    return Burst(**{**given, "monthly_usd": Decimal(given["monthly_usd"]), "groups": tuple(groups)})


def _group(given: Mapping[str, Any]) -> Group:
    # Tuples, since launches are compared by their groups.
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in given.items()
    }
    return Group(**values)


def _belongs(node: str, prefix: str) -> bool:
    return node.startswith(prefix) and node[len(prefix) :].isdigit()
