"""Rack sites of the fleet file from the files of a Slurm that runs: slurm.conf, gres.conf, their includes.

Key names have no case, values are separated by blanks, a line ends with `#` or continues after `\\`
(slurm.conf(5)). One site has nodes of one system: nodes with another kind of GPU become another site.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpufleet.adopt.remarks import AdoptedSite
from gpufleet.catalog import Catalog
from gpufleet.catalog.models import System
from gpufleet.errors import InputError
from gpufleet.spec.hosts import HostRange
from gpufleet.spec.parsing import QuantityError

_PAIR = re.compile(r'(\w+)\s*=\s*("[^"]*"|\S+)')
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_SPEEDS = {200: "hdr", 400: "ndr", 800: "xdr"}
_KEPT = frozenset(
    {
        "clustername",
        "slurmctldhost",
        "accountingstoragehost",
        "nodename",
        "partitionname",
        "slurmctldparameters",
    }
)
_MOST_INCLUDES = 20


class SlurmFiles(Struct, frozen=True):
    """`settings` has single keys, `nodes` and `partitions` a mapping for each line; keys in lower case."""

    settings: Mapping[str, tuple[str, ...]]
    nodes: tuple[Mapping[str, str], ...]
    partitions: tuple[Mapping[str, str], ...]
    gres: tuple[Mapping[str, str], ...]


def read_slurm(folder: Path) -> SlurmFiles:
    """Read the files of a folder such as /etc/slurm. Raises InputError without a slurm.conf."""
    if not (folder / "slurm.conf").is_file():
        raise InputError(
            f"{folder} has no slurm.conf",
            remedy="copy it there from a controller (`scontrol show config` names it)",
        )
    settings: dict[str, list[str]] = defaultdict(list)
    nodes, partitions = [], []
    for pairs in _lines(folder / "slurm.conf", folder):
        first = next(iter(pairs))
        if first == "nodename":
            nodes.append(pairs)
        elif first == "partitionname":
            partitions.append(pairs)
        else:
            for key, value in pairs.items():
                settings[key].append(value)
    gres = tuple(_lines(folder / "gres.conf", folder)) if (folder / "gres.conf").is_file() else ()
    return SlurmFiles(
        {key: tuple(values) for key, values in settings.items()}, tuple(nodes), tuple(partitions), gres
    )


def slurm_sites(files: SlurmFiles, catalog: Catalog) -> list[AdoptedSite]:
    """Return a site for each kind of GPU nodes. Raises InputError if Slurm has none."""
    cluster = files.settings.get("clustername", ("slurm",))[-1]
    kinds: dict[tuple[str, int], list[str]] = defaultdict(list)
    others: list[str] = []
    for line in _with_defaults(files.nodes):
        gpu, count = _gpus(line.get("gres", ""), line["nodename"], files.gres)
        (kinds[gpu, count] if count else others).append(line["nodename"])
    if not kinds:
        raise InputError(
            "slurm.conf has no node with GPUs (Gres=gpu:...)",
            remedy="add the files that it includes to the folder",
        )
    sites = []
    for number, ((gpu, count), names) in enumerate(kinds.items()):
        name = cluster if number == 0 else f"{cluster}-{number + 1}"
        site = _site(re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-"), gpu, count, names, catalog)
        if number == 0:
            _shared(site, cluster, files, others)
        else:
            site.remark(
                cluster, "one slurm.conf has several kinds of GPU nodes; each site has a Slurm of its own"
            )
        sites.append(site)
    return sites


def _site(name: str, gpu: str, count: int, names: list[str], catalog: Catalog) -> AdoptedSite:
    system = _system(gpu, count, catalog)
    fields: dict[str, Any] = {"site": name, "system": system.name if system else f"unknown-{gpu or 'gpu'}"}
    site = AdoptedSite(name, fields)
    fields["nodes"] = names[0] if len(names) == 1 else _joined(names)
    try:
        HostRange.parse(str(fields["nodes"]))
    except QuantityError as error:
        site.remark(
            str(fields["nodes"]), f"no range of hosts in the fleet file ({error}): name hosts alike, or split"
        )
    if system is None:
        site.remark(name, f"the catalog has no system with {count} GPUs of type {gpu or 'unnamed'}")
    else:
        site.remark(
            name,
            f"slurm.conf has {count} GPUs of type {gpu or 'unnamed'} a node, but no system: check `system`",
        )
    speed = _SPEEDS.get((system.fabric_gbps if system else None) or 400, "ndr")
    fields["fabric"] = {"kind": "infiniband", "speed": speed}
    site.remark(
        name, "slurm.conf has no fabric: check `fabric`, and add `bmc`, `network`, `power`, `ownership`"
    )
    return site


def _shared(site: AdoptedSite, cluster: str, files: SlurmFiles, others: list[str]) -> None:
    """Add what a slurm.conf has once: controllers, partitions, and what the fleet does not manage."""
    controllers = [re.sub(r"\(.*", "", host) for host in files.settings.get("slurmctldhost", ())]
    if controllers:
        site.fields["controllers"] = controllers if len(controllers) > 1 else controllers[0]
    site.fields["scheduler"] = "slurm"
    made = [_partition(line, site) for line in _with_defaults(files.partitions, "partitionname")]
    slurm: dict[str, Any] = {"cluster": cluster} | ({"partitions": made} if made else {})
    site.fields["slurm"] = slurm
    if others:
        site.remark(", ".join(others), "nodes without GPUs: the fleet file has GPU nodes only")
    unmanaged = sorted(set(files.settings) - _KEPT)
    if unmanaged:
        site.remark(
            "slurm.conf",
            f"{len(unmanaged)} settings are not in the fleet file, and the roles write their own:"
            f" compare {', '.join(unmanaged)}",
        )


def _partition(line: Mapping[str, str], site: AdoptedSite) -> dict[str, Any]:
    made: dict[str, Any] = {"name": line["partitionname"]}
    nodes = line.get("nodes", "ALL")
    if nodes.upper() != "ALL" and nodes != site.fields["nodes"]:
        made["nodes"] = nodes
    if line.get("default", "").upper() == "YES":
        made["default"] = True
    limit = line.get("maxtime", "UNLIMITED")
    minutes = _minutes(limit)
    if minutes:
        made["max_time"] = f"{minutes // 60} h" if minutes % 60 == 0 else f"{minutes} min"
    if line.get("prioritytier"):
        made["priority"] = int(line["prioritytier"])
    if line.get("allowaccounts", "ALL").upper() != "ALL":
        site.remark(
            line["partitionname"], f"accounts {line['allowaccounts']}: add them as `teams`, with their GPUs"
        )
    return made


def _minutes(text: str) -> int | None:
    """Return the whole minutes of a time of slurm.conf(5), rounded up; None for no limit.

    Forms: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes[:seconds].
    """
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    days, *parts = (int(part) if part else 0 for part in found.groups())
    if found[1] is not None or found[4] is not None:
        hours, minutes, seconds = parts
    else:
        hours, (minutes, seconds, _) = 0, parts
    return -(-(((days * 24 + hours) * 60 + minutes) * 60 + seconds) // 60) or None


def _system(gpu: str, count: int, catalog: Catalog) -> System | None:
    """Return the first system of the catalog with these GPUs; Slurm's types are free names (`h100`)."""
    wanted = re.sub(r"[^a-z0-9]", "", gpu.lower())
    named = [each for each in catalog.systems.values() if each.gpus == count]
    alike = [each for each in named if wanted and each.gpu.lower() in wanted]
    return min(alike, key=lambda each: (not each.name.startswith("dgx"), each.name), default=None)


def _gpus(gres: str, nodes: str, lines: tuple[Mapping[str, str], ...]) -> tuple[str, int]:
    """Return type and number of GPUs from `gpu:h100:8(S:0-1),shard:16`; without a type that of gres.conf."""
    total, kind = 0, ""
    for item in re.sub(r"\([^)]*\)", "", gres).split(","):
        name, *rest = item.split(":")
        if name != "gpu":
            continue
        numbers = [part for part in rest if part.isdigit()]
        total += int(numbers[-1]) if numbers else 1
        kind = kind or next((part for part in rest if not part.isdigit()), "")
    if total and not kind:
        listed = (
            line for line in lines if line.get("name") == "gpu" and line.get("nodename", nodes) == nodes
        )
        kind = next((line["type"] for line in listed if line.get("type")), "")
    return kind, total


def _with_defaults(
    lines: tuple[Mapping[str, str], ...], key: str = "nodename"
) -> Iterator[Mapping[str, str]]:
    """Yield lines with the values of the `DEFAULT` lines before them."""
    defaults: dict[str, str] = {}
    for line in lines:
        if line[key].upper() == "DEFAULT":
            defaults |= {name: value for name, value in line.items() if name != key}
        else:
            yield {**defaults, **line}


def _joined(names: list[str]) -> str:
    """Return one range for several, if they differ in their bracket only; else their list."""
    parts = [re.fullmatch(r"([^\[\]\d]+)\[?([\d,-]+)\]?", name) for name in names]
    if all(parts) and len({part[1] for part in parts if part}) == 1:
        return f"{parts[0][1]}[{','.join(part[2] for part in parts if part)}]" if parts[0] else ""
    return ",".join(names)


def _lines(file: Path, folder: Path, depth: int = 0) -> Iterator[dict[str, str]]:
    """Yield the pairs of each line, with those of included files of the folder in their place."""
    text = file.read_text(encoding="utf-8", errors="replace").replace("\\\n", " ")
    for line in text.splitlines():
        plain = re.sub(r"(?<!\\)#.*", "", line).strip()
        included = re.match(r"(?i)include\s+(\S+)", plain)
        if included:
            other = folder / Path(included[1]).name
            if other.is_file() and depth < _MOST_INCLUDES:
                yield from _lines(other, folder, depth + 1)
            continue
        pairs = {key.lower(): value.strip('"') for key, value in _PAIR.findall(plain)}
        if pairs:
            yield pairs
