"""Results and failures of modules: a failure has the value, the rule and the remedy."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.refusal import RefusalError

__all__ = ["RefusalError", "difference", "finish"]


def finish(
    module: AnsibleModule, work: Callable[[], dict[str, Any]], progress: dict[str, Any] | None = None
) -> None:
    """Exit with the result of `work`, or fail with its refusal; never returns.

    `progress` is part of a failure. It is read after `work`, which may update it.
    """
    try:
        result = work()
    except (RefusalError, OSError, subprocess.TimeoutExpired) as failure:
        module.fail_json(msg=str(failure), **(progress or {}))
    module.exit_json(**result)


def difference(name: str, before: str, after: str) -> dict[str, str]:
    """One entry of Ansible's diff."""
    return {"before_header": name, "after_header": name, "before": before, "after": after}
