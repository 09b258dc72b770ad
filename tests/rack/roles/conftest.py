"""Racks that several files here share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rack.lab import Lab, fleet_text


@pytest.fixture(scope="session")
def gpu_rack(can_hold_racks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A controller and two GPU nodes, which know the vendor's packages; sealed as `bare`."""
    made = Lab.up(tmp_path_factory.mktemp("gpu"), fleet_text(gpu_nodes=2, controllers=1, login=False))
    try:
        made.add_vendor_repository("dgx01", "dgx02")
        made.seal("bare")
        yield made
    finally:
        made.down()
