"""Starts of a host's container, with a shell in place of systemd-nspawn."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from gpufleet.lab.rack.container import Container
from gpufleet.lab.rack.layout import Layout, Record
from gpufleet.lab.rack.model import RackHost, RackSite

HOST = RackHost("gpu01", "10.90.0.11", "10.90.0.11", "gpu")
# What systemd-nspawn prints when it does not find the bridge; the file has a line for each start.
FAILS = "echo Failed to add interface; echo start >>starts; [ $(wc -l <starts) -gt {starts} ] || exit 1; "
BOOTS = (
    "python3 -c \"import socket; socket.socket(1, 2).sendto(b'READY=1', '$NOTIFY_SOCKET')\"; exec sleep 99"
)


class Shell(Container):
    """A container that is a shell script."""

    script = ""

    def _nspawn(self) -> Iterable[str]:
        return ("sh", "-c", f"cd {self._folder}; {self.script}")

    def _mount(self) -> None:
        pass

    def _pull_old_cable(self) -> None:
        pass


def started(tmp_path: Path, script: str) -> tuple[Container, bool]:
    layout = Layout(tmp_path / "rack")
    layout.host(HOST.name).mkdir(parents=True)
    site = RackSite("lab", "gb200", "10.90.0.0/24", "ubuntu", 22, (HOST,))
    record = Record("id", site, (), "", str(tmp_path), ())
    container = Shell(layout, record, HOST, 1)
    container.script = script
    container.start()
    return container, container.wait(time.monotonic() + 30)


def starts(tmp_path: Path) -> int:
    return len(Layout(tmp_path / "rack").host(HOST.name).joinpath("starts").read_text().splitlines())


def test_host_whose_container_could_not_be_made_is_started_again(tmp_path: Path) -> None:
    container, up = started(tmp_path, FAILS.format(starts=2) + BOOTS)
    try:
        assert (up, container.state, container.boots, starts(tmp_path)) == (True, "running", 1, 3)
    finally:
        container.stop()
    assert container.state == "stopped"


@pytest.mark.parametrize(("code", "times"), [(1, 3), (3, 1), (0, 1)])
def test_host_that_never_starts_is_stopped_with_its_output(tmp_path: Path, code: int, times: int) -> None:
    container, up = started(tmp_path, FAILS.format(starts=0) + f"exit {code}")
    assert (up, container.state, starts(tmp_path)) == (False, "stopped", times)
    assert container.console_tail(1) == "Failed to add interface"
