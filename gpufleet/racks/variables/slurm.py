"""Variables of Slurm's roles: database, controller, nodes, login hosts. Host lists are Slurm's own form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpufleet.plan.json import model_to_json
from gpufleet.plan.rack_models import SlurmPlan
from gpufleet.plan.slurm_models import STATE
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


def database_host(context: Context, _slurm: SlurmPlan) -> str | None:
    """The host of slurmdbd and MariaDB: the first controller."""
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
    return [model_to_json(item) for item in slurm.accounts]


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
    Variable("slurm_database", "cluster", "site", _of(_cluster)),
    Variable("slurm_database", "host", "site", _of(database_host)),
    Variable("slurm_controller", "cluster", "site", _of(_cluster)),
    Variable("slurm_controller", "hosts", "site", _of(_controllers)),
    Variable("slurm_controller", "state", "site", _of(lambda c, s: s.state or c.file_system(STATE))),
    Variable("slurm_controller", "database_host", "site", _of(database_host)),
    Variable("slurm_controller", "database_address", "site", _of(_database_address)),
    Variable("slurm_controller", "nodes", "site", _of(lambda c, _: named(c.hosts("gpu")))),
    Variable("slurm_controller", "login_hosts", "site", _of(lambda c, _: named(c.hosts("login")))),
    Variable("slurm_controller", "gpu_type", "site", _of(_gpu_type)),
    Variable("slurm_controller", "gpus", "site", _of(lambda c, _: c.site.gpus_per_node)),
    Variable("slurm_controller", "partitions", "site", _of(_partitions)),
    Variable("slurm_controller", "qos", "site", _of(_qos)),
    Variable("slurm_controller", "accounts", "site", _of(_accounts)),
    Variable("slurm_controller", "switches", "site", _of(_switches)),
    Variable("slurm_controller", "preemption", "site", _of(lambda _, s: s.preemption)),
    Variable("slurm_controller", "billing", "site", _of(_billing)),
    Variable("slurm_controller", "health_check", "site", _of(lambda _, s: s.health_check)),
    Variable("slurm_controller", "reserved_cpus", "site", _of(lambda _, s: s.reserved_cpus)),
    Variable("slurm_controller", "reserved_memory_mib", "site", _of(lambda _, s: s.reserved_memory_mib)),
    Variable("slurm_node", "cluster", "site", _of(_cluster)),
    Variable("slurm_node", "controllers", "site", _of(_controllers)),
    Variable("slurm_node", "gpu_type", "site", _of(_gpu_type)),
    Variable("slurm_node", "gpus", "site", _of(lambda c, _: c.site.gpus_per_node)),
    Variable("slurm_node", "ssh_requires_job", "site", _of(lambda _, s: s.ssh_requires_job)),
    Variable("slurm_login", "cluster", "site", _of(_cluster)),
    Variable("slurm_login", "controllers", "site", _of(_controllers)),
)
