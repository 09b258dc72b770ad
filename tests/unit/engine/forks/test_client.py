"""Forked processes behave like started ones: environment, end, and cases that are not forked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpufleet.engine.forks import ForkServer, Process, end, prepare
from gpufleet.engine.plugins import ProcessGroup

HERE = "tests.unit.engine.forks"
# Everything that a program can see of its start.
TELL = """
import json, os, signal, sys
print(json.dumps({
    "arguments": sys.argv,
    "original": sys.orig_argv[1:],
    "path": sys.path,
    "main": sorted(name for name in vars(sys.modules["__main__"]) if name not in ("json", "os", "signal")),
    "file": globals().get("__file__"),
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "leads": os.getsid(0) == os.getpid() == os.getpgid(0),
    "open": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1],
    "input": sys.stdin.read(),
    "signals": [str(signal.getsignal(s)) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
    "wakes": signal.set_wakeup_fd(-1),
    "collects": __import__("gc").isenabled(),
    "buffers": sys.stdout.write_through,
    "seeks": [sys.stdout.seekable(), sys.__stdout__.seekable(), sys.stderr.seekable()],
    "optimized": sys.flags.optimize,
}))
print("besides", file=sys.stderr)
sys.exit(7)
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "COUNTED_IN": str(tmp_path / "counted")}


@pytest.fixture
def server(env: dict[str, str]) -> Iterator[ForkServer]:
    server = ForkServer(env)
    yield server
    server.close()


def ended(process: Process | None) -> tuple[int, str, str]:
    assert process is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr:
        reported = process.stdout.read(), process.stderr.read()
    return process.wait(timeout=10), *reported


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def gone(pid: int) -> bool:
    return not Path("/proc", str(pid)).exists() or ") Z" in Path(f"/proc/{pid}/stat").read_text()


def started(command: list[str], env: Mapping[str, str], cwd: Path) -> tuple[int, str, str]:
    group = ProcessGroup()
    try:
        return ended(group.start(command, env=env, cwd=cwd))
    finally:
        group.close()


@pytest.fixture(params=["script", "-m", "-c"])
def command(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """One of the ways to run a program, with two arguments. `-m` finds it in the folder that it runs in."""
    (tmp_path / "script" / "package").mkdir(parents=True)
    for name in ("program.py", "package/__main__.py", "package/__init__.py"):
        (tmp_path / "script" / name).write_text(TELL if name != "package/__init__.py" else "")
    what = {"script": [str(tmp_path / "script" / "program.py")], "-m": ["-m", "package"], "-c": ["-c", TELL]}
    return [sys.executable, "-u", *what[request.param], "one", "--two"]


def test_fork_sees_what_a_started_process_sees(
    server: ForkServer, env: dict[str, str], tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / "found").mkdir()
    env |= {"PYTHONPATH": f"{tmp_path / 'found'}{os.pathsep}{tmp_path}", "TZ": "Asia/Tokyo", "A": "ü\n="}
    del env["HOME"]
    folder = tmp_path / "script"
    server.load(["pulumi", "pydantic.main"])
    one, other = (ended(server.start(command, env, folder)), started(command, env, folder))
    assert one[0] == other[0] == 7
    assert one[2] == other[2] == "besides\n"
    forked, plain = json.loads(one[1]), json.loads(other[1])
    assert forked == plain
    assert forked["open"] == [0, 1, 2]


def test_shared_modules_are_imported_once(server: ForkServer, env: dict[str, str], tmp_path: Path) -> None:
    server.load([f"{HERE}.counts_imports"])
    server.load([f"{HERE}.counts_imports"])
    code = f"import {HERE}.counts_imports, os; print(os.getpid())"
    processes = {ended(server.start([sys.executable, "-c", code], env, tmp_path))[1] for _ in range(3)}
    assert len(processes) == 3
    (importer,) = (tmp_path / "counted").read_text().splitlines()
    assert importer not in processes


def test_lazy_package_is_loaded_completely(server: ForkServer, env: dict[str, str], tmp_path: Path) -> None:
    server.load(["pulumi_aws.sns"])
    code = "import sys; print('pulumi_aws.sns.topic' in sys.modules)"
    assert ended(server.start([sys.executable, "-c", code], env, tmp_path))[1] == "True\n"


def test_failed_import_is_reported_where_it_is_needed(
    server: ForkServer, env: dict[str, str], tmp_path: Path
) -> None:
    server.load(["no_such_module"])
    code, _, reported = ended(server.start([sys.executable, "-c", "import no_such_module"], env, tmp_path))
    assert code == 1
    assert reported.endswith("ModuleNotFoundError: No module named 'no_such_module'\n")


def test_fork_has_the_process_name_of_its_program(
    server: ForkServer, env: dict[str, str], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", "print(open('/proc/self/cmdline').read())", "one", "two"]
    assert " ".join(command) in ended(server.start(command, env, tmp_path))[1]


def test_fork_ends_with_a_signal_to_its_group(
    server: ForkServer, env: dict[str, str], tmp_path: Path
) -> None:
    process = server.start([sys.executable, "-c", "import time; time.sleep(600)"], env, tmp_path)
    assert process is not None
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.05)
    os.killpg(process.pid, signal.SIGTERM)
    assert ended(process)[0] == -signal.SIGTERM == process.poll()


def test_fork_leads_its_group_before_its_pid_is_returned(
    server: ForkServer, env: dict[str, str], tmp_path: Path
) -> None:
    for _ in range(20):
        process = server.start([sys.executable, "-c", "import time; time.sleep(600)"], env, tmp_path)
        assert process is not None
        os.killpg(process.pid, signal.SIGKILL)
        assert ended(process)[0] == -signal.SIGKILL


def test_many_processes_are_forked_at_once(server: ForkServer, env: dict[str, str], tmp_path: Path) -> None:
    group = ProcessGroup(forks=server)
    code = "import os, sys; print(os.environ['TEXT'], sys.argv[1]); sys.exit(int(sys.argv[1]))"
    processes = [
        group.start([sys.executable, "-c", code, str(i)], env={**env, "TEXT": f"number {i}"}, cwd=tmp_path)
        for i in range(40)
    ]
    try:
        for i, process in enumerate(processes):
            assert ended(process) == (i, f"number {i} {i}\n", "")
    finally:
        group.close()


def test_environment_of_any_size_arrives(server: ForkServer, env: dict[str, str], tmp_path: Path) -> None:
    large = {f"V{i}": str(i) * 50_000 for i in range(1, 21)}
    code = "import os; print(sum(len(value) for value in os.environ.values() if len(value) >= 50_000))"
    assert ended(server.start([sys.executable, "-c", code], {**env, **large}, tmp_path))[1] == (
        f"{sum(map(len, large.values()))}\n"
    )


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (["/bin/sh", "-c", "exit 7"], {}),
        ([sys.executable, "-O", "-c", "pass"], {}),
        ([sys.executable], {}),
        ([sys.executable, "-m"], {}),
        ([sys.executable, "-c", "pass"], {"PYTHONOPTIMIZE": "1"}),
        ([sys.executable, "-c", "pass"], {"LC_ALL": "C"}),
        ([sys.executable, "-c", "pass"], {"LD_PRELOAD": "libfaketime.so.1"}),
    ],
)
def test_options_that_need_a_start_are_not_forked(
    server: ForkServer, env: dict[str, str], tmp_path: Path, words: list[str], more: dict[str, str]
) -> None:
    assert server.start(words, env | more, tmp_path) is None


@pytest.mark.parametrize("name", ["pydantic/__init__.py", "pydantic.py", "sitecustomize.py"])
def test_path_that_shadows_an_imported_module_is_not_forked(
    server: ForkServer, env: dict[str, str], tmp_path: Path, name: str
) -> None:
    server.load(["pydantic.main"])
    env["PYTHONPATH"] = str(tmp_path)
    assert ended(server.start([sys.executable, "-c", "pass"], env, tmp_path)) == (0, "", "")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    assert server.start([sys.executable, "-c", "pass"], env, tmp_path) is None


def test_missing_working_folder_is_reported_by_the_start(
    server: ForkServer, env: dict[str, str], tmp_path: Path
) -> None:
    assert server.start([sys.executable, "-c", "pass"], env, tmp_path / "none") is None


def test_process_with_threads_does_not_fork(server: ForkServer, env: dict[str, str], tmp_path: Path) -> None:
    assert ended(server.start([sys.executable, "-c", "pass"], env, tmp_path)) == (0, "", "")
    server.load([f"{HERE}.starts_a_thread"])
    assert server.start([sys.executable, "-c", "pass"], env, tmp_path) is None
    group = ProcessGroup(forks=server)
    try:
        assert ended(group.start([sys.executable, "-c", "print(1)"], env=env, cwd=tmp_path))[:2] == (0, "1\n")
    finally:
        group.close()


def test_forks_end_with_their_server_and_the_next_process_is_started(
    env: dict[str, str], tmp_path: Path
) -> None:
    server = ForkServer(env)
    code = "import os, time; print(os.getppid(), flush=True); time.sleep(600)"
    process = server.start([sys.executable, "-c", code], env, tmp_path)
    assert process is not None
    assert process.stdout is not None
    parent = int(process.stdout.readline())
    os.kill(parent, signal.SIGKILL)
    assert ended(process)[0] == -signal.SIGKILL
    wait_until(lambda: gone(process.pid))
    wait_until(lambda: not server.alive)
    assert server.start([sys.executable, "-c", "pass"], env, tmp_path) is None
    server.close()


def test_process_has_one_server_per_environment_and_starts_another_if_it_is_gone(
    env: dict[str, str], tmp_path: Path
) -> None:
    server = prepare(env)
    assert server is not None
    assert prepare({**env, "OTHER": "1"}) is server
    other = prepare({**env, "LC_ALL": "C"})
    assert other is not None
    assert other is not server
    end()
    assert not server.alive
    assert not other.alive
    after = prepare(env)
    assert after is not None
    assert after is not server
    assert ended(after.start([sys.executable, "-c", "print(2)"], dict(os.environ), tmp_path))[1] == "2\n"


OWNER = """
import os, sys, time
from pathlib import Path
from gpufleet.engine.forks import prepare
from gpufleet.engine.plugins import ProcessGroup
server = prepare(os.environ)
process = ProcessGroup(forks=server).start(
    [sys.executable, "-c", "import os, time; print(os.getppid(), flush=True); time.sleep(600)"],
    env=os.environ, cwd=Path("."),
)
print(process.pid, process.stdout.readline(), flush=True)
if sys.argv[1] == "stay":
    time.sleep(600)
"""


@pytest.mark.parametrize("how", ["stay", "end"])
def test_server_and_its_forks_end_with_their_client(how: str) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER, how], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pids: list[Any] = [int(word) for word in owner.stdout.readline().split()]
        if how == "stay":
            assert not any(map(gone, pids))
            owner.send_signal(signal.SIGKILL)
    assert len(pids) == 2
    wait_until(lambda: all(map(gone, pids)))
