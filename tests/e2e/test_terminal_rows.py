"""The first run of the sandbox on a terminal of 80 columns."""

from __future__ import annotations

import re

import pytest

from tests.conftest import Checkout
from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.xdist_group("e2e-interruptions")

# `make up` prints 60 at most, of which scripts/setup takes three in a fresh clone. Five more are left, since
# the number of warnings changes with the age of prices.
ROWS = 52


def test_setup_and_first_up_of_the_sandbox_fit_60_rows_of_80_columns(
    checkout: Checkout,
) -> None:
    terminal = Terminal(checkout, "up", "sandbox", "--engine", "embedded", "--yes", columns=80)
    assert terminal.ended() == 0
    assert " created, 0 unchanged" in terminal.text
    assert terminal.rows <= ROWS


def test_confirmation_of_hundreds_of_resources_fits_one_screen(checkout: Checkout) -> None:
    terminal = Terminal(checkout, "up", "sandbox", "--engine", "embedded", columns=80)
    terminal.wait(lambda: "Apply these changes? [y/N]: " in terminal.text)
    rows = terminal.rows
    terminal.type("n\n")
    assert terminal.ended() == 1
    assert max(int(number) for number in re.findall(r"(\d+) to create", terminal.text)) > 150
    assert rows <= 60
