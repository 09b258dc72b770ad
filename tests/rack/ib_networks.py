"""InfiniBand fabrics as ibsim reads them: leaves, spines, nodes and hosts that manage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

PORTS = 64
UMAD2SIM = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"


def network(*, nodes: int, rails: int, leaves: int, spines: int, managers: int, by_rail: bool) -> str:
    """The network file. Rails have a leaf each, or all rails of a node are on one leaf.

    Leaves are called L0, spines S0, the adapter of node 1 on rail 2 is N1_2, managers' adapters are SM0.
    """
    cables: dict[str, list[tuple[int, str, int]]] = defaultdict(list)
    used = [0] * leaves

    def join(one: str, port: int, other: str, other_port: int) -> None:
        cables[one].append((port, other, other_port))
        cables[other].append((other_port, one, port))

    def attach(adapter: str, leaf: int) -> None:
        used[leaf] += 1
        join(adapter, 1, f"L{leaf}", used[leaf])

    for spine in range(spines):
        for leaf in range(leaves):
            join(f"S{spine}", leaf + 1, f"L{leaf}", PORTS - spine)
    for node in range(nodes):
        for rail in range(rails):
            attach(f"N{node}_{rail}", rail % leaves if by_rail else node * leaves // nodes)
    for manager in range(managers):
        attach(f"SM{manager}", manager % leaves)

    def lines() -> Iterator[str]:
        for name in sorted(cables, key=_order):
            yield f'Switch {PORTS} "{name}"' if name[0] in "LS" and name[1] != "M" else f'Hca 1 "{name}"'
            yield from (f'[{port}] "{other}"[{far}]' for port, other, far in sorted(cables[name]))
            yield ""

    return "\n".join(lines()) + "\n"


def cut(text: str, one: str, other: str) -> str:
    """The network without the cables between two of its parts."""
    kept, here = [], ""
    for line in text.splitlines():
        if not line.startswith("["):
            here = line.split('"')[1] if '"' in line else ""
        ends = {here, line.split('"')[1]} if line.startswith("[") else set()
        if ends != {one, other}:
            kept.append(line)
    return "\n".join(kept) + "\n"


def switch_guid(index: int) -> str:
    """The node GUID that ibsim gives to switch `index` of the file; spines come first."""
    return f"0x{0x200000 + index:016x}"


def port_guid(index: int) -> str:
    """The port GUID that ibsim gives to adapter `index` of the file: nodes' by rail, then managers'."""
    return f"0x{0x100001 + 2 * index:016x}"


def _order(name: str) -> tuple[int, list[int]]:
    kind = 2 if name.startswith("SM") else {"S": 0, "L": 1, "N": 1.5}[name[0]]
    numbers = [int(part) for part in name.lstrip("SLNM").split("_")]
    return int(kind * 2), numbers
