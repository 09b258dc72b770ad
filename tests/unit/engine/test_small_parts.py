"""Durations, version ranges, provider messages, plugin look-up, engine selection."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import cast

import pytest

from gpufleet.engine.embedded.engine import EmbeddedEngine
from gpufleet.engine.embedded.engine_service import in_range
from gpufleet.engine.embedded.goal import seconds
from gpufleet.engine.embedded.provider_errors import clean_message
from gpufleet.engine.embedded.urns import matches
from gpufleet.engine.errors import PluginError
from gpufleet.engine.forks import ForkServer
from gpufleet.engine.plugins import PluginProcess, ProcessGroup, plugin_command
from gpufleet.engine.select import select_engine
from gpufleet.errors import InputError


@pytest.mark.parametrize(
    ("text", "value"), [("90s", 90), ("1h30m", 5400), ("500ms", 0.5), ("1.5h", 5400), ("2m0.5s", 120.5)]
)
def test_durations_use_the_go_format(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "10", "5 m", "1d", "m", "-5s"])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        seconds(text)


@pytest.mark.parametrize(
    ("wanted", "holds"),
    [
        (">=3.100.0", True), (">=4", False), (">=3.0.0 <3.200.0", False), ("<3.1.0 || >3.259.9", True),
        ("!3.260.0", False), ("3.260.0", True), (">= 3.1.0 !3.2.0", True),
    ],
)  # fmt: skip
def test_version_ranges(wanted: str, holds: bool) -> None:
    assert in_range((3, 260, 0), wanted) is holds


STACK = 'File "/x/provider.py", line 3, in create\n    raise ValueError\n'


@pytest.mark.parametrize(
    ("raw", "reported"),
    [
        (f"Unexpected <class 'Exception'>: the cloud is full:\n  {STACK}", "the cloud is full"),
        ("Exception calling application: bad size: 3", "bad size: 3"),
        (f"Traceback (most recent call last):\n  {STACK}ValueError: bad\nsecond line", "bad\nsecond line"),
        ("plain: with colon", "plain: with colon"),
        ('see File "x" for more', 'see File "x" for more'),
    ],
)
def test_provider_message_loses_only_its_stack_trace(raw: str, reported: str) -> None:
    assert clean_message(raw) == reported


def test_targets_are_urns_or_patterns() -> None:
    urn = "urn:pulumi:dev::proj::a:b:C::web"
    assert matches(urn, urn)
    assert matches("**::web", urn)
    assert matches("*a:b:C*", urn)
    assert not matches("web", urn)


def test_plugin_is_found_on_path_or_in_the_plugin_folder(tmp_path: Path) -> None:
    def install(folder: Path) -> str:
        folder.mkdir(parents=True)
        file = folder / "pulumi-resource-box"
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
        return str(file)

    env = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    assert plugin_command("box", "", {"box": ["serve", "box"]}, env) == ("serve", "box")
    with pytest.raises(PluginError, match="no provider plugin for package 'box'") as missing:
        plugin_command("box", "1.2.3", {}, env)
    assert "pulumi plugin install resource box 1.2.3" in missing.value.remedy
    old = install(tmp_path / ".pulumi/plugins/resource-box-v1.9.0")
    new = install(tmp_path / ".pulumi/plugins/resource-box-v1.10.0")
    assert plugin_command("box", "", {}, env) == (new,)
    assert plugin_command("box", "1.9.0", {}, env) == (old,)
    on_path = install(tmp_path / "bin")
    assert plugin_command("box", "1.9.0", {}, env) == (on_path,)
    assert plugin_command("pulumi-python", "", {}, env)[1:] == ("-u", "-m", "pulumi.dynamic")


def test_pulumi_cli_is_used_if_it_is_on_path_and_on_request(tmp_path: Path) -> None:
    assert isinstance(select_engine("embedded"), EmbeddedEngine)
    assert select_engine("auto", {"PATH": str(tmp_path)}).name == "embedded"
    executable = tmp_path / "pulumi"
    executable.write_text("#!/bin/sh\n")
    executable.chmod(0o755)
    assert select_engine("auto", {"PATH": str(tmp_path)}).name == "pulumi"
    assert select_engine("pulumi").name == "pulumi"
    with pytest.raises(InputError, match="no engine 'terraform'"):
        select_engine("terraform")


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while not gone(pid):
        assert time.monotonic() < deadline, f"{pid} still runs"
        time.sleep(0.02)


FAMILY = "sleep 600 & echo $!; trap '' TERM; wait; sleep 600"


def test_closing_a_group_ends_grandchildren_that_ignore_signals(tmp_path: Path) -> None:
    group = ProcessGroup()
    process = group.start(["sh", "-c", FAMILY], env=dict(os.environ), cwd=tmp_path)
    assert process.stdout is not None
    grandchild = int(process.stdout.readline())
    group.close()
    wait_until_gone(process.pid)
    wait_until_gone(grandchild)
    with pytest.raises(PluginError, match="the run is ending"):
        group.start(["true"], env={}, cwd=tmp_path)
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        stream.close()


def test_process_that_starts_while_its_group_closes_ends_with_closed_outputs(tmp_path: Path) -> None:
    started: list[subprocess.Popen[str]] = []

    class Forks:
        """Starts a process after an interruption has closed the group."""

        def start(self, command: list[str], env: dict[str, str], cwd: Path) -> subprocess.Popen[str]:
            group.close()
            pipe = subprocess.PIPE
            started.append(
                subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
            )
            return started[0]

    group = ProcessGroup(forks=cast("ForkServer", Forks()))
    with pytest.raises(PluginError, match="the run is ending"):
        group.start(["sleep", "600"], env=dict(os.environ), cwd=tmp_path)
    (process,) = started
    assert process.returncode == -signal.SIGTERM
    assert [stream is not None and stream.closed for stream in (process.stdout, process.stderr)] == [
        True,
        True,
    ]


def test_killed_owner_leaves_no_process(tmp_path: Path) -> None:
    code = (
        "import os, sys, time; from pathlib import Path; from gpufleet.engine.plugins import ProcessGroup\n"
        "p = ProcessGroup().start(['sleep', '600'], env=dict(os.environ), cwd=Path('.'))\n"
        "print(p.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        child = int(owner.stdout.readline())
        assert not gone(child)
        owner.send_signal(signal.SIGKILL)
    wait_until_gone(child)


def test_last_output_of_a_plugin_is_complete(tmp_path: Path) -> None:
    group = ProcessGroup()
    script = "echo 1; for line in out of memory; do echo $line >&2; done; exit 9"

    def slowly(line: str) -> None:
        time.sleep(0.05)

    try:
        plugin = PluginProcess(
            "pack", ["sh", "-c", script], "", group, env=dict(os.environ), cwd=tmp_path, on_line=slowly
        )
        while plugin.alive:
            time.sleep(0.001)
        assert plugin.last_lines() == "out\nof\nmemory"
    finally:
        group.close()


def test_missing_command_is_reported(tmp_path: Path) -> None:
    group = ProcessGroup()
    try:
        with pytest.raises(PluginError, match="/no/such/thing cannot be started"):
            group.start(["/no/such/thing"], env={}, cwd=tmp_path)
    finally:
        group.close()
