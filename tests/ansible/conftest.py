"""Fixtures that the tests of plans have, too."""

from __future__ import annotations

import pytest

from gpufleet.catalog import Catalog, load_catalog


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return load_catalog()
