"""The dashboards of the role grafana, as text."""

from __future__ import annotations

import json
from collections.abc import Callable

from ansible.errors import AnsibleFilterError
from ansible_collections.gpufleet.rack.plugins.module_utils import dashboards_of_fabric as of_fabric
from ansible_collections.gpufleet.rack.plugins.module_utils import dashboards_of_hosts as of_hosts
from ansible_collections.gpufleet.rack.plugins.module_utils import dashboards_of_kubernetes as of_kubernetes
from ansible_collections.gpufleet.rack.plugins.module_utils import dashboards_of_use as of_use
from ansible_collections.gpufleet.rack.plugins.module_utils.dashboards import dashboard_json

BOARDS = (
    *(of_hosts.FLEET, of_hosts.NODE, of_fabric.FABRIC, of_use.JOBS, of_kubernetes.KUBERNETES),
    *(of_use.COST, of_use.POWER),
)
DASHBOARDS = {board.name: board for board in BOARDS}


def dashboard(name: str) -> str:
    """The dashboard of that name as JSON."""
    if name not in DASHBOARDS:
        raise AnsibleFilterError(f"There is no dashboard {name!r}; use one of {', '.join(DASHBOARDS)}.")
    return json.dumps(dashboard_json(DASHBOARDS[name]), indent=1) + "\n"


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """By name."""
        return {"dashboard": dashboard}
