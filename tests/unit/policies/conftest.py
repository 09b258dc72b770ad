"""The resources of an environment as the pack sees them, from the program."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from gpufleet.resources.stack import Stack

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before the one that reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process previews our environments: each takes seconds, and all would do it again."""
    for item in items:
        if HERE in item.path.parents and "emitted" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("emitted"))


@pytest.fixture(scope="session")
def emitted() -> Callable[[str], Stack]:
    """The stack of an environment of this checkout, from a preview against the emulated AWS."""
    from tests.previewed import preview_environment

    return cache(lambda environment: preview_environment(ROOT, environment).stack)
