"""The judge of all tests of the checks: a fleet with changes in, findings out."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.catalog import Catalog, load_catalog
from tests.unit.checks.fleets import Judge


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return load_catalog()


@pytest.fixture
def judge(tmp_path: Path, catalog: Catalog) -> Judge:
    return Judge(tmp_path, catalog)
