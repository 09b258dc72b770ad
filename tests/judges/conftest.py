"""What the program makes of each fleet, once for all judges."""

from __future__ import annotations

import pytest

from gpufleet.stacks.program import build_fleet
from gpufleet.stacks.settings import StackSettings
from tests.judges.fleets import FLEETS, Built
from tests.unit.components.recording import EchoMocks, record
from tests.unit.stacks.moto_mocks import MotoMocks, emulated_aws, recorded_actions


@pytest.fixture(scope="session", params=FLEETS)
def built(request: pytest.FixtureRequest) -> Built:
    plan = FLEETS[request.param]()
    settings = StackSettings("sandbox", "sandbox", False, None, {}, {})
    # A block of the emulated AWS starts at hours of its own: one example asks for another.
    mocks = EchoMocks() if request.param == "trainium" else MotoMocks()
    with emulated_aws(), recorded_actions() as actions:
        return Built(plan, record(lambda: build_fleet(plan, settings), mocks), actions)
