"""The checkout that every test of the fleet file writes into."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.spec.samples import Checkout


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)
