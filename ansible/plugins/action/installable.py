"""The action of `gpufleet.rack.installable`: fails a host on which nothing can be installed.

    - gpufleet.rack.installable: {measurements: "{{ preflight__result.preflight_measurements }}",
                                  expectations: /path/of/expectations.json}

The verdict is the one of `gpufleet.racks.preflight`; it is reached here so that a run can go on at once with
the hosts that are left.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ansible.plugins.action import ActionBase

# Here and not below: a worker is forked for each host, and would load it each time.
try:
    from gpufleet.racks.preflight.expectations import read_expectations
    from gpufleet.racks.preflight.judge import refusals
except ImportError as error:
    _missing = str(error)
else:
    _missing = ""
    _expected = cache(read_expectations)


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core has no types
    """Judges one host; connects to nobody."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Fails with all reasons at once. A host that nobody expects is none of ours, and passes."""
        if _missing:
            raise AnsibleActionFail(f"verdicts need the Python package gpufleet beside Ansible: {_missing}")
        host = str((task_vars or {})["inventory_hostname"])
        answer = super().run(tmp, task_vars) | {"changed": False}
        try:
            expected = _expected(Path(str(self._task.args["expectations"]))).get(host)
        except OSError as error:
            raise AnsibleActionFail(f"what is expected of hosts cannot be read: {error}") from error
        if expected is None:
            return answer
        wrong = refusals(host, self._task.args["measurements"], expected)
        return answer | {"failed": bool(wrong), "msg": "; ".join(item.message for item in wrong)}
