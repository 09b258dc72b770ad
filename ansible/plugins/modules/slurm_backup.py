#!/usr/bin/python
"""A complete backup of a cluster: accounting, slurmctld state, and configuration."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_backup
short_description: Backs up the accounting database and slurmctld's state
description:
  - Runs on the host of MariaDB, which must be a controller.
  - Copies a consistent slurmctld state, and then dumps the database in one
    transaction. In
    this order accounting may have jobs that the state does not; in the other order records would be
    overwritten.
  - A backup is written to a temporary folder and renamed at the end. A failed backup
    leaves
    no files, and earlier backups stay.
  - A backup has neither the munge key nor the database password.
options:
  cluster:
    description: Name of the cluster, which must match the host's configuration.
    type: str
    required: true
  folder:
    description: Parent folder of backups.
    type: path
    default: /var/backups/gpufleet/slurm
  keep:
    description: Number of backups to keep; the oldest are removed after a new one is complete.
    type: int
    default: 7
  reserve_mib:
    description: MiB that must remain free in addition to the estimated size.
    type: int
    default: 256
  quiet_s:
    description: Seconds for a copy of the state during which no file changes.
    type: int
    default: 60
  timeout_s:
    description: Time limit in seconds of the dump.
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
  description: Folder of the backup; empty in check mode.
  type: str
  returned: success
files:
  description: Names of its files, including the manifest.
  type: list
  returned: success
size:
  description: Total bytes.
  type: int
  returned: success
removed:
  description: Removed older backups.
  type: list
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import finish
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_backups import BackupRequest, back_up


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
    finish(module, lambda: back_up(BackupRequest(**module.params), module.check_mode))


if __name__ == "__main__":
    main()
