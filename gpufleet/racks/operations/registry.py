"""All operations by name."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from gpufleet.errors import InputError
from gpufleet.racks.operations.data import DATA_OPERATIONS
from gpufleet.racks.operations.nodes import NODE_OPERATIONS
from gpufleet.racks.operations.operation import Operation

OPERATIONS: Mapping[str, Operation] = {
    operation.name: operation for operation in (*NODE_OPERATIONS, *DATA_OPERATIONS)
}


def find_operation(name: str) -> Operation:
    """The operation of a name. Raises InputError with the nearest known one."""
    if name in OPERATIONS:
        return OPERATIONS[name]
    near = get_close_matches(name.replace("-", "_"), OPERATIONS, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise InputError(f"there is no operation {name!r}", remedy=f"{hint}`gpufleet operate --list` shows them")
