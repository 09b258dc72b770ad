"""The handler as a process: killed in the middle, it loses no notice and repeats no drain."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.notice_site import NoticeSite

NODES = 40
SETTLED = {"signalled", "moved", "done"}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[NoticeSite]:
    made = NoticeSite(tmp_path, NODES)
    yield made
    made.stop()


@pytest.mark.daemon
def test_kills_lose_no_notice_and_drain_no_node_twice(site: NoticeSite) -> None:
    random = Random(24)
    storm = site.storm(random, 120)
    for first in range(0, len(storm), 40):
        site.send(storm[first : first + 40])
        site.start()
        # Somewhere in the middle: where, differs from run to run, and must not matter.
        # A part may have only duplicates, at which nothing happens.
        until = time.monotonic() + 10
        before = len(site.slurm.log())
        while len(site.slurm.log()) == before and time.monotonic() < until:
            time.sleep(0.02)
        site.kill()
    site.start()
    site.wait_for_signals(120)
    until = time.monotonic() + 60
    # Slurm sends the last signal a moment before that is written.
    while time.monotonic() < until and (site.left_in_queue() or not own_states(site) <= SETTLED):
        time.sleep(0.5)
    site.kill(signal.SIGTERM)
    assert sorted(site.slurm.logged("drain")) == sorted(site.names.values())
    assert set(site.slurm.logged("signal")) == {str(job) for job in range(1, NODES // 4 + 1)}
    assert own_states(site) <= SETTLED
    assert site.states()[site.strangers[0]] == "left"
    assert site.left_in_queue() == 0
    outcomes = [line["event"] for line in site.audit()]
    assert {"accepted", "malformed", "foreign", "irrelevant", "left", "drained", "signalled"} <= set(outcomes)


def own_states(site: NoticeSite) -> set[str]:
    """The states of the site's instances."""
    states = site.states()
    return {states.get(each, "") for each in site.instances}


def test_unusable_settings_end_with_one_message(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"queue_url": "x"}')
    command = [sys.executable, "-m", "gpufleet.notices", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "is missing: add it" in done.stderr
