"""The first run of the sandbox on a terminal of 80 columns."""

from __future__ import annotations

import pytest

from tests.conftest import Checkout
from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.xdist_group("e2e-interruptions")

# `make up` prints 60 at most, of which scripts/setup takes three in a fresh clone.
ROWS = 57


def test_a_first_up_of_the_sandbox_fits_with_its_setup_into_sixty_rows_of_eighty_columns(
    checkout: Checkout,
) -> None:
    terminal = Terminal(checkout, "up", "sandbox", "--engine", "embedded", "--yes", columns=80)
    assert terminal.ended() == 0
    assert " created, 0 unchanged" in terminal.text
    assert terminal.rows <= ROWS
