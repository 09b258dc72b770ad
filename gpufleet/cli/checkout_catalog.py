"""The catalog for commands that need no fleet file."""

from __future__ import annotations

from gpufleet.catalog import Catalog, load_catalog
from gpufleet.checks import OVERRIDES
from gpufleet.errors import InputError
from gpufleet.workspace import find_root


def checkout_catalog() -> Catalog:
    """Return the catalog with what `catalog refresh` read; the shipped one outside of a checkout."""
    try:
        root = find_root()
    except InputError:
        return load_catalog()
    return load_catalog(root / OVERRIDES)
