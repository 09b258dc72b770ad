"""An Ansible connection without a host: each module answers at once that nothing changed."""

from __future__ import annotations

import json
import re
from typing import Any

from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: canned
short_description: answers for hosts that do not exist
description: Every module answers that nothing changed. Facts are those of a GPU node.
options: {}
"""

MODULE = re.compile(rb"module_fqn='([\w.]+)'")
QUIET = {"rc": 0, "stdout": "", "stderr": ""}
# Results of modules besides "nothing changed", as far as roles read them.
ANSWERS: dict[str, dict[str, Any]] = {
    "system": {
        "ansible_facts": {
            "gpufleet_system": "ubuntu_22_04",
            "gpufleet_container": False,
            "gpufleet_cgroup": 2,
            "gpufleet_numa_nodes": 2,
            "gpufleet_gpu_numa": [0, 0, 0, 0, 1, 1, 1, 1],
            "kernel": "5.15.0-130-generic",
            "architecture": "x86_64",
            "processor_nproc": 224,
            "processor_count": 2,
            "processor_cores": 56,
            "processor_threads_per_core": 2,
            "memtotal_mb": 2_063_000,
            "default_ipv4": {"address": "10.0.0.1", "interface": "ens1"},
        }
    },
    "files": {"changed_files": []},
    "kernel_arguments": {"reboot_reasons": []},
    "measure": {
        "measurements": {
            "firewall_sshd": QUIET | {"stdout": "port 22\n"},
            "firewall_names": QUIET,
        }
    },
}


class Connection(ConnectionBase):  # type: ignore[misc]
    """A host that is always healthy."""

    transport = "canned"
    has_pipelining = True
    # Independent of ssh settings: a module sent as a file would have to be read back.
    always_pipeline_modules = True

    def _connect(self) -> Connection:
        self._connected = True
        return self

    def exec_command(
        self, cmd: str, in_data: bytes | None = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        """The answer of the module that was sent."""
        found = MODULE.search(in_data or b"")
        name = found[1].decode().rpartition(".")[2] if found else ""
        answer = {"changed": False} | ANSWERS.get(name, {})
        return 0, json.dumps(answer).encode(), b""

    def put_file(self, in_path: str, out_path: str) -> None:
        """Send nothing."""

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Fetch nothing."""

    def close(self) -> None:
        """Nothing to close."""
        self._connected = False
