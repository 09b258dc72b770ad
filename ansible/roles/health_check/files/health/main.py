"""One run: measure, judge, update the scheduler, write results."""

from __future__ import annotations

import json
import signal
import sys
import syslog
import time
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

from health import (
    adapter_log,
    dcgm,
    draining,
    kernel_faults,
    kubernetes,
    nvlink,
    port_counters,
    ports,
    readings,
    report,
    slurm,
    sxid,
    system,
    xid,
)
from health import config as configuration
from health import gpus as gpu_checks
from health import memory as remembering
from health.commands import run as run_command
from health.config import Config
from health.draining import Node
from health.finding import DRAIN, Finding, with_actions
from health.gpus import Gpu
from health.memory import Memory
from health.readings import Readings
from health.report import Report

MODES = ("periodic", "prolog", "epilog", "show")
USAGE = """\
health-check [periodic]       check the node, drain or undrain it, write what was found
health-check prolog|epilog    the same before or after a job; never undrains
health-check show             check and print as JSON; changes nothing. Exit code 1: unfit for jobs
health-check diag [1|2|3|4]   run DCGM's diagnostics of a level and keep what fails
health-check forget [GPU|all|memory|ports]
                              forget Xids of a GPU (by its index) or of all (default), the size of the
                              memory, or which ports have been up
"""


def main(arguments: list[str]) -> int:
    """Run one mode; the exit code."""
    mode = arguments[0] if arguments else "periodic"
    if mode == "forget":
        return forget(arguments[1] if len(arguments) > 1 else "all")
    if mode == "diag" and len(arguments) <= 2 and (arguments[1:] or ["1"])[0] in dcgm.LEVELS:
        return diagnose((arguments[1:] or ["1"])[0])
    if mode not in MODES or len(arguments) > 1:
        sys.stderr.write(USAGE)
        return 2
    try:
        config = configuration.load()
    except (OSError, ValueError, TypeError) as error:
        # An unreadable configuration must not pass as healthy.
        report.log(f"the configuration is unusable: {error}", syslog.LOG_ERR)
        sys.stderr.write(f"health-check: the configuration is unusable: {error}\n")
        return 1
    limit_s = config.prolog_timeout_s if mode in ("prolog", "epilog") else config.timeout_s
    # If a kernel file hangs, the prolog fails, which drains the node too.
    signal.alarm(int(3 * limit_s) + 5)
    try:
        with remembering.locked(config.path(config.state_directory)) as mine:
            return run(mode, config, limit_s, keeps=mine and mode != "show")
    finally:
        signal.alarm(0)


def run(mode: str, config: Config, limit_s: float, *, keeps: bool) -> int:
    """One run with the state locked; if another run holds the lock, nothing is written.

    Jobs that start together run it concurrently: each one still reports its findings to the scheduler.
    """
    started = time.monotonic()
    state = config.path(config.state_directory)
    memory = remembering.load(state)
    at_job, periodic = mode in ("prolog", "epilog"), mode == "periodic"
    scheduler = scheduler_of(config)
    question = scheduler.question(config) if scheduler else None
    taken = readings.take(config, memory, limit_s, node=question, dcgm=not at_job, periodic=periodic)
    node = scheduler.parse(taken.done["node"].out) if scheduler else None
    findings, events = examine(config, taken, memory, node, periodic=periodic)
    result = Report(mode, config.node, taken.now, 0.0, findings)
    result.rates = {name: values.get("rates", {}) for name, values in memory.ports.items()}
    if mode == "periodic":
        memory.good_runs = 0 if result.drains else memory.good_runs + 1
    elif result.drains:
        memory.good_runs = 0
    drained = True
    if scheduler and node is None:
        drained = False
        result.scheduler = f"{scheduler.NAME} did not answer: {taken.done['node'].message}"
    elif scheduler and node is not None and mode != "show":
        result.scheduler, drained = talk(mode, config, memory, node, result, events, limit_s, scheduler)
    result.drained = bool(memory.reason)
    result.duration_s = time.monotonic() - started
    result.xids = xid.as_json(events)
    if keeps:
        memory.xids = result.xids
        memory.boot_id = boot_id(config)
        report.publish(result, state, config.path(config.textfile_directory), config.actions)
        report.log_findings(result, memory)
        try:
            remembering.save(state, memory)
        except OSError as error:
            report.log(f"cannot write {state}: {error.strerror}", syslog.LOG_WARNING)
    return exit_code(mode, result, drained=drained)


def scheduler_of(config: Config) -> ModuleType | None:
    """The scheduler that this node belongs to: the module with its commands."""
    if config.slurm:
        return slurm
    return kubernetes if config.kubernetes and kubernetes.joined(config) else None


def examine(
    config: Config, taken: Readings, memory: Memory, node: Node | None, *, periodic: bool
) -> tuple[list[Finding], list[xid.Event]]:
    """All findings with their actions, and the active Xids."""
    gpus = gpu_checks.parse(taken.done["gpus"].out, taken.gpu_fields) if taken.ok("gpus") else []
    events = xid.update(
        memory,
        sorted(
            [
                *xid.parse(taken.done["kernel"].out),
                *sxid.parse(taken.done["kernel"].out),
                *sxid.read_manager(config),
            ],
            key=lambda line: line.at,
        ),
        config,
        gpus,
        boot_id=boot_id(config),
        now=taken.now,
        uvm_used=uvm_used(config),
    )
    if node is not None and not node.drained:
        xid.accept(events)
    found_ports = ports.read(config)
    findings: list[Finding] = []
    checks: list[Callable[[], list[Finding]]] = [
        *[lambda check=check: check(config, taken, gpus) for check in gpu_checks.CHECKS],
        lambda: xid.check(events, labels(config, gpus), config, taken.now),
        lambda: dcgm.check_health(config, taken),
        lambda: dcgm.check_diag(config),
        lambda: kernel_faults.check(taken.done["kernel"].out, config, kernel_faults.uptime(config)),
        lambda: unread_log(taken),
        lambda: nvlink.check_links(config, taken, gpus),
        lambda: nvlink.check_fabric_manager(config, taken, gpus),
        lambda: ports.check_ports(config, found_ports, memory),
        lambda: ports.check_links(config, found_ports),
        lambda: ports.check_unreadable(config, found_ports),
        lambda: ports.check_bridges(found_ports),
        lambda: adapter_log.check_bandwidth(config, taken, found_ports),
        lambda: system.check_disks(config),
        lambda: system.check_read_only(config),
        lambda: system.check_clock(config, taken),
        lambda: system.check_memory(config, memory),
        lambda: system.check_memory_errors(config),
    ]
    if periodic:
        checks += [
            lambda: port_counters.check(config, found_ports, memory, taken.now),
            lambda: adapter_log.check_carrier(config, taken, found_ports),
            lambda: adapter_log.check_ibstat(taken, found_ports),
            lambda: nvlink.check_errors(config, taken, memory),
        ]
    for check in checks:
        findings += check()
    return confirm(with_actions(findings, config.actions), memory, periodic=periodic), events


def unread_log(taken: Readings) -> list[Finding]:
    """Report that Xids are unknown without the kernel log."""
    if taken.ok("kernel"):
        return []
    return [Finding("xid", "", f"the kernel's log was not read: {taken.done['kernel'].message}", "run dmesg")]


def confirm(findings: list[Finding], memory: Memory, *, periodic: bool) -> list[Finding]:
    """Temporary states drain if two periodic runs in a row have found them."""
    unsure = {item.key for item in findings if not item.confirmed}
    if periodic:
        memory.seen = {key: memory.seen.get(key, 0) + 1 for key in unsure}
    return [
        item
        if item.confirmed or item.action != DRAIN or memory.seen.get(item.key, 0) > 1
        else replace(item, action="advise")
        for item in findings
    ]


def talk(
    mode: str,
    config: Config,
    memory: Memory,
    node: Node,
    result: Report,
    events: list[xid.Event],
    limit_s: float,
    scheduler: ModuleType,
) -> tuple[str, bool]:
    """Update the scheduler; the order, and whether a faulty node is now drained."""
    remembered = memory.reason if memory.boot_id else None
    if draining.is_ours(node, config, remembered):
        memory.reason = node.reason
    else:
        memory.reason = ""
    order = draining.decide(node, result.drains, config, remembered, memory.good_runs)
    drained = node.drained
    message = f"left as it is ({node.state})" if result.drains else ""
    if order.do == "drain" or (order.do and mode == "periodic"):
        done = scheduler.carry_out(order, config, limit_s)
        # Record the drain in any case: a late response does not undo it.
        if order.do == "drain" or done.code == 0:
            memory.reason = order.reason
        message = f"{order.do}: {order.reason}" if order.reason else order.do
        if done.code:
            message = f"{order.do} failed: {done.message}"
        elif order.do == "drain":
            drained = True
        report.log(message, syslog.LOG_ERR if done.code else syslog.LOG_NOTICE)
    evicts = memory.reason and drained and config.evict and any(item.evicts for item in result.drains)
    if evicts and (cleared := scheduler.clear(config, limit_s)):
        report.log(cleared, syslog.LOG_WARNING)
        message = f"{message}; {cleared}"
    if drained and result.drains:
        for event in events:
            event.acted = event.acted or event.drains
    return message, drained


def exit_code(mode: str, result: Report, *, drained: bool) -> int:
    """A failing prolog requeues the job; an epilog fails only if Slurm must drain the node."""
    if mode == "show":
        sys.stdout.write(json.dumps(result.as_json(), indent=1) + "\n")
    if mode in ("prolog", "show"):
        return 1 if result.drains else 0
    return 1 if mode == "epilog" and result.drains and not drained else 0


def diagnose(level: str) -> int:
    """Run a level of DCGM's diagnostics and keep what fails; 1 if that drains the node, 2 if refused."""
    config = configuration.load()
    scheduler = scheduler_of(config)
    if level != "1" and scheduler:
        node = scheduler.parse(run_command(scheduler.question(config), 10.0).out)
        if node is None or not node.drained:
            state = node.state if node else f"not known to {scheduler.NAME}"
            sys.stderr.write(
                f"health-check: level {level} loads the GPUs, and the node is {state}: drain it first "
                f"({scheduler.drain_by_hand(config)})\n"
            )
            return 2
    done = run_command(["dcgmi", "diag", "--run", level, "--json"], dcgm.LEVELS[level])
    state_folder = config.path(config.state_directory)
    try:
        incidents = dcgm.keep_diag(state_folder, level, done.out)
    except (ValueError, OSError) as error:
        message = dcgm.message_of(done.out + done.err)
        sys.stderr.write(f"health-check: dcgmi diag gave no result that can be kept ({error}): {message}\n")
        return 1
    for item in incidents:
        code = f"code {item.code} {item.name}, {item.severity}"
        sys.stdout.write(f"{item.subject} {item.message} ({code})\n".lstrip())
    return 1 if any(item.severity in dcgm.DRAINING for item in incidents) else 0


def forget(what: str) -> int:
    """Delete recorded Xids, memory size, or ports."""
    config = configuration.load()
    state = config.path(config.state_directory)
    with remembering.locked(state) as mine:
        if not mine:
            sys.stderr.write("health-check: another run is in progress, try again\n")
            return 1
        memory = remembering.load(state)
        if what == "memory":
            memory.memory_kib = 0
        elif what == "ports":
            memory.good_ports = []
        elif what == "all":
            sys.stdout.write(f"forgot {xid.forget(memory)} Xids\n")
        else:
            buses = {name.partition(" ")[2]: bus for bus, name in labels(config, []).items()}
            if what not in buses:
                sys.stderr.write(f"health-check: there is no GPU {what!r} on the PCI bus\n")
                return 2
            sys.stdout.write(f"forgot {xid.forget(memory, buses[what])} Xids of GPU {what}\n")
        remembering.save(state, memory)
    return 0


def labels(config: Config, gpus: list[Gpu]) -> dict[str, str]:
    """Bus -> GPU name. Without the driver, GPUs are numbered in bus order, as the driver does."""
    if gpus:
        return {gpu.bus: gpu.label for gpu in gpus}
    return {bus: f"GPU {index}" for index, bus in enumerate(gpu_checks.buses(config))}


def boot_id(config: Config) -> str:
    """The boot ID of the kernel."""
    return config.path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()


def uvm_used(config: Config) -> bool:
    """Whether unified memory is in use; assumed if the kernel does not report it."""
    try:
        text = config.path("/sys/module/nvidia_uvm/refcnt").read_text(encoding="utf-8").strip()
    except OSError:
        return True
    return text != "0"
