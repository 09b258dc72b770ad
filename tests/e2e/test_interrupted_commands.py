"""Ctrl-C and SIGTERM during other commands: one line, 130, no running process, no partial file."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Checkout, make_checkout
from tests.e2e.stand_ins import write_playbook
from tests.e2e.terminal import Terminal
from tests.unit.cli.configuring import SECRETS

pytestmark = pytest.mark.xdist_group("e2e-interruptions")

SIGNALS = [signal.SIGINT, signal.SIGTERM]
# Temporary files of write_atomically.
_HALF_WRITTEN = re.compile(r"\.[^/]+\.[a-z0-9_]{8}")
# A starting server never reaches its first line.
_NEVER_STARTS = """
import sys, time
if any("gpufleet.lab.aws." in word and "server" in word for word in sys.orig_argv):
    open({mark!r}, "w").close()
    time.sleep(600)
"""


@dataclass
class Place:
    """A checkout with a temporary folder."""

    checkout: Checkout
    scratch: Path

    def start(self, *arguments: str, module: str = "gpufleet.cli.entry") -> Terminal:
        """The command at a terminal."""
        self._before = self._files()
        return Terminal(self.checkout, *arguments, module=module)

    def interrupt(self, terminal: Terminal, sign: signal.Signals) -> str:
        """Send the signal; the last line of the command. No process may be left."""
        if sign == signal.SIGINT:
            terminal.ctrl_c()
        else:
            os.kill(terminal.pid, sign)
        assert terminal.ended() == 130, terminal.text
        assert "Traceback" not in terminal.text
        assert "Exception ignored" not in terminal.text
        terminal.wait(lambda: self._processes() == [])
        assert [path.name for path in self.scratch.iterdir() if path.name.startswith("gpufleet")] == []
        assert self._files() == self._before
        local = self.checkout.root / ".gpufleet"
        assert [path for path in local.rglob("*") if _HALF_WRITTEN.fullmatch(path.name)] == []
        lines = [line for line in terminal.text.splitlines() if line.startswith("interrupted")]
        assert len(lines) == 1, terminal.text
        assert terminal.text.rstrip().endswith(lines[0])
        return lines[0]

    def _files(self) -> list[str]:
        root = self.checkout.root
        found = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
        return sorted(
            str(path)
            for path in found
            if path.parts[0] not in (".gpufleet", "home", "tmp") and "__pycache__" not in path.parts
        )

    def _processes(self) -> list[str]:
        """The command lines of the processes that name the checkout's folder."""
        lines = []
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                lines.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue
        return [line for line in lines if str(self.checkout.root) in line]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    checkout = make_checkout(tmp_path)
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    (tmp_path / "home").mkdir()
    checkout.env |= {"TMPDIR": str(scratch), "ANSIBLE_HOME": str(tmp_path / "home")}
    yield Place(checkout, scratch)
    checkout.run("sandbox", "stop")


def same(command: str, how: str = "again") -> str:
    """The end of the line."""
    return f"run the same command {how}: `gpufleet {command}`"


@pytest.mark.parametrize(
    "command",
    ["configure sandbox", "verify sandbox", "catalog refresh", "sandbox start", "check sandbox"],
)
def test_ctrl_c_before_a_command_starts_prints_one_line_and_exits_130(
    shared_checkout: Checkout, command: str
) -> None:
    terminal = Terminal(shared_checkout, *command.split())
    terminal.wait(lambda: terminal.catches(signal.SIGTERM))
    terminal.ctrl_c()
    assert terminal.ended() == 130, terminal.text
    (line,) = [line for line in terminal.text.replace("^C", "").splitlines() if line.strip()]
    assert line.startswith("interrupted; ")
    assert line.endswith(same(command))


@pytest.mark.parametrize("sign", SIGNALS)
@pytest.mark.parametrize(
    ("command", "reported"),
    [
        (
            "configure sandbox --skip-preflight --yes",
            "interrupted; finished tasks are kept on the hosts; "
            + same("configure sandbox --skip-preflight --yes --resume", "to continue"),
        ),
        ("verify sandbox", "interrupted; nothing was changed; " + same("verify sandbox")),
        (
            "operate sandbox power_cap -o watts=300 --yes",
            "interrupted; finished tasks are kept on the hosts; "
            + same("operate sandbox power_cap -o watts=300 --yes --resume", "to continue"),
        ),
    ],
)
def test_interrupted_playbook_ends_with_its_workers(
    place: Place, command: str, reported: str, sign: signal.Signals
) -> None:
    playbook = place.scratch / "ansible-playbook"
    write_playbook(playbook)
    place.checkout.env |= SECRETS | {"TEST_PLAYBOOK": str(playbook)}
    terminal = place.start(*command.split(), module="tests.e2e.stand_ins")
    terminal.wait(lambda: playbook.with_name("ansible-playbook.working").exists())
    assert place.interrupt(terminal, sign) == reported


@pytest.mark.parametrize("sign", SIGNALS)
def test_interrupted_refresh_keeps_the_catalog(place: Place, sign: signal.Signals) -> None:
    with contextlib.ExitStack() as open_sockets:
        server = open_sockets.enter_context(socket.create_server(("127.0.0.1", 0)))
        server.setblocking(False)
        place.checkout.env |= {
            "AWS_ENDPOINT_URL_STS": f"http://127.0.0.1:{server.getsockname()[1]}",
            "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }
        terminal = place.start("catalog", "refresh")
        terminal.wait(lambda: _accepted(server, open_sockets))
        reported = place.interrupt(terminal, sign)
    assert reported == "interrupted; the catalog is unchanged; " + same("catalog refresh")
    assert not (place.checkout.root / ".gpufleet" / "catalog").exists()


def _accepted(server: socket.socket, open_sockets: contextlib.ExitStack) -> bool:
    try:
        open_sockets.enter_context(server.accept()[0])
    except BlockingIOError:
        return False
    return True


@pytest.mark.parametrize("sign", SIGNALS)
@pytest.mark.parametrize(
    ("command", "reported"),
    [
        (
            "sandbox start",
            "interrupted; the resources of the emulated AWS are kept; " + same("sandbox start"),
        ),
        ("up sandbox --yes", "interrupted; the state is kept; " + same("up sandbox --yes", "to continue")),
        ("check sandbox", "interrupted; nothing was changed; " + same("check sandbox")),
    ],
)
def test_emulated_aws_interrupted_at_start_is_stopped(
    place: Place, command: str, reported: str, sign: signal.Signals
) -> None:
    never, mark = place.scratch / "never", place.scratch / "starting"
    never.mkdir()
    (never / "sitecustomize.py").write_text(_NEVER_STARTS.format(mark=str(mark)))
    place.checkout.env["PYTHONPATH"] = os.pathsep.join([str(never), os.environ.get("PYTHONPATH", "")])
    terminal = place.start(*command.split())
    terminal.wait(mark.exists)
    assert place.interrupt(terminal, sign) == reported
    assert not (place.checkout.root / ".gpufleet" / "sandbox" / "server.json").exists()


@pytest.mark.parametrize("sign", SIGNALS)
@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("check sandbox", "nothing was changed"),
        ("report sandbox --html page.html", "no page was written"),
    ],
)
def test_interrupted_verdict_removes_its_temporary_account(
    place: Place, command: str, kept: str, sign: signal.Signals
) -> None:
    terminal = place.start(*command.split())
    terminal.wait(lambda: "previewing sandbox" in terminal.text)
    assert list(place.scratch.iterdir())
    assert place.interrupt(terminal, sign) == f"interrupted; {kept}; {same(command)}"


@pytest.mark.parametrize("sign", SIGNALS)
@pytest.mark.parametrize("question", ["Template", "AWS regions"])
def test_interrupted_question_counts_as_no_answer(place: Place, question: str, sign: signal.Signals) -> None:
    terminal = place.start("init", "new")
    wait_for_question(terminal, lambda: "Template" in terminal.text)
    if question != "Template":
        terminal.type("hybrid\n")
        wait_for_question(terminal, lambda: question in terminal.text)
    assert place.interrupt(terminal, sign) == f"interrupted; nothing was written; {same('init new')}"


def wait_for_question(terminal: Terminal, asked: Callable[[], bool]) -> None:
    """Wait until a question stands on the screen."""
    terminal.wait(lambda: asked() and terminal.text.endswith("]: "))
