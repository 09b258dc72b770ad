"""The start of a rack that is interrupted: its tools end, and the rack is removed."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from gpufleet.interruption import handle_interruptions
from gpufleet.lab.rack import rack
from gpufleet.lab.rack.shell import run
from tests.unit.cli.configuring import wait_for


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_tool_ends_with_its_child_processes(tmp_path: Path) -> None:
    started = tmp_path / "started"

    def interrupt() -> None:
        wait_for(lambda: started.is_file() and started.read_text().strip().isdigit())
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt), handle_interruptions():
        run(["sh", "-c", f"sleep 600 & echo $! >{started}; wait"], what="a tool")
    thread.join()
    wait_for(lambda: not alive(int(started.read_text())))


class InterruptedRack:
    """A rack that is interrupted while its hosts boot."""

    def __init__(self, site: object) -> None:
        self.site = site

    def start(self) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("was_there", [False, True])
def test_interrupted_start_removes_the_rack_unless_it_was_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_there: bool
) -> None:
    site: Any = type("Site", (), {"hosts": ()})()
    folder = tmp_path / "rack"
    reported: list[str] = []
    monkeypatch.setattr(rack.needs, "require", lambda: None)
    monkeypatch.setattr(rack.Rack, "find", lambda _folder: InterruptedRack(site) if was_there else None)
    monkeypatch.setattr(rack, "_prepare", lambda layout, *_: (layout.root / "hosts").mkdir(parents=True))
    monkeypatch.setattr(rack, "_launch", lambda *_: InterruptedRack(site))
    monkeypatch.setattr(rack, "_await_supervisor", lambda _rack: None)
    if was_there:
        folder.mkdir()
    with pytest.raises(KeyboardInterrupt):
        rack.start_rack(folder, site, tmp_path / "cache", None, reported.append)
    assert folder.exists() == was_there
    assert ("interrupted: removing what was started" in reported) != was_there
