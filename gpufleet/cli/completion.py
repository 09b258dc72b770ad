"""Shell completion with names of this checkout. Never raises or prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def _beginning(incomplete: str, names: Callable[[], Iterable[str]]) -> list[str]:
    try:
        return sorted(name for name in names() if name.startswith(incomplete))
    except Exception:
        # A traceback would appear in the user's command line.
        return []


def environments(incomplete: str) -> list[str]:
    """Complete environments: folders of `stacks/` with a fleet file."""
    from gpufleet.workspace import find_root

    return _beginning(
        incomplete, lambda: (path.parent.name for path in (find_root() / "stacks").glob("*/fleet.yaml"))
    )


def rules(incomplete: str) -> list[str]:
    """Complete rules of the policy pack."""
    from gpufleet.policy.pack import load_rules
    from gpufleet.workspace import find_root

    return _beginning(incomplete, lambda: (rule.name for rule in load_rules(find_root())))


def operations(incomplete: str) -> list[str]:
    """Complete operations of `gpufleet operate`."""
    from gpufleet.racks.operations.registry import OPERATIONS

    return _beginning(incomplete, lambda: OPERATIONS)


def gpus(incomplete: str) -> list[str]:
    """Complete GPUs and Neuron devices of the catalog."""
    from gpufleet.catalog import load_catalog

    return _beginning(incomplete, lambda: load_catalog().accelerators)


def clouds(incomplete: str) -> list[str]:
    """The clouds."""
    return _beginning(incomplete, lambda: ("aws", "sandbox"))


def engines(incomplete: str) -> list[str]:
    """The engines."""
    return _beginning(incomplete, lambda: ("auto", "embedded", "pulumi"))
