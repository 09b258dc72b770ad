"""Tests of one group run in one worker, in order: module-wide fixtures and single racks depend on it.

pytest 9.2 with pytest-xdist 3.8 scatters groups silently (pytest-xdist issue 1386).
"""

from __future__ import annotations

import os

import pytest


@pytest.mark.xdist_group("together")
@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="this run has one worker")
def test_group_of_a_test_reaches_the_scheduler(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("loadgroup", default=False):
        assert request.node.nodeid.endswith("@together")
