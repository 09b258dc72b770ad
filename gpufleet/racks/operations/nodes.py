"""Operations on nodes: another driver, other hardware, more nodes, fewer nodes, less power."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpufleet.racks.operations.operation import Operation, Option, Value

# Operations verify nodes as `gpufleet verify` does, which needs the password of the management controllers.
# All roles of a Slurm site also need its secrets (see gpufleet.racks.secrets).
_VERIFY_SECRETS = ("bmc",)
_SITE_SECRETS = ("munge", "slurm_database", *_VERIFY_SECRETS)

_WAIT = Option(
    "wait",
    "int",
    "seconds that a drained node's jobs may take to end; a node whose jobs do not is given back",
    default=3600,
    most=30 * 24 * 3600,
)
_READY = Option(
    "ready",
    "int",
    "seconds that a node may take until it is fit for jobs after it was changed",
    default=300,
    most=7200,
)


def _driver(options: Mapping[str, Value]) -> dict[str, Any]:
    """Return one version for driver and Fabric Manager if it differs from the channel's."""
    found: dict[str, Any] = {}
    if "timeout" in options:
        found["nvidia_driver_reboot_timeout_s"] = options["timeout"]
    if "driver" not in options:
        return found
    version = str(options["driver"])
    return found | {
        "nvidia_driver_version": version,
        "nvidia_driver_branch": int(version.partition(".")[0]),
        "fabric_manager_version": version,
        "fabric_manager_driver_version": version,
        "health_check_driver_version": version,
    }


def _power(options: Mapping[str, Value]) -> dict[str, Any]:
    """The consent as the playbook has it where it runs without us."""
    found = {
        "gpufleet_power_cycle": options["confirm"],
        "gpufleet_power_cycle_forced": options["forced"],
        "gpufleet_power_cycle_delay_s": options["delay"],
    }
    return found | ({"nvidia_driver_reboot_timeout_s": options["timeout"]} if "timeout" in options else {})


def _reboot_timeout(options: Mapping[str, Value]) -> dict[str, Any]:
    """The limit of a reboot, if it differs from the site's."""
    return {"base_reboot_timeout_s": options["timeout"]} if "timeout" in options else {}


_TIMEOUT = Option(
    "timeout",
    "int",
    "seconds that a node may take to come back from a reboot; default: the site's",
    least=10,
    most=7200,
)

_ROLLING = (
    Option("canary", "str", "the GPU node that goes first; default: the first of them"),
    Option("batch", "batch", "GPU nodes at once, or percent of them, after the first", default="25%"),
    _WAIT,
    _TIMEOUT,
    _READY,
)
"""Options of operations that reboot one GPU node first, then the others in batches."""

NODE_OPERATIONS = (
    Operation(
        name="reboot",
        playbook="playbooks/reboot.yml",
        summary="reboot hosts: one GPU node, GPU nodes in batches, then the other hosts one by one",
        group="rack_hosts",
        options=_ROLLING,
        asks="drain and reboot",
        secrets_of=_VERIFY_SECRETS,
        marks=True,
        variables=_reboot_timeout,
    ),
    Operation(
        name="upgrade_os",
        playbook="playbooks/reboot.yml",
        summary="upgrade packages and kernel of hosts in the same order, and reboot those that need it",
        group="rack_hosts",
        options=_ROLLING,
        asks="drain, upgrade and reboot",
        secrets_of=_VERIFY_SECRETS,
        marks=True,
        variables=_reboot_timeout,
    ),
    Operation(
        name="upgrade_driver",
        playbook="playbooks/upgrade_driver.yml",
        summary="upgrade GPU nodes to the software channel's driver: one node first, then in batches",
        group="rack_gpu_nodes",
        options=(
            Option(
                "driver",
                "str",
                "another version than the channel's, to try it: configure and verify go by the channel",
                pattern=r"[0-9]{3,4}(\.[0-9]{1,4}){1,2}",
            ),
            *_ROLLING,
            Option("reboot", "bool", "reboot every node whose driver changed", default=True),
        ),
        asks="drain and reboot",
        secrets_of=_VERIFY_SECRETS,
        marks=True,
        variables=_driver,
    ),
    Operation(
        name="replace_node",
        playbook="playbooks/replace_node.yml",
        summary="set up new hardware that has the name of an old node",
        group="rack_gpu_nodes",
        options=(
            Option(
                "fingerprint",
                "str",
                "SHA256 fingerprint of the new hardware's ssh host key, if it has another",
                pattern="SHA256:[A-Za-z0-9+/]{43}",
            ),
            _READY,
        ),
        asks="drain and reinstall",
        one_by_one=True,
        secrets_of=_SITE_SECRETS,
        preflight=True,
        marks=True,
    ),
    Operation(
        name="add_nodes",
        first="playbooks/add_nodes.yml",
        playbook="playbooks/replace_node.yml",
        summary="set up nodes that are new in the fleet file; they take jobs once they are verified",
        group="rack_gpu_nodes",
        options=(_READY,),
        also=("rack_hosts",),
        asks="set up, and register with the controllers,",
        one_by_one=True,
        secrets_of=_SITE_SECRETS,
        preflight=True,
        marks=True,
    ),
    Operation(
        name="decommission",
        playbook="playbooks/decommission.yml",
        summary="take hosts out for good: drain, wipe their data and the site's secrets, keep the records",
        group="rack_hosts",
        options=(
            Option("confirm", "str", "the names of the hosts, as their data is lost", required=True),
            _WAIT,
            Option(
                "member",
                "bool",
                "also a member of the control plane: it leaves etcd, and the cluster's keys leave it",
                default=False,
            ),
            Option(
                "method",
                "str",
                "how drives are wiped; auto takes the first that a drive can do",
                default="auto",
                choices=("auto", "crypto", "block", "discard", "overwrite"),
            ),
        ),
        asks="drain, and wipe all data drives and the site's secrets of,",
        named=True,
        one_by_one=True,
        marks=True,
        forgets=True,
    ),
    Operation(
        name="power_cap",
        playbook="playbooks/power_cap.yml",
        summary="limit the power of each GPU, now and after every boot",
        group="rack_gpu_nodes",
        options=(
            Option(
                "watts", "int", "power limit of each GPU in W; 0 is its own default", required=True, most=5000
            ),
        ),
        asks="change the power limit of all GPUs of",
        marks=True,
    ),
    Operation(
        name="power_cycle",
        playbook="playbooks/power_cycle.yml",
        summary="the last resort: a node's power is taken away by its management controller, and given back",
        group="rack_bmc",
        options=(
            Option("confirm", "str", "the names of the nodes: what runs there is lost", required=True),
            Option(
                "forced", "bool", "also nodes that still answer, or that Slurm has not drained", default=False
            ),
            Option("delay", "int", "seconds until a node is asked whether it is back", default=30, most=3600),
            _TIMEOUT,
        ),
        asks="take the power away from",
        named=True,
        one_by_one=True,
        secrets_of=("bmc",),
        marks=True,
        variables=_power,
    ),
)
