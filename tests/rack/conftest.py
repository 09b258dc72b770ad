"""A rack for the tests here, raised once: they share it, and leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpufleet.onprem.rack import missing
from tests.rack.lab import Lab


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of a rack run in one process, where there are several."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("rack"))


@pytest.fixture(scope="session")
def can_hold_racks() -> None:
    """Skips, in one line, where this machine cannot hold racks."""
    lacking = missing()
    if lacking:
        pytest.skip(f"the tests on a rack in a box did not run: they need {lacking}")


@pytest.fixture(scope="session")
def rack(can_hold_racks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two controllers, a login host and four GPU nodes, as they are after their first boot."""
    made = Lab.up(tmp_path_factory.mktemp("rack"))
    yield made
    made.down()


@pytest.fixture
def clean_rack(rack: Lab) -> Iterator[Lab]:
    """The rack, taken back to its first boot when the test is done."""
    yield rack
    rack.reset()
