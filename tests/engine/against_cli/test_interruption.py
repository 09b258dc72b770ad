"""Ctrl-C while the Pulumi CLI runs: it finishes running operations, and the next run continues."""

from __future__ import annotations

import os
import signal
import threading

from gpufleet.engine.api import Event, InterruptEvent, ResourceEvent

from ..conftest import Lab
from .comparing import needs_cli

pytestmark = needs_cli


def test_interrupted_up_ends_with_the_cli_and_the_next_one_continues(cli: Lab) -> None:
    cli.program('a = Box("a")\nBox("b", {"of": a.arn})\n')
    cli.fault("create", "a", delay=5)
    events: list[Event] = []

    def watch(event: Event) -> None:
        events.append(event)
        if isinstance(event, ResourceEvent) and event.name == "a" and event.status == "started":
            threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()

    assert not cli.engine.is_complete(cli.request)
    result = cli.engine.up(cli.request, watch)
    assert result.interrupted
    assert not result.ok
    assert InterruptEvent() in events
    assert cli.names() == ["a"]
    cli.no_faults()
    assert not cli.engine.is_complete(cli.request)
    assert cli.up().changes.create == 1
    assert cli.names() == ["a", "b"]
    assert cli.engine.is_complete(cli.request)
