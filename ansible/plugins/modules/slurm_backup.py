#!/usr/bin/python
"""A backup of a cluster: its accounting, what slurmctld knows, and its configuration; whole or not at all."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_backup
short_description: Backs up the accounting database and slurmctld's state
description:
  - Runs on the host of MariaDB that is a controller as well.
  - Copies slurmctld's state so that no file of it changed meanwhile, and then dumps the database in one
    transaction. In
    this order accounting may know of jobs that the state does not; the other way round records would be
    overwritten.
  - Everything is written beside the backups and renamed at the end. A backup that does not come to its end
    leaves
    nothing behind, and the earlier ones untouched.
  - Neither munge's key nor the database's password is in it.
options:
  cluster:
    description: The cluster's name, which the host's configuration has to have as well.
    type: str
    required: true
  folder:
    description: Where backups are kept, a folder each.
    type: path
    default: /var/backups/gpufleet/slurm
  keep:
    description: How many backups are kept; the oldest go when a new one is whole.
    type: int
    default: 7
  reserve_mib:
    description: MiB that have to be free beside what the backup may need.
    type: int
    default: 256
  quiet_s:
    description: Seconds in which a copy of the state has to succeed during which no file changed.
    type: int
    default: 60
  timeout_s:
    description: Seconds that the dump may take.
    type: int
    default: 7200
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Back up the cluster
  gpufleet.rack.slurm_backup:
    cluster: dc1
  register: backup
"""

RETURN = r"""
path:
  description: The folder of the backup; empty in check mode.
  type: str
  returned: success
files:
  description: Names of its files, the manifest among them.
  type: list
  returned: success
size:
  description: Bytes of all of them.
  type: int
  returned: success
removed:
  description: Older backups that were removed.
  type: list
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import finish
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_backups import Wanted, back_up


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "folder": {"type": "path", "default": "/var/backups/gpufleet/slurm"},
            "keep": {"type": "int", "default": 7},
            "reserve_mib": {"type": "int", "default": 256},
            "quiet_s": {"type": "int", "default": 60},
            "timeout_s": {"type": "int", "default": 7200},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: back_up(Wanted(**module.params), module.check_mode))


if __name__ == "__main__":
    main()
