"""How modules end: with a result, or with a refusal in words that a person can act on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.refusal import RefusalError

__all__ = ["RefusalError", "difference", "finish"]


def finish(
    module: AnsibleModule, work: Callable[[], dict[str, Any]], told: dict[str, Any] | None = None
) -> None:
    """Answers Ansible with what `work` returns, or fails with what it refuses; never returns.

    `told` goes along with a failure. It is read after `work`, which may keep in it how far it came.
    """
    try:
        result = work()
    except (RefusalError, OSError, subprocess.TimeoutExpired) as failure:
        module.fail_json(msg=str(failure), **(told or {}))
    module.exit_json(**result)


def difference(name: str, before: str, after: str) -> dict[str, str]:
    """One entry of Ansible's diff."""
    return {"before_header": name, "after_header": name, "before": before, "after": after}
