"""A run of `site.yml` that changes nothing, on a rack in a box: gpufleet against plain ansible-core.

gpufleet uses the settings of the checkout and mitogen. The peer is ansible-core with
its defaults (5 forks, no pipelining) over the same playbook, roles and hosts; it only keeps the fact cache,
without which controllers do not know nodes that a run with a limit leaves out. Both run in turn.

Numbers of hosts are reached with limits on one rack. A task-host is a task that ran on a host, skipped ones
not counted.
"""

from __future__ import annotations

import secrets
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from gpufleet.lab.rack import missing
from gpufleet.racks.runner import PlaybookResult
from tests.rack.lab import ROOT, Lab, fleet_text

SIZES = (2, 4, 8, 16)
SITE = "playbooks/site.yml"
# The package of Grafana is not available here.
MONITORING = "    monitoring: { grafana: false }\n"


@dataclass
class Size:
    """Runs over one number of hosts: seconds of each, and the number of task-hosts."""

    hosts: int
    ours: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    task_hosts: int = 0


def table(rounds: int, sizes: tuple[int, ...] = SIZES) -> Table | None:
    """Medians of both; None if this machine cannot run racks."""
    if missing():
        return None
    made = Table(
        *("hosts", "task-hosts", "ours, s", "task-hosts / s"),
        *("plain, s", "task-hosts / s", "plain / ours"),
        title="site.yml when nothing changes",
    )
    for size in measure(rounds, sizes):
        ours, plain = map(statistics.median, (size.ours, size.plain))
        made.add_row(
            str(size.hosts),
            str(size.task_hosts),
            f"{ours:.1f}",
            f"{size.task_hosts / ours:.1f}",
            f"{plain:.1f}",
            f"{size.task_hosts / plain:.1f}",
            f"{plain / ours:.2f}",
        )
    return made


def measure(rounds: int, sizes: tuple[int, ...]) -> list[Size]:
    """Every size in turn, with gpufleet and the peer."""
    secret = dict(site_secrets())
    with (
        tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder,
        site_of(Path(folder), max(sizes), secret) as lab,
    ):
        hosts = [*lab.names("controller"), *lab.names("gpu")]
        plain = plain_settings(Path(folder), lab)
        found = [Size(number) for number in sizes]
        for size in found:
            limit = hosts[: size.hosts]
            for _ in range(rounds):
                result = quiet(lab, limit, secret, transport="mitogen")
                size.ours.append(result.duration_s)
                size.task_hosts = sum(stats.ok for stats in result.hosts.values())
                result = quiet(lab, limit, secret, transport="ssh", environment=plain)
                size.plain.append(result.duration_s)
    return found


@contextmanager
def site_of(folder: Path, hosts: int, secret: Mapping[str, str]) -> Iterator[Lab]:
    """A rack with one controller and a configured site, including monitoring."""
    lab = Lab.up(folder, fleet_text(gpu_nodes=hosts - 1, controllers=1, login=False, more=MONITORING))
    try:
        done = lab.run(SITE, transport="mitogen", secrets=secret)
        if done.failures:
            first = done.failures[0]
            raise RuntimeError(f"{first.host}: {first.task}: {first.message}")
        yield lab
    finally:
        lab.down()


def site_secrets() -> Iterator[tuple[str, str]]:
    """New secrets for the site."""
    yield "GPUFLEET_SECRET_MUNGE_KEY_LAB", secrets.token_hex(64)
    yield "GPUFLEET_SECRET_DATABASE_PASSWORD_LAB", secrets.token_hex(16)


def quiet(lab: Lab, hosts: list[str], secret: Mapping[str, str], **how: Any) -> PlaybookResult:
    """A run that must change nothing, with options of `Lab.run`."""
    result = lab.run(SITE, limit=",".join(hosts), secrets=secret, **how)
    if result.failures or result.changed:
        raise RuntimeError(f"the run changed {result.changed} and failed on {result.failed_hosts}")
    return result


def plain_settings(folder: Path, lab: Lab) -> dict[str, str]:
    """Default settings of ansible-core, except paths."""
    settings = folder / "plain.cfg"
    settings.write_text(
        "[defaults]\n"
        f"roles_path = {ROOT / 'ansible' / 'roles'}\n"
        f"collections_path = {ROOT / 'gpufleet' / 'collections'}\n"
        "fact_caching = jsonfile\n"
        f"fact_caching_connection = {folder / 'facts'}\n"
    )
    return {"ANSIBLE_CONFIG": str(settings)}
