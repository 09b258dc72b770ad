"""The action of `gpufleet.rack.installable`: fail a host on which nothing can be installed.

    - gpufleet.rack.installable: {measurements: "{{ preflight__result.preflight_measurements }}",
                                  expectations: /path/of/expectations.json}

The verdict is that of `gpufleet.racks.preflight`, computed here so that the run continues at once with
the remaining hosts.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ansible.plugins.action import ActionBase

# Import here, once: a worker is forked for each host and would import it each time.
try:
    from gpufleet.racks.preflight.evaluation import refusals
    from gpufleet.racks.preflight.expectations import read_expectations
except ImportError as error:
    _missing = str(error)
else:
    _missing = ""
    _expected = cache(read_expectations)


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core has no types
    """Judge one host, without a connection."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Fail with all reasons at once. A host without expectations passes."""
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
