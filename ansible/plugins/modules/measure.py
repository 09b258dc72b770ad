#!/usr/bin/python
"""Output of commands and text of files, as measurements."""

from __future__ import annotations

DOCUMENTATION = r"""
module: measure
short_description: Reads command output and files
description:
  - Runs read-only commands, and reads files. A command that fails or times out is a measurement too.
options:
  commands:
    description: Command lines as lists of words, by measurement name.
    type: dict
    default: {}
  read:
    description: File paths, by measurement name.
    type: dict
    default: {}
  timeout_s:
    description: Time limit in seconds of each command.
    type: int
    default: 20
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Measure munge
  gpufleet.rack.measure:
    commands:
      munge_round_trip: ["/bin/sh", "-c", "munge -n | unmunge"]
"""

RETURN = r"""
measurements:
  description: For each name the exit code C(rc), C(stdout) and C(stderr); 124 for a timeout, 127
    for a missing command.
  type: dict
  returned: always
"""

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

LIMIT = 100_000  # characters of one measurement


def run(words: list[str], timeout_s: int) -> dict[str, Any]:
    """Exit code and output of a command; it and its child processes are ended."""
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    environment["PATH"] = (
        environment.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
    )
    try:
        process = subprocess.Popen(
            [str(word) for word in words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return {"rc": 127, "stdout": "", "stderr": str(error)}
    try:
        out, err = process.communicate(timeout=timeout_s)
        code = process.returncode
    except subprocess.TimeoutExpired:
        out, err = killed(process)
        code, err = 124, err + f"\ntook longer than {timeout_s} s".encode()
    return {
        "rc": code,
        "stdout": out.decode("utf-8", "replace")[:LIMIT],
        "stderr": err.decode("utf-8", "replace")[:LIMIT],
    }


def killed(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Output so far; a process that hangs in the kernel, as drivers can cause, is left behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=2)
    except subprocess.TimeoutExpired:
        return b"", b"it cannot be killed"


def read(path: str) -> dict[str, Any]:
    """A file's text."""
    try:
        return {"rc": 0, "stdout": Path(path).read_bytes().decode("utf-8", "replace")[:LIMIT], "stderr": ""}
    except OSError as error:
        return {"rc": 1, "stdout": "", "stderr": str(error)}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "commands": {"type": "dict", "default": {}},
            "read": {"type": "dict", "default": {}},
            "timeout_s": {"type": "int", "default": 20},
        },
        supports_check_mode=True,
    )
    timeout_s = module.params["timeout_s"]
    measurements = {name: run(words, timeout_s) for name, words in module.params["commands"].items()}
    measurements |= {name: read(str(path)) for name, path in module.params["read"].items()}
    module.exit_json(changed=False, measurements=measurements)


if __name__ == "__main__":
    main()
