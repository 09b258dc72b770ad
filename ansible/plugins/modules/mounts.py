#!/usr/bin/python
"""Mounts of file systems: lines of /etc/fstab, and current mounts."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mounts
short_description: Manages the mounts of a role
description:
  - Manages lines of C(/etc/fstab), each marked with its role; other lines stay.
  - Mounts what is not mounted, remounts if source or options changed, and unmounts what the
    role no longer lists. A file system in use is not unmounted.
options:
  owner:
    description: Role.
    type: str
    required: true
  fstype:
    description: Default type of the file systems.
    type: str
  options:
    description: Default mount options, as in C(/etc/fstab).
    type: str
  mounts:
    description: Mounts.
    type: list
    elements: dict
    required: true
    suboptions:
      source:
        description: Server and export.
        type: str
        required: true
      path:
        description: Mount point.
        type: path
        required: true
      fstype:
        description: Type.
        type: str
      options:
        description: Mount options.
        type: str
  timeout_s:
    description: Time limit in seconds for a server to answer.
    type: int
    default: 60
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Mount data sets
  gpufleet.rack.mounts:
    owner: nfs_client
    fstype: nfs
    options: nconnect=8,hard,noatime
    mounts: [{source: "nas01:/data", path: /data}]
"""

RETURN = r"""
actions:
  description: Changes, also in check mode, one line each.
  type: list
  returned: always
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils import fstab
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish


def decide(
    wanted: list[fstab.Mount], owned: list[fstab.Mount], mounted: dict[str, tuple[str, str]]
) -> dict[str, list[fstab.Mount]]:
    """Mounts to remove and add; a changed line is both, if its path is mounted."""
    before = {mount.path: mount for mount in owned}
    after = {mount.path: mount for mount in wanted}
    changed = [m for m in wanted if m.path in mounted and m.path in before and before[m.path] != m]
    gone = [m for m in owned if m.path not in after and m.path in mounted]
    lacking = [m for m in wanted if m.path not in mounted]
    return {"unmount": [*gone, *changed], "mount": [*lacking, *changed]}


def refuse_taken(
    wanted: list[fstab.Mount], owned: list[fstab.Mount], mounted: dict[str, tuple[str, str]]
) -> None:
    """Refuse a path with a mount that this role did not create."""
    mine = {mount.path for mount in owned}
    for mount in wanted:
        if mount.path in mounted and mount.path not in mine and not mount.is_of(mounted[mount.path][0]):
            source, fstype = mounted[mount.path]
            raise RefusalError(
                f"{source} ({fstype}) is mounted on {mount.path}, where {mount.source} is to be. Unmount "
                "it, or choose another path in the fleet file. Nothing was changed."
            )


def apply(todo: dict[str, list[fstab.Mount]], text: str, changed: bool, timeout_s: int) -> None:
    """Unmount, write the lines, mount."""
    for mount in todo["unmount"]:
        fstab.must(
            ["umount", mount.path],
            f"{mount.path} could not be unmounted",
            f"See who uses it (`fuser -vm {mount.path}`), stop that and run again; /etc/fstab is as it was.",
            timeout_s,
        )
    if changed:
        fstab.write(text)
    for mount in todo["mount"]:
        fstab.mount(
            mount, "The server has to answer and to export it to this host; then run again.", timeout_s
        )


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Compare and change; the result for Ansible."""
    wanted = [
        fstab.Mount(
            item["source"],
            item["path"].rstrip("/") or "/",
            item["fstype"] or params["fstype"],
            item["options"] or params["options"],
        )
        for item in params["mounts"]
    ]
    text, mounted = fstab.read(), fstab.mounted()
    owned = fstab.own_lines(text, params["owner"])
    kept = fstab.kept_by_others(text, params["owner"], wanted)
    lines = [mount for mount in wanted if mount not in kept]
    fstab.refuse_others(text, params["owner"], lines)
    refuse_taken(wanted, owned, mounted)
    new = fstab.with_own(text, params["owner"], lines) if owned != lines else text
    todo = decide(wanted, owned, mounted)
    actions = [f"{word} {mount.path} ({mount.source})" for word, mounts in todo.items() for mount in mounts]
    if not check:
        apply(todo, new, new != text, params["timeout_s"])
    return {
        "changed": bool(actions) or new != text,
        "actions": actions,
        "diff": [
            difference("/etc/fstab", text, new),
            difference("mounts", "", "\n".join(actions)),
        ],
    }


def main() -> None:
    """Entry point."""
    mount = {
        "source": {"type": "str", "required": True},
        "path": {"type": "path", "required": True},
        "fstype": {"type": "str"},
        "options": {"type": "str"},
    }
    module = AnsibleModule(
        argument_spec={
            "owner": {"type": "str", "required": True},
            "fstype": {"type": "str"},
            "options": {"type": "str"},
            "mounts": {"type": "list", "elements": "dict", "required": True, "options": mount},
            "timeout_s": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
