"""Variables of Slurm's roles: database, controller, nodes, login hosts. Host lists are Slurm's own form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpufleet.plan.json import plan_to_json
from gpufleet.plan.rack_models import SlurmPlan
from gpufleet.racks.hostlists import fold_hosts
from gpufleet.racks.variables.variable import Context, Variable, named


def _of(read: Callable[[Context, SlurmPlan], Any]) -> Callable[[Context], Any]:
    """A value that exists on Slurm sites only."""

    def value(context: Context) -> Any:
        slurm = context.site.rack.slurm
        return None if slurm is None else read(context, slurm)

    return value


def _gpu_type(context: Context, _slurm: SlurmPlan) -> str:
    return context.site.gpu.lower()


def _database_host(context: Context, _slurm: SlurmPlan) -> str | None:
    controllers = context.hosts("controller")
    return controllers[0].name if controllers else None


def _database_address(context: Context, _slurm: SlurmPlan) -> str | None:
    controllers = context.hosts("controller")
    return controllers[0].address if controllers else None


def _partitions(_context: Context, slurm: SlurmPlan) -> list[dict[str, Any]]:
    return [
        {
            "name": item.name,
            "nodes": fold_hosts(item.hosts),
            "default": item.default,
            "priority": item.priority,
            "accounts": list(item.accounts),
            "max_minutes": item.max_minutes or 0,
        }
        for item in slurm.partitions
    ]


def _qos(_context: Context, slurm: SlurmPlan) -> list[dict[str, Any]]:
    return [
        {
            "name": item.name,
            "priority": item.priority,
            "preempts": list(item.preempts),
            "max_gpus_per_user": -1 if item.max_gpus_per_user is None else item.max_gpus_per_user,
            "max_minutes": item.max_minutes or 0,
        }
        for item in slurm.qos_settings
    ]


def _accounts(_context: Context, slurm: SlurmPlan) -> list[dict[str, Any]]:
    return [plan_to_json(item) for item in slurm.accounts]


def _switches(_context: Context, slurm: SlurmPlan) -> list[dict[str, Any]]:
    return [
        {"name": item.name, "nodes": fold_hosts(item.hosts), "switches": list(item.switches)}
        for item in slurm.switches
    ]


def _billing(_context: Context, slurm: SlurmPlan) -> dict[str, float]:
    return {
        "gpu": slurm.billing_gpu,
        "cpu": slurm.billing_cpu,
        "memory_gib": slurm.billing_memory_gib,
    }


def _controllers(context: Context, _slurm: SlurmPlan) -> list[dict[str, str]]:
    return named(context.hosts("controller"))


def _cluster(_context: Context, slurm: SlurmPlan) -> str:
    return slurm.cluster


SLURM_VARIABLES = (
    Variable("slurm_database", "cluster", "str", "site", "The cluster's name.", _of(_cluster)),
    Variable(
        "slurm_database",
        "host",
        "str",
        "site",
        "The host of slurmdbd and MariaDB: the first controller.",
        _of(_database_host),
    ),
    Variable("slurm_controller", "cluster", "str", "site", "The cluster's name.", _of(_cluster)),
    Variable(
        "slurm_controller",
        "hosts",
        "list",
        "site",
        "`{name, address}` of the controllers: the first is primary, the others stand by.",
        _of(_controllers),
    ),
    Variable(
        "slurm_controller",
        "state",
        "str",
        "site",
        "NFS export (`host:/export`) that the controllers keep their state on.",
        _of(lambda _, s: s.state),
    ),
    Variable(
        "slurm_controller",
        "database_host",
        "str",
        "site",
        "The host of slurmdbd.",
        _of(_database_host),
    ),
    Variable(
        "slurm_controller",
        "database_address",
        "str",
        "site",
        "Where slurmdbd is reached.",
        _of(_database_address),
    ),
    Variable(
        "slurm_controller",
        "nodes",
        "list",
        "site",
        "`{name, address}` of the GPU nodes.",
        _of(lambda c, _: named(c.hosts("gpu"))),
    ),
    Variable(
        "slurm_controller",
        "login_hosts",
        "list",
        "site",
        "`{name, address}` of the login hosts.",
        _of(lambda c, _: named(c.hosts("login"))),
    ),
    Variable("slurm_controller", "gpu_type", "str", "site", "GRES type of the GPUs.", _of(_gpu_type)),
    Variable(
        "slurm_controller", "gpus", "int", "site", "GPUs of a node.", _of(lambda c, _: c.site.gpus_per_node)
    ),
    Variable(
        "slurm_controller",
        "partitions",
        "list",
        "site",
        "`{name, nodes, default, priority, accounts, max_minutes}`; no accounts: all; 0 minutes: no limit.",
        _of(_partitions),
    ),
    Variable(
        "slurm_controller",
        "qos",
        "list",
        "site",
        "`{name, priority, preempts, max_gpus_per_user, max_minutes}`; -1 GPUs and 0 minutes: no limit.",
        _of(_qos),
    ),
    Variable(
        "slurm_controller",
        "accounts",
        "list",
        "site",
        "`{name, gpus, qos, users}`: a team's account, the GPUs it may hold, its default QOS, its people.",
        _of(_accounts),
    ),
    Variable(
        "slurm_controller",
        "switches",
        "list",
        "site",
        "`{name, nodes, switches}` for topology.conf; empty: no topology plugin.",
        _of(_switches),
    ),
    Variable(
        "slurm_controller",
        "preemption",
        "str",
        "site",
        "`none`, `requeue` or `cancel`.",
        _of(lambda _, s: s.preemption),
    ),
    Variable(
        "slurm_controller",
        "billing",
        "dict",
        "site",
        "TRES billing weights: `{gpu, cpu, memory_gib}`.",
        _of(_billing),
    ),
    Variable(
        "slurm_controller",
        "health_check",
        "bool",
        "site",
        "Whether prolog, epilog and the health check program run the node's checks.",
        _of(lambda _, s: s.health_check),
    ),
    Variable(
        "slurm_controller",
        "reserved_cpus",
        "int",
        "site",
        "Processors of a node kept for the system.",
        _of(lambda _, s: s.reserved_cpus),
    ),
    Variable(
        "slurm_controller",
        "reserved_memory_mib",
        "int",
        "site",
        "MiB of a node kept for the system.",
        _of(lambda _, s: s.reserved_memory_mib),
    ),
    Variable("slurm_node", "cluster", "str", "site", "The cluster's name.", _of(_cluster)),
    Variable(
        "slurm_node",
        "controllers",
        "list",
        "site",
        "`{name, address}` of the controllers, the primary first.",
        _of(_controllers),
    ),
    Variable("slurm_node", "gpu_type", "str", "site", "GRES type of the GPUs.", _of(_gpu_type)),
    Variable("slurm_node", "gpus", "int", "site", "GPUs of a node.", _of(lambda c, _: c.site.gpus_per_node)),
    Variable("slurm_login", "cluster", "str", "site", "The cluster's name.", _of(_cluster)),
    Variable(
        "slurm_login",
        "controllers",
        "list",
        "site",
        "`{name, address}` of the controllers, the primary first.",
        _of(_controllers),
    ),
)
