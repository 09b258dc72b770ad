"""Resource types of a verdict's preview that nothing in it serves: their outputs are unknown."""

from __future__ import annotations

import os

from gpufleet.engine.errors import PluginError
from gpufleet.engine.plugins import plugin_command
from gpufleet.lab_extra import THROWAWAY_PROVIDERS, served_types
from gpufleet.resources.stack import Stack

_AWS, _PROVIDERS = "aws", "pulumi:providers:"
_NONE = frozenset({"pulumi", "pulumi-python"})


def assumed_types(stack: Stack) -> tuple[str, ...]:
    """Return the types of `stack` that a preview of the embedded engine has taken as declared, sorted."""
    types = {
        each.type for each in stack if each.provider is not None and not each.type.startswith(_PROVIDERS)
    }
    packages = {kind: kind.partition(":")[0] for kind in types}
    missing = {package for package in packages.values() if _is_missing(package)}
    served = served_types()
    return tuple(
        sorted(
            kind
            for kind, package in packages.items()
            if package in missing or (package == _AWS and kind not in served)
        )
    )


def _is_missing(package: str) -> bool:
    if package in _NONE or package in THROWAWAY_PROVIDERS:
        return False
    try:
        plugin_command(package, "", {}, os.environ)
    except PluginError:
        return True
    return False
