"""The action of `gpufleet.rack.judge`: the verdict of `gpufleet verify` for this host, within a run.

    - gpufleet.rack.judge: {stage: roles}                                  # -> roles: the roles to measure
    - gpufleet.rack.judge: {stage: verdict, operation: upgrade_driver}     # -> passed, wrong

Roles in `without` are left out. The tasks/verify.yml of the roles run in between; each registers its
measurements as `<role>__verified`.
The controller computes the verdicts. A drain of the same operation is not a fault: the node is judged
before it is resumed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core has no types
    """Judge one host, without a connection."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the roles, or the verdict. Never fails a host for its measurements."""
        try:
            from gpufleet.racks.operations.evaluation import roles_of_host, verdict
        except ImportError as error:
            raise AnsibleActionFail(
                f"verdicts need the Python package gpufleet beside Ansible ({error}); use `gpufleet operate`"
            ) from error
        known = task_vars or {}
        project = Path(str(known["playbook_dir"])).parent
        host = str(known["inventory_hostname"])
        groups = {name: list(found) for name, found in known["groups"].items()}
        without = self._task.args.get("without", ())
        roles = [role for role in roles_of_host(project, groups, host) if role not in without]
        answer = super().run(tmp, task_vars) | {"changed": False, "roles": roles}
        stage = self._task.args.get("stage", "verdict")
        if stage == "roles":
            return answer
        if stage != "verdict":
            raise AnsibleActionFail(f"stage is {stage!r} and has to be roles or verdict")
        wrong = verdict(
            project,
            host,
            roles,
            {role: self._value(known, f"{role}__verified") for role in roles},
            self._values(known, roles),
            operation=str(self._task.args.get("operation", "")),
            container=bool(known.get("ansible_facts", {}).get("gpufleet_container")),
        )
        return answer | {"passed": not wrong, "wrong": wrong}

    def _values(self, known: dict[str, Any], roles: list[str]) -> dict[str, Any]:
        """Variables of the roles, from the inventory and the command line."""
        names = [name for name in known if any(name.startswith(f"{role}_") for role in roles)]
        wanted = ["gpufleet_role", "gpufleet_software", *(name for name in names if "__" not in name)]
        return {name: self._value(known, name) for name in wanted}

    def _value(self, known: dict[str, Any], name: str) -> Any:
        return self._templar.template(known.get(name))
