#!/usr/bin/python
"""systemd units, restarted when files that they read have changed since their start."""

from __future__ import annotations

DOCUMENTATION = r"""
module: units
short_description: Manages the systemd units of a role
description:
  - Enables, starts, stops, masks, restarts and reloads units, all of a role in one round trip.
  - Records the digest of a unit's files at its start, and restarts it when they differ.
    Unlike a handler's notification, this survives a killed run.
  - In check mode a missing unit counts as changed.
  - Waits for jobs of systemd, as after a boot, before it compares.
options:
  units:
    description: Units, in order.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Unit with its suffix.
        type: str
        required: true
      state:
        description: Whether it must run.
        type: str
        choices: [started, stopped]
        default: started
      enabled:
        description: Whether to enable it at boot.
        type: bool
        default: true
      masked:
        description: Whether to mask it; it is stopped then.
        type: bool
        default: false
      files:
        description: Files and folders that it reads at start.
        type: list
        elements: str
        default: []
      restart:
        description: Whether to restart it in any case.
        type: bool
        default: false
      reload:
        description: Whether it reloads its files without a restart.
        type: bool
        default: false
      adopt:
        description: Whether it belongs to the system. It is only reloaded or restarted, and only if it runs.
        type: bool
        default: false
      guard:
        description:
          - What changes, as a clause, if a restart disturbs running work. The node is drained before the
            restart, and the module fails while work runs (see M(gpufleet.rack.node_guard)).
        type: str
        default: ""
      when:
        description: Whether to apply the item.
        type: bool
        default: true
  timeout_s:
    description: Time limit in seconds for a unit to start or stop.
    type: int
    default: 120
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Run munge
  gpufleet.rack.units:
    units:
      - name: munge.service
        files: [/etc/munge/munge.key]
        restart: "{{ munge__files is changed }}"
"""

RETURN = r"""
changed_units:
  description: Changed units, with the changes.
  type: dict
  returned: always
"""

import hashlib
import json
import subprocess
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.node_guard import take_out_of_service
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish

RECORDS = Path("/var/lib/gpufleet/units")
FIELDS = (
    *("Id", "LoadState", "ActiveState", "SubState", "UnitFileState", "NeedDaemonReload", "Type", "Result"),
    *("ConditionResult", "Job"),
)
# States of a unit file for which `systemctl enable` does nothing.
AS_GOOD_AS_ENABLED = {"enabled", "static", "indirect", "generated", "alias", "linked", "transient"}
# Operations that only change links in /etc, in this order.
LINKS = ("unmask", "enable", "disable")
RESTARTS = {"restart", "reload-or-restart"}
SETTLE_S = 0.4
# Right after a boot units may still wait for others, or for a retry.
UNDER_WAY_S = 20


def systemctl(*words: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """Run systemctl; exit code 124 on timeout."""
    command = ["systemctl", "--no-pager", *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"took longer than {timeout_s:.0f} s")


def parse_show(text: str, names: list[str]) -> dict[str, dict[str, str]]:
    """Blocks of `systemctl show`, in the order of the units."""
    blocks = [block for block in text.strip().split("\n\n") if block.strip()]
    found = {}
    for name, block in zip(names, blocks, strict=True):
        found[name] = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
    return found


def show(names: list[str]) -> dict[str, dict[str, str]]:
    """State of units in systemd."""
    if not names:
        return {}
    done = systemctl("show", "--property", ",".join(FIELDS), "--", *names)
    if done.returncode:
        raise RefusalError(
            f"systemd does not answer: {done.stderr.strip()}. The host needs a running systemd."
        )
    return parse_show(done.stdout, names)


def under_way(state: dict[str, str]) -> bool:
    """Whether systemd has a job for the unit: starts, stops, retries or queues it."""
    return state["ActiveState"] in ("activating", "deactivating") or state.get("Job", "0") not in ("", "0")


def settled(names: list[str]) -> dict[str, dict[str, str]]:
    """State of units when systemd has no more jobs for them, or after `UNDER_WAY_S` seconds.

    Otherwise a run right after a boot would report what the boot does as changes.
    """
    deadline = time.monotonic() + UNDER_WAY_S
    states = show(names)
    while any(map(under_way, states.values())) and time.monotonic() < deadline:
        time.sleep(SETTLE_S)
        states = show(names)
    return states


def digest(files: list[str]) -> str:
    """One digest of files and of all files in folders; missing ones count."""
    total = hashlib.sha256()
    for name in sorted(files):
        path = Path(name)
        members = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for member in members:
            total.update(f"{member}\0".encode())
            try:
                total.update(hashlib.sha256(member.read_bytes()).digest())
            except OSError:
                total.update(b"absent")
    return total.hexdigest()


def record_of(name: str) -> Path:
    """Path of the record of a unit's files."""
    return RECORDS / f"{name.replace('/', '-')}.json"


def read_records(name: str) -> dict[str, str]:
    """The digests at the last start, by the names of their files: roles may name different ones of a unit."""
    try:
        found = json.loads(record_of(name).read_text())
        # A record of an earlier gpufleet has one digest, of whatever files.
        digests = {"*": found["digest"]} if "digest" in found else found["digests"]
        return {str(key): str(value) for key, value in digests.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def read_record(name: str, files: list[str]) -> str | None:
    """The digest of the files at the last start, or None."""
    records = read_records(name)
    return records.get(" ".join(sorted(files)), records.get("*"))


def write_record(name: str, files: list[str], value: str) -> None:
    """Write the record of these files atomically."""
    records = {**read_records(name), " ".join(sorted(files)): value}
    path = record_of(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(0o700)  # digests of files with secrets are private
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"digests": records}))
    new.replace(path)


def decide(unit: dict[str, Any], state: dict[str, str], current: str, recorded: str | None) -> list[str]:
    """The needed systemctl commands of a unit, in order."""
    words: list[str] = []
    file_state = state.get("UnitFileState", "")
    active = state.get("ActiveState", "inactive")
    there = state.get("LoadState") not in ("not-found", None)
    if unit["adopt"]:
        restarts = active in ("active", "reloading") and (unit["restart"] or current != recorded)
        return ["reload-or-restart" if unit["reload"] else "restart"] if restarts else []
    if unit["masked"]:
        words += ["stop"] if active not in ("inactive", "failed") else []
        return words + (["mask"] if state.get("LoadState") != "masked" else [])
    if state.get("LoadState") == "masked":
        words.append("unmask")
    if unit["enabled"] and file_state not in AS_GOOD_AS_ENABLED:
        words.append("enable")
    if not unit["enabled"] and there and file_state in ("enabled", "enabled-runtime"):
        words.append("disable")
    if unit["state"] == "stopped":
        return words + (["stop"] if active not in ("inactive", "failed") else [])
    # A oneshot unit is up to date if it ran with these files.
    once = state.get("Type") == "oneshot" and active == "inactive" and state.get("Result") == "success"
    other_files = bool(unit["files"] or once) and current != recorded
    if active not in ("active", "reloading") and not once:
        words.append("start")
    elif unit["restart"] or other_files:
        words.append("reload-or-restart" if unit["reload"] else "restart")
    return words


def journal(name: str) -> str:
    """The last log lines of a unit."""
    done = subprocess.run(
        ["journalctl", "--no-pager", "-q", "-n", "8", "-o", "cat", "-u", name],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


def fail(word: str, names: list[str], stderr: str) -> None:
    """Raise for units that systemctl failed on, with the log of the first one."""
    error = " ".join(stderr.strip().splitlines()[:2])
    raise RefusalError(
        f"{', '.join(names)} did not {word}: {error} Its journal ends with: "
        f"{journal(names[0]) or 'nothing'}. "
        f"See `journalctl -u {names[0]}` on the host, repair the cause and run again."
    )


def link(done: dict[str, list[str]]) -> bool:
    """Run link operations for all units at once; whether any changed.

    systemctl may reload all unit files after each of them. The caller reloads
    once instead.
    """
    linked = False
    for word in LINKS:
        names = [name for name, words in done.items() if word in words]
        if names:
            linked = True
            outcome = systemctl("--no-reload", word, "--", *names)
            if outcome.returncode:
                fail(word, names, outcome.stderr)
    return linked


def apply(name: str, words: list[str], timeout_s: int) -> None:
    """Run the other commands; raises if the unit does not run afterwards."""
    for word in words:
        if word in LINKS:
            continue
        done = systemctl(word, "--", name, timeout_s=timeout_s)
        if done.returncode:
            fail(word, [name], done.stderr)
    if words and words[-1] in ("start", "restart", "reload-or-restart"):
        time.sleep(SETTLE_S)
        state = show([name])[name]
        if state["ActiveState"] == "failed" or state["SubState"] == "auto-restart":
            raise RefusalError(
                f"{name} started and ended at once ({state['Result']}). Its journal ends with: "
                f"{journal(name) or 'nothing'}. "
                f"See `journalctl -u {name}` on the host, repair the cause and run again."
            )
        # systemctl does not report this as a failure.
        idle = state["ActiveState"] == "inactive" and state["Type"] != "oneshot"
        if idle and state.get("ConditionResult") == "no":
            raise RefusalError(
                f"{name} was not started: a condition of its unit is not met, `systemctl status {name}` on "
                "the host names it. Fix the cause and run again."
            )


def ensure(units: list[dict[str, Any]], timeout_s: int, check: bool) -> dict[str, list[str]]:
    """Bring all units to their states; the changes, also in check mode."""
    names = [unit["name"] for unit in units]
    states = settled(names)
    stale = {"NeedDaemonReload": "yes", "LoadState": "not-found"}.items()
    read = not check and any(state[key] == value for state in states.values() for key, value in stale)
    if read:
        systemctl("daemon-reload")
        states = show(names)
    for unit in units:
        needed = not (unit["adopt"] or unit["masked"] or unit["state"] == "stopped")
        if states[unit["name"]]["LoadState"] == "not-found" and needed and not check:
            raise RefusalError(
                f"There is no unit {unit['name']} on the host. The package that brings it is not installed "
                "or has another name for it: see `systemctl list-unit-files`."
            )

    def decided(unit: dict[str, Any], current: str) -> list[str]:
        return decide(unit, states[unit["name"]], current, read_record(unit["name"], unit["files"]))

    # systemd detects a changed file, but not a first drop-in: it caches
    # the folders and starts without the new one. So reload before every start.
    coming = {unit["name"]: decided(unit, digest(unit["files"])) for unit in units}
    for unit in units:
        if unit["guard"] and RESTARTS & set(coming[unit["name"]]):
            take_out_of_service(unit["guard"], check=check)
    if not check and (link(coming) or (any(coming.values()) and not read)):
        systemctl("daemon-reload")
    done: dict[str, list[str]] = {}
    for unit in units:
        name = unit["name"]
        current = digest(unit["files"])  # computed now: an earlier unit may have written them
        words = decided(unit, current)
        if words:
            done[name] = words
        if check:
            continue
        apply(name, words, timeout_s)
        if words and words[-1] in ("start", "restart", "reload-or-restart"):
            write_record(name, unit["files"], current)
    return done


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Compare and change; the result for Ansible."""
    done = ensure([unit for unit in params["units"] if unit["when"]], params["timeout_s"], check)
    after = "".join(f"{name}: {', '.join(words)}\n" for name, words in done.items())
    return {"changed": bool(done), "changed_units": done, "diff": difference("units", "", after)}


def main() -> None:
    """Entry point."""
    unit = {
        "name": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
        "enabled": {"type": "bool", "default": True},
        "masked": {"type": "bool", "default": False},
        "files": {"type": "list", "elements": "str", "default": []},
        "restart": {"type": "bool", "default": False},
        "reload": {"type": "bool", "default": False},
        "adopt": {"type": "bool", "default": False},
        "guard": {"type": "str", "default": ""},
        "when": {"type": "bool", "default": True},
    }
    module = AnsibleModule(
        argument_spec={
            "units": {"type": "list", "elements": "dict", "required": True, "options": unit},
            "timeout_s": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
