"""Ansible's linear strategy over mitogen, without CPU pinning.

mitogen pins its own process to the first core, and Ansible with its workers to the others, which suits
machines with many cores. With two cores, Ansible shares the second one while the first is nearly idle. In a
control group with few cores, it selects cores that are not allowed. Here the kernel schedules all processes.

Lookups that each worker would repeat are done once, before workers are forked: Jinja's filters and tests,
and where collections are (about a sixth of a worker's time on tasks of this project). What a module imports
is looked up once for each file: mitogen compiles all of Ansible's utilities again for each module. What goes
to hosts is compressed already, and ssh does not try it again.

Where sudo asks for nothing, ssh starts the interpreter with it. mitogen would start one as the user who logs
in, and from that one another as root: a quarter of a second of a host's processor in each run, to load the
same programs twice.

A host that has answered in the run is called again, as often as ansible.cfg says for ssh, if a task gets no
connection to it: just after a reboot it may refuse one.

Tasks that no host needs get no worker: those whose condition is false, validations of arguments,
assertions. A worker for each of them is a process that is forked, connected and thrown away to compare some
variables; they were a third of the tasks of a run without changes. See adr/0019.
"""

from __future__ import annotations

import gc
import importlib.util
import logging
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import ansible_mitogen.affinity
import ansible_mitogen.connection
import ansible_mitogen.loaders
import ansible_mitogen.logging
import ansible_mitogen.module_finder
import ansible_mitogen.planner
import ansible_mitogen.strategy
import ansible_mitogen.transport_config
import mitogen.service
from ansible._internal._task import TaskContext
from ansible.collections.list import list_collection_dirs
from ansible.constants import config
from ansible.errors import AnsibleConnectionFailure
from ansible.executor.task_executor import TaskExecutor
from ansible.executor.task_result import _RawTaskResult
from ansible.plugins.loader import (
    connection_loader,
    filter_loader,
    get_plugin_loader_namespace,
    test_loader,
)

ansible_mitogen.affinity.policy = ansible_mitogen.affinity.Policy()

_Linear = ansible_mitogen.loaders.strategy_loader.get("linear", class_only=True)


# Actions that only read variables, with all their names.
_VARIABLES_ONLY = frozenset(
    prefix + name
    for prefix in ("", "ansible.builtin.", "ansible.legacy.")
    for name in ("assert", "fail", "include_role", "include_tasks", "set_fact", "validate_argument_spec")
) | {"gpufleet.rack.installable"}


class StrategyModule(ansible_mitogen.strategy.StrategyMixin, _Linear):  # type: ignore[misc, valid-type]
    """As `mitogen_linear`, which is made of the same two."""

    def run(self, *arguments: Any, **options: Any) -> Any:
        """A play, with what its workers share in memory."""
        # The first lookup loads all plugins.
        filter_loader.get("ansible.builtin.upper")
        test_loader.get("ansible.builtin.defined")
        # Garbage collection in a worker would touch, and so copy, all shared memory.
        gc.collect()
        gc.freeze()
        _Connection._answered, _Connection._retries = self._tqm._stats.ok, _retries_of_ssh()
        return super().run(*arguments, **options)

    def _queue_task(self, host: Any, task: Any, task_vars: dict[str, Any], play_context: Any) -> None:
        """Run a task of a host in this process if it needs no connection, otherwise in a worker."""
        variables_only = task.action in _VARIABLES_ONLY
        more = task.loop is not None or task.delegate_to or task.async_val or task.until or task.timeout
        if (variables_only or task.when) and not more:
            try:
                self._work_here(host, task, task_vars, play_context, variables_only=variables_only)
            except _NeedsWorker:
                pass
            else:
                return
        super()._queue_task(host, task, task_vars, play_context)

    def _work_here(
        self, host: Any, task: Any, task_vars: dict[str, Any], play_context: Any, *, variables_only: bool
    ) -> None:
        """Run a task in this process, and pass on the result as a worker does.

        Raises _NeedsWorker if the condition of the task is true, unless the action is `variables_only`.
        """
        # A worker has its own copies of these and changes them.
        own = task.copy(exclude_parent=True, exclude_tasks=True)
        own._parent = task._parent
        if not variables_only:
            own.post_validate = _ask_for_worker  # what follows the condition
        with TaskContext(own):
            returned = TaskExecutor(
                host,
                own,
                task_vars.copy(),
                play_context,
                self._loader,
                get_plugin_loader_namespace(),
                self._final_q,
                self._variable_manager,
            ).run()
        self._queued_task_cache[host.name, task._uuid] = {
            "host": host,
            "task": task,
            "task_vars": task_vars,
            "play_context": play_context,
        }
        self._tqm.send_callback("v2_runner_on_start", host, task)
        result = _RawTaskResult(host=host, task=own, return_data=returned, task_fields=own.dump_attrs())
        self._final_q.send_task_result(result)
        self._pending_results += 1


class _NeedsWorker(BaseException):
    """A task is not to be skipped. No error, and nothing that Ansible catches."""


def _ask_for_worker(**_: Any) -> None:
    raise _NeedsWorker


_folders = [folder.decode() for folder in list_collection_dirs()]


def _set_collections(invocation: Any) -> None:
    invocation._extra_sys_paths.update(_folders)


ansible_mitogen.planner._load_collections = _set_collections


_UTILITIES = ansible_mitogen.module_finder.PREFIX.rstrip(".")


@cache
def _imports(path: str) -> tuple[str, ...]:
    """The names below `ansible.module_utils` that a file imports, in its order."""
    code = compile(Path(path).read_bytes(), path, "exec")
    return tuple(ansible_mitogen.module_finder.walk_imports(code, _UTILITIES))


@cache
def _spec(name: str, folders: tuple[str, ...]) -> ModuleSpec | None:
    """Where a module of that name is among `folders`; None if it is none, or has no file."""
    found = importlib.util._find_spec(name, list(folders))  # type: ignore[attr-defined]
    return found if found is not None and found.origin is not None else None


def _scan(module_name: str, module_path: str, search_path: Sequence[str]) -> list[tuple[str, str, bool]]:
    """(name, path, is a package) of the utilities that a module needs, as mitogen's own scan finds them."""
    folders: dict[str, tuple[str, ...]] = {_UTILITIES: tuple(search_path)}
    found: dict[str, ModuleSpec] = {}
    queue = deque([module_path])
    while queue:
        for name in _imports(queue.popleft()):
            if name in folders:
                continue
            above = folders[name.rpartition(".")[0]]
            spec = _spec(name, above) if above else None
            folders[name] = tuple(spec.submodule_search_locations or ()) if spec else ()
            if spec and spec.origin:
                found[name] = spec
                queue.append(spec.origin)
    return sorted(
        (name, str(spec.origin), spec.submodule_search_locations is not None) for name, spec in found.items()
    )


ansible_mitogen.module_finder.scan = _scan


def _uncompressed(_: Any) -> bool:
    return False


ansible_mitogen.transport_config.PlayContextSpec.mitogen_ssh_compression = _uncompressed
ansible_mitogen.transport_config.MitogenViaSpec.mitogen_ssh_compression = _uncompressed


# Ansible's own by default: root's home, the password on the standard input, and no question for one.
_PLAIN_SUDO = frozenset({"-H", "-S", "-n"})


def _one_hop(hops: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """The interpreters between here and a host; one in place of one by ssh and, from that, one by sudo."""
    if [hop["method"] for hop in hops[-2:]] != ["ssh", "sudo"]:
        return tuple(hops)
    login, root = (hop["kwargs"] for hop in hops[-2:])
    if root["password"] is not None or not set(root["sudo_args"] or ()) <= _PLAIN_SUDO:
        return tuple(hops)
    sudo = [root["sudo_path"] or "sudo", "-n", "-H", "-u", root["username"] or "root"]
    python = [*sudo, *root["python_path"]]
    return (*hops[:-2], {**hops[-2], "kwargs": {**login, "python_path": python}})


_Connection = ansible_mitogen.connection.Connection
_Connection._answered, _Connection._retries = {}, 0
_all_hops, _connect, _reset = _Connection._stack_from_spec, _Connection._connect_stack, _Connection.reset


def _hops_of(connection: Any, *arguments: Any, **options: Any) -> tuple[dict[str, Any], ...]:
    hops = _one_hop(_all_hops(connection, *arguments, **options))
    # mitogen takes root's interpreter from the end before it ends a connection, so that all of it ends.
    ends = getattr(connection, "_ends", False) and hops[-1]["method"] == "ssh"
    return (*hops, hops[-1]) if ends else hops


def _connect_by(connection: Any, stack: Sequence[dict[str, Any]]) -> None:
    for pause in _pauses(connection):
        with suppress(AnsibleConnectionFailure):
            _connect(connection, stack)
            break
        time.sleep(pause)
    else:
        _connect(connection, stack)
    connection.login_context = connection.login_context or connection.context


def _retries_of_ssh() -> int:
    connection_loader.get("ssh", class_only=True)  # loads its settings
    return int(config.get_config_value("reconnection_retries", plugin_type="connection", plugin_name="ssh"))


def _pauses(connection: Any) -> list[int]:
    """The seconds between calls to a host. A task that has ended a connection, as a reboot, waits itself."""
    host = connection.get_task_var("inventory_hostname")
    if host not in _Connection._answered or getattr(connection, "_ended", False):
        return []
    return [2**number for number in range(_Connection._retries)]


def _end(connection: Any) -> None:
    connection._ended = True
    connection._ends = bool(connection.become)
    try:
        _reset(connection)
    finally:
        connection._ends = False


_Connection._stack_from_spec, _Connection._connect_stack = _hops_of, _connect_by
_Connection.reset = _Connection._reset = _end


_push = mitogen.service.PushFileService._forward


def _push_to_those_there(service: Any, context: Any, path: str) -> None:
    """A file for a host. One that is gone gets none, as it gets no program: the task that follows says so.

    mitogen fails here in a way that counts as a failure of the task, if it has just noticed.
    """
    try:
        _push(service, context, path)
    except AttributeError:
        if service.router.stream_by_id(context.context_id) is not None:
            raise


mitogen.service.PushFileService._forward = _push_to_those_there


_emit = ansible_mitogen.logging.Handler.emit


def _log_if_possible(handler: Any, record: logging.LogRecord) -> None:
    """A line of mitogen's log, which is lost without a reader: Ansible was killed, its terminal is gone.

    mitogen's process would lose the thread that cannot write it, and with that the answer that a worker waits
    for. Neither would ever end.
    """
    with suppress(OSError):
        _emit(handler, record)


ansible_mitogen.logging.Handler.emit = _log_if_possible
