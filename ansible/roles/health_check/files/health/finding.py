"""Findings of checks, and their actions."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

DRAIN, ADVISE, OFF = "drain", "advise", "off"

ACTIONS = {
    "gpu_count": DRAIN,
    "driver": DRAIN,
    "dcgm": DRAIN,
    "dcgm_monitor": ADVISE,
    "dcgm_diag": DRAIN,
    "dcgm_diag_monitor": ADVISE,
    "ecc": DRAIN,
    # NVIDIA: the GPU needs triage; what it keeps there includes the record of its memory's repairs.
    "inforom": DRAIN,
    "memory_repair_failed": DRAIN,
    # Jobs may continue until the next reset of the GPU (NVIDIA, GPU memory error management).
    "memory_repair_pending": ADVISE,
    "recovery_action": DRAIN,
    "xid": DRAIN,
    "xid_monitor": ADVISE,
    # NVSwitches of Hopper and earlier: a port, or the whole fabric, stands still until they are reset.
    "sxid": DRAIN,
    "sxid_monitor": ADVISE,
    # Work goes on, by a slower way, or until the port goes down: `port` finds that.
    "peermem": ADVISE,
    "adapter_power": ADVISE,
    "adapter_temperature": ADVISE,
    "adapter_firmware": ADVISE,
    "nvlink": DRAIN,
    "nvlink_errors": ADVISE,
    "fabric_manager": DRAIN,
    "pcie_width": DRAIN,
    "pcie_generation": ADVISE,
    "throttle": DRAIN,
    "throttle_software": ADVISE,
    "port": DRAIN,
    "port_flaps": DRAIN,
    "port_errors": ADVISE,
    # It counts no more, and the interface's own counter of lost carriers still does.
    "port_counters": ADVISE,
    # Adapters that are no rails: storage's, or the host's own.
    "adapter": ADVISE,
    "ibstat": ADVISE,
    # GPUs that are out of the fabric drain by themselves.
    "nvswitch_bridge": ADVISE,
    "disk": DRAIN,
    "read_only": DRAIN,
    "clock": DRAIN,
    # A clock keeps running without time servers, and their outage must not drain the fleet.
    "clock_source": ADVISE,
    "memory": DRAIN,
    "memory_errors": DRAIN,
}
"""Check -> default action of a finding."""


@dataclass(frozen=True)
class Finding:
    """One fault. `subject` is a GPU, a port or a path.

    `confirmed` is False for a temporary state: it drains if the next periodic run
    finds it again. `evicts` is True for errors after which results of GPUs are lost or wrong.
    """

    check: str
    subject: str
    message: str
    remedy: str = ""
    confirmed: bool = True
    action: str = ""
    evicts: bool = False

    @property
    def key(self) -> str:
        """Key of the same fault in the next run."""
        return f"{self.check} {self.subject}"

    @property
    def short(self) -> str:
        """Text for the drain reason."""
        return f"{self.subject} {self.message}".strip()

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def with_actions(findings: list[Finding], wanted: dict[str, str]) -> list[Finding]:
    """Findings with their actions, without disabled ones."""
    actions = {**ACTIONS, **wanted}
    found = [replace(item, action=item.action or actions[item.check]) for item in findings]
    return [item for item in found if actions[item.check] != OFF]
