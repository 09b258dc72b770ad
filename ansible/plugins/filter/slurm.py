"""Node lines of slurm.conf and gres.conf, from the facts of nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_mig import (
    Layouts,
    divided,
    gres,
    instance_lines,
    names_of,
)

MIB_OF_SLACK = 512
"""Memory that a newer kernel may use in addition before a node has less than slurm.conf says."""


NAMES_IN_A_LINE = 50
"""Maximum line length: Slurm reads a few thousand characters."""


@dataclass(frozen=True, order=True)
class Hardware:
    """Processors and memory (MiB) of a node. 0 sockets: the topology is unknown, only processors count."""

    cpus: int
    sockets: int
    cores: int
    threads: int
    memory_mib: int

    @property
    def topology(self) -> str:
        """In the format of slurm.conf."""
        if not self.sockets:
            return f"CPUs={self.cpus}"
        sockets = f"CPUs={self.cpus} Sockets={self.sockets}"
        return f"{sockets} CoresPerSocket={self.cores} ThreadsPerCore={self.threads}"


def hardware(facts: Mapping[str, Any]) -> Hardware | None:
    """The hardware from the facts of a node; None without facts."""
    if "processor_nproc" not in facts or "memtotal_mb" not in facts:
        return None
    cpus = int(facts["processor_nproc"])
    sockets, cores, threads = (
        int(facts.get(f"processor_{name}", 0) or 0) for name in ("count", "cores", "threads_per_core")
    )
    memory = max(int(facts["memtotal_mb"]) - MIB_OF_SLACK, 1024) // 1024 * 1024
    if sockets * cores * threads != cpus:
        # A virtual machine, or processors were removed: Slurm then counts only processors.
        return Hardware(cpus, 0, 0, 0, memory)
    return Hardware(cpus, sockets, cores, threads, memory)


def slurm_nodes(
    nodes: Sequence[Mapping[str, str]],
    facts: Sequence[Mapping[str, Any]],
    *,
    gpus: int = 1,
    gpu_type: str = "",
    mig: Layouts = (),
    reserved_cpus: int = 0,
    reserved_memory_mib: int = 0,
    confined: bool = True,
) -> list[dict[str, Any]]:
    """`{hardware, gres, nodes, cpus, memory_mib_per_cpu, cpus_per_gpu}` of identical nodes.

    `facts` are those of `nodes`, in the same order. All nodes of a site are of one system: a node without
    facts gets the smallest known values, and Slurm drains it if it has less. `hardware` is for the lines
    of slurm.conf; `cpus` are the processors for jobs, in whole cores per GPU, and the memory is per
    processor. Without `confined` (no cgroups) Slurm cannot enforce reserved resources, so less memory is
    offered instead.
    """
    found = [hardware(item or {}) for item in facts]
    known = [item for item in found if item is not None]
    if nodes and not known:
        raise AnsibleFilterError(
            f"Processors and memory of {len(nodes)} nodes ({nodes[0]['name']}...) are unknown: Slurm needs "
            "those of one at least. Run `gpufleet configure` without a limit, or with a node in it."
        )
    layouts = divided(mig)
    groups: dict[tuple[Hardware, str, int], list[Mapping[str, str]]] = {}
    for node, item in zip(nodes, found, strict=True):
        offered = gres(layouts.get(node["name"], {}), gpus=gpus, gpu_type=gpu_type)
        groups.setdefault((item or min(known), *offered), []).append(node)
    lines = []
    for (item, words_of_gres, count), members in groups.items():
        words = [item.topology]
        cpus, memory = item.cpus, max(item.memory_mib - reserved_memory_mib, 1024)
        if confined:
            words.append(f"RealMemory={item.memory_mib}")
            words += [f"MemSpecLimit={reserved_memory_mib}"] if reserved_memory_mib else []
            cores = -(-reserved_cpus // (item.threads or 1))
            words += [f"CoreSpecCount={cores}"] if cores else []
            cpus -= cores * (item.threads or 1)
        else:
            words.append(f"RealMemory={memory}")
        if cpus < 1:
            raise AnsibleFilterError(
                f"{members[0]['name']} has {item.cpus} processors and {reserved_cpus} are reserved for the "
                "system: none is left for jobs. Reserve fewer (`slurm.reserved_cpus` of the site)."
            )
        lines.append(
            {
                "hardware": " ".join(words),
                "gres": words_of_gres,
                "nodes": members,
                "cpus": cpus,
                "memory_mib_per_cpu": memory // cpus,
                "cpus_per_gpu": cpus // (item.threads or 1) // count * (item.threads or 1),
            }
        )
    return lines


def slurm_gpus(
    nodes: Sequence[Mapping[str, str]], facts: Sequence[Mapping[str, Any]], *, gpus: int, mig: Layouts = ()
) -> list[dict[str, str]]:
    """`{nodes, files, cores}` for lines of gres.conf: device files and the cores near them.

    `nodes` is empty for a line that applies to all nodes; `cores` is empty if unknown: the facts have no
    GPUs or different ones, or the processor topology is unknown. Slurm expects the cores of whole sockets,
    numbered from 0.
    """
    layouts = divided(mig)
    if layouts:
        return _whole_gpu_lines(nodes, facts, gpus, layouts)
    near = [sockets_of_gpus(item or {}, gpus) for item in facts]
    known = {item for item in near if item is not None}
    if len(known) <= 1:
        return _gpu_lines("", next(iter(known), ()), gpus)
    lines = []
    for item in sorted(known):
        names = [node["name"] for node, found in zip(nodes, near, strict=True) if found == item]
        for start in range(0, len(names), NAMES_IN_A_LINE):
            lines += _gpu_lines(",".join(names[start : start + NAMES_IN_A_LINE]), item, gpus)
    others = [node["name"] for node, found in zip(nodes, near, strict=True) if found is None]
    for start in range(0, len(others), NAMES_IN_A_LINE):
        lines += _gpu_lines(",".join(others[start : start + NAMES_IN_A_LINE]), (), gpus)
    return lines


def slurm_instances(
    nodes: Sequence[Mapping[str, str]], facts: Sequence[Mapping[str, Any]], *, gpus: int, mig: Layouts = ()
) -> list[dict[str, str]]:
    """`{nodes, type, files, cores}` for lines of gres.conf, one per MIG instance.

    A node that does not report its expected instances gets no line: it then has fewer GPUs than
    slurm.conf says, and Slurm drains it.
    """
    layouts = divided(mig)
    found: dict[tuple[tuple[str, str, str], ...], list[str]] = {}
    for node, item in zip(nodes, facts, strict=True):
        if node["name"] in layouts:
            near = sockets_of_gpus(item or {}, gpus) or ()
            lines = instance_lines(layouts[node["name"]], (item or {}).get("gpufleet_mig", []), near)
            found.setdefault(lines, []).append(node["name"])
    return [
        {"nodes": folded, "type": kind, "files": files, "cores": cores}
        for lines, names in found.items()
        for folded in names_of(names, NAMES_IN_A_LINE)
        for kind, files, cores in lines
    ]


def slurm_cpus_per_gpu(text: str, groups: Sequence[Mapping[str, Any]]) -> int:
    """Default amount per GPU or instance on the nodes of a partition; 0 if unknown."""
    names = set(unfolded(text))
    return min(
        (
            int(group["cpus_per_gpu"])
            for group in groups
            if any(node["name"] in names for node in group["nodes"])
        ),
        default=0,
    )


def unfolded(text: str) -> list[str]:
    """Hosts in Slurm's format, as the inventory writes them: `dgx[001-003,007],login1`."""
    hosts: list[str] = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\][^,]*)?", text):
        head, bracket, rest = part.partition("[")
        if not bracket:
            hosts.append(head)
            continue
        inside, _, tail = rest.partition("]")
        for numbers in inside.split(","):
            first, _, last = numbers.partition("-")
            hosts += [
                f"{head}{number:0{len(first)}}{tail}" for number in range(int(first), int(last or first) + 1)
            ]
    return hosts


def _whole_gpu_lines(
    nodes: Sequence[Mapping[str, str]],
    facts: Sequence[Mapping[str, Any]],
    gpus: int,
    layouts: Mapping[str, Mapping[int, Mapping[str, int]]],
) -> list[dict[str, str]]:
    """Like `slurm_gpus`, for sites with MIG: every line names its nodes."""
    found: dict[tuple[tuple[int, ...], tuple[tuple[int, int], ...]], list[str]] = {}
    for node, item in zip(nodes, facts, strict=True):
        whole = tuple(index for index in range(gpus) if index not in layouts.get(node["name"], {}))
        found.setdefault((whole, sockets_of_gpus(item or {}, gpus) or ()), []).append(node["name"])
    return [
        line
        for (whole, near), names in found.items()
        for folded in names_of(names, NAMES_IN_A_LINE)
        for line in _gpu_lines(folded, near, gpus)
        for line in _only(line, whole)
    ]


def _only(line: dict[str, str], whole: tuple[int, ...]) -> list[dict[str, str]]:
    """Line for the whole GPUs of a node, with consecutive GPUs merged."""
    first, _, last = line["files"].strip("[]").partition("-")
    lines: list[dict[str, str]] = []
    run: list[int] = []
    for index in [*range(int(first), int(last or first) + 1), -1]:
        if index in whole:
            run.append(index)
        elif run:
            files = f"[{run[0]}-{run[-1]}]" if len(run) > 1 else str(run[0])
            lines.append(line | {"files": files})
            run = []
    return lines


def sockets_of_gpus(facts: Mapping[str, Any], gpus: int) -> tuple[tuple[int, int], ...] | None:
    """First and last core of the socket of each GPU; None for a node without facts or with missing GPUs,
    which is temporary. Empty if the facts are inconsistent, as on a virtual machine.
    """
    found = hardware(facts)
    numa = [int(node) for node in facts.get("gpufleet_gpu_numa", ())]
    if found is None or len(numa) != gpus:
        return None
    nodes = int(facts.get("gpufleet_numa_nodes", 0))
    if found.sockets < 2 or not nodes or nodes % found.sockets or not all(0 <= n < nodes for n in numa):
        return ()
    sockets = [node // (nodes // found.sockets) for node in numa]
    return tuple((socket * found.cores, (socket + 1) * found.cores - 1) for socket in sockets)


def _gpu_lines(nodes: str, cores: tuple[tuple[int, int], ...], gpus: int) -> list[dict[str, str]]:
    """Merge consecutive GPUs with the same cores into one line."""
    lines = []
    start = 0
    while start < gpus:
        end = start
        while end + 1 < gpus and (not cores or cores[end + 1] == cores[start]):
            end += 1
        files = f"[{start}-{end}]" if end > start else str(start)
        near = f"{cores[start][0]}-{cores[start][1]}" if cores else ""
        lines.append({"nodes": nodes, "files": files, "cores": near})
        start = end + 1
    return lines


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        return {
            "slurm_nodes": slurm_nodes,
            "slurm_gpus": slurm_gpus,
            "slurm_instances": slurm_instances,
            "slurm_cpus_per_gpu": slurm_cpus_per_gpu,
        }
