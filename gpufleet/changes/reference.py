"""docs/reference/changes.md, generated from the table of changes and the models."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from gpufleet.changes.change import FieldChange
from gpufleet.changes.fields import Field, fleet_fields
from gpufleet.changes.observe import Effect
from gpufleet.changes.table import CLOUD, affects_costs_only, is_rack, is_server_setting

_HEADER = """# What a change does

What happens to existing resources when a field of the fleet file changes, and who is affected:

- **nothing**: no resource of the cloud changes.
- **in place**: resources are changed, added or removed, and nothing depends on the removed ones.
- **rolling**: AWS replaces the nodes of a group one after another.
- **replacement**: resources that work or data depends on are deleted, or created again.

Tests run each of these changes through the engine, on a fleet that is deployed in an emulated account, and
read the effect from the steps (for the software channel from the plan, which is the same for every channel).
`tests/effects.py` declares what an engine cannot see, such as that EKS replaces nodes for a new version of a
launch template.

FSx file systems, buckets and reservations are deleted only by their explicit removal. `up` previews first,
and ends before anything is changed if

- storage would be deleted or replaced, unless `--allow-data-loss` is passed (`destroy` too);
- a reservation would be replaced, or deleted in a run that requests another (its group, site or fleet has
  another name). To release it, remove it from the file in a separate run. A Capacity Block that has ended is
  not protected.

Rules of the policy pack also require an exemption (`storage-survives`, `reservations-survive`), and on a real
account `gpufleet:protect` must be off for a removal.

A Slurm site in the cloud has Auto Scaling groups, which use a change for later launches and stop no node. If
the effect differs, it is behind a slash: *Kubernetes / Slurm*.

This page is written by `make docs`; a test keeps it current.
"""

_RACKS = """`gpufleet configure` applies fields of racks to the hosts. In the cloud their cost changes the
limit of the AWS budget only, which is what racks leave of `budget.monthly`. The README of a role states what
it restarts or reboots for a change; reboots run in batches of `reboot.batch`.
"""


_SECTIONS = (
    ("The fleet", ""),
    ("Cloud sites", "cloud[]"),
    ("Node groups", "cloud[].node_groups[]"),
    ("Storage", "cloud[].storage[]"),
    ("Racks", "onprem[]"),
)
"""Headings, and the first part of the section's paths; the longest matching one is used."""


def changes_reference() -> str:
    """Return the page as Markdown."""
    parts = [_HEADER]
    for heading, prefix in _SECTIONS:
        parts += [f"## {heading}\n"]
        parts += [_RACKS] if prefix == "onprem[]" else []
        parts += ["| field | change | effect | who is affected | needs |\n|---|---|---|---|---|"]
        parts += [row for each in fleet_fields() if _section(each.path) == prefix for row in _rows(each)]
        parts += [""]
    return "\n".join(parts).rstrip("\n") + "\n"


def _section(path: str) -> str:
    fitting = [
        prefix for _, prefix in _SECTIONS if not prefix or path == prefix or path.startswith(f"{prefix}.")
    ]
    return max(fitting, key=len)


def _rows(field: Field) -> Iterator[str]:
    if field.group:
        return
    if field.only:
        yield _row(field.path, "none", f"can only be `{field.only}`", "", "")
    elif affects_costs_only(field.path):
        yield _row(field.path, "any", "nothing", "readers of costs; Prometheus, if the site has it", "")
    elif is_rack(field.path):
        yield _row(field.path, "any", "rack only: `configure`", "the site's hosts", "")
    elif is_server_setting(field.path):
        yield _row(field.path, "any", "hosts only: `configure`", "the site's hosts", "")
    for change in CLOUD.get(field.path, ()):
        yield _row(field.path, change.how, effect(change), change.affects, change.approval)


def effect(change: FieldChange) -> str:
    """Return the effect; behind a slash that in a Slurm site, if it differs."""
    if change.in_slurm is change.effect:
        return _shown(change.effect)
    return f"{_shown(change.effect)} / {_shown(change.in_slurm)}"


def _shown(effect: Effect) -> str:
    return f"**{effect}**" if effect in (Effect.ROLLING, Effect.REPLACEMENT) else str(effect)


def _row(path: str, *cells: str) -> str:
    return f"| `{path}` | {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.stdout.write(changes_reference())
