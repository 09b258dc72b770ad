"""Replacements of mitogen's functions in gpufleet's strategy plugin, compared with the originals."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpufleet.racks.configure.transport import transport_environment

ROOT = Path(__file__).resolve().parents[4]
# In a separate process: both Ansible's loaders and the plugin change imports.
COMPARED = """
import importlib.util, sys
from pathlib import Path
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader()
import ansible.modules
from ansible_mitogen import loaders, module_finder
theirs = module_finder.scan
spec = importlib.util.spec_from_file_location("plugin", sys.argv[1])
spec.loader.exec_module(importlib.util.module_from_spec(spec))
ours = module_finder.scan
assert ours is not theirs
utilities = (str(Path(ansible.modules.__file__).parents[1] / "module_utils"),)
modules = [*Path(sys.argv[2]).glob("*.py"), *Path(ansible.modules.__file__).parent.glob("[a-d]*.py")]
for module in modules:
    path = str(module)
    assert theirs("ansible.module", path, utilities) == ours("ansible.module", path, utilities), path
print(len(modules))
"""

PLUGIN = ROOT / "gpufleet" / "racks" / "configure" / "strategy" / "mitogen_unpinned.py"
LOADED = """
import importlib.util, json, sys
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader()
spec = importlib.util.spec_from_file_location("plugin", sys.argv[1])
plugin = importlib.util.module_from_spec(spec)
spec.loader.exec_module(plugin)
"""
HOPS = """
def hops(method="ssh", then="sudo", password=None, flags=("-H", "-S", "-n")):
    login = {"hostname": "a", "username": "ubuntu", "python_path": ["/usr/bin/python3"]}
    root = {"username": "root", "password": password, "sudo_path": None, "sudo_args": list(flags),
            "python_path": ["/usr/bin/python3"]}
    return plugin._one_hop(({"method": method, "kwargs": login}, {"method": then, "kwargs": root}))
one, = hops()
print(json.dumps([one["method"], one["kwargs"]["username"], one["kwargs"]["python_path"]]))
others = [hops(password="x"), hops(flags=("-H", "-E")), hops(then="su"), hops(method="local")]
print(json.dumps([len(other) for other in others]))
"""
GONE = """
import mitogen.service
class Router:
    def __init__(self, stream): self.stream = stream
    def stream_by_id(self, number): return self.stream
class Service:
    def __init__(self, stream): self.router = Router(stream)
class Context:
    context_id = 7
assert mitogen.service.PushFileService._forward(Service(None), Context, "/a") is None
try:
    mitogen.service.PushFileService._forward(Service(object()), Context, "/a")
except AttributeError as error:
    print("raised")
"""

CALLED = """
from ansible.errors import AnsibleConnectionFailure
class Connection:
    context = login_context = "root"
    def __init__(self, refuses): self.refuses, self.calls = refuses, 0
    def get_task_var(self, name): return {"inventory_hostname": "dgx01"}[name]
def connect(connection, stack):
    connection.calls += 1
    if connection.calls <= connection.refuses:
        raise AnsibleConnectionFailure("EOF on stream")
plugin._connect, plugin.time.sleep = connect, lambda seconds: slept.append(seconds)
def calls(refuses, **more):
    connection = Connection(refuses)
    vars(connection).update(more)
    try:
        plugin._connect_by(connection, ())
    except AnsibleConnectionFailure:
        return -connection.calls
    return connection.calls
slept = []
first = calls(1)
plugin._Connection._answered, plugin._Connection._retries = {"dgx01": 1}, plugin._retries_of_ssh()
print(json.dumps([first, calls(0), calls(2), calls(9), calls(9, _ended=True)]))
print(json.dumps(slept))
"""

UNHEARD = """
import logging, os
import ansible_mitogen.logging
ansible_mitogen.logging.setup()
try:
    os.write(2, b"is anybody there?")
except OSError:
    print("no reader")
logging.getLogger("mitogen").warning("a line")
print("goes on")
# Some versions of Python end with 120 where the line left in the buffer cannot be written at their end.
sys.stderr = None
"""


def printed(program: str, errors: int = subprocess.PIPE) -> list[str]:
    """The lines of a program that has the plugin as `plugin`."""
    command = [sys.executable, "-c", LOADED + program, str(PLUGIN)]
    settings = os.environ | {"ANSIBLE_CONFIG": str(ROOT / "ansible" / "ansible.cfg")}
    done = subprocess.run(
        command, env=settings, stdout=subprocess.PIPE, stderr=errors, text=True, check=False
    )
    assert done.returncode == 0, (done.stderr or "")[-2000:]
    return done.stdout.splitlines()


def test_ssh_starts_the_root_interpreter_with_passwordless_sudo() -> None:
    one, others = map(json.loads, printed(HOPS))
    assert one == ["ssh", "ubuntu", ["sudo", "-n", "-H", "-u", "root", "/usr/bin/python3"]]
    assert others == [2, 2, 2, 2]  # mitogen's own way: with a password, with other flags, by another program


def test_host_that_has_answered_is_called_as_often_as_the_settings_of_ssh_say() -> None:
    counts, slept = map(json.loads, printed(CALLED))
    # Negative: no connection in the end.
    assert counts == [-1, 1, 3, -3, -1]
    assert slept == [1, 2, 1, 2]


def test_lost_host_gets_no_file_and_other_errors_are_reported() -> None:
    assert printed(GONE) == ["raised"]


def test_output_to_a_closed_terminal_does_not_stop_mitogen() -> None:
    controlling, terminal = os.openpty()
    os.close(controlling)
    try:
        assert printed(UNHEARD, errors=terminal) == ["no reader", "goes on"]
    finally:
        os.close(terminal)


def test_module_carries_the_dependencies_that_mitogen_finds() -> None:
    collections = ROOT / "gpufleet" / "collections"
    modules = collections / "ansible_collections" / "gpufleet" / "rack" / "plugins" / "modules"
    done = subprocess.run(
        [sys.executable, "-c", COMPARED, str(PLUGIN), str(modules)],
        env=os.environ | {"ANSIBLE_COLLECTIONS_PATH": str(collections)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 40


BESIDE = Path(__file__).parent / "strategy"


def played(folder: Path, environment: dict[str, str]) -> tuple[int, list[dict[str, Any]]]:
    """Exit code, and Ansible's events for the playbook on two hosts (this machine), by host and time."""
    shutil.copytree(BESIDE, folder)
    local = f"ansible_connection=local ansible_python_interpreter={sys.executable}"
    (folder / "hosts").write_text(f"one {local}\ntwo {local}\n")
    settings = {
        "ANSIBLE_STDOUT_CALLBACK": "record",
        "ANSIBLE_CALLBACK_PLUGINS": str(folder),
        "ANSIBLE_HOME": str(folder / "home"),
    }
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts", "book.yml"],
        cwd=folder,
        env=os.environ | settings | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    reported = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert reported, done.stdout + done.stderr
    return done.returncode, sorted(reported, key=lambda each: each["host"])


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """The playbook with Ansible's own strategy, and with ours."""
    theirs = played(tmp_path_factory.mktemp("linear") / "run", {"ANSIBLE_STRATEGY": "linear"})
    ours = played(tmp_path_factory.mktemp("ours") / "run", transport_environment("mitogen"))
    yield theirs, ours


def without_processes(reported: Any) -> Any:
    """The events without process IDs and without the path of the playbook."""
    if isinstance(reported, dict):
        numbers = ("first", "second", "stdout", "stdout_lines")
        return {key: "" if key in numbers else without_processes(value) for key, value in reported.items()}
    if isinstance(reported, list):
        return [without_processes(each) for each in reported]
    return re.sub(r"/[^ ]*/run/", "/", reported) if isinstance(reported, str) else reported


def test_local_tasks_end_as_with_the_strategy_of_ansible(both: tuple[Any, Any]) -> None:
    theirs, ours = both
    assert theirs[0] == ours[0] == 2
    assert len(theirs[1]) > 60
    for one, other in zip(without_processes(theirs[1]), without_processes(ours[1]), strict=True):
        assert one == other


def test_local_tasks_get_no_worker_and_others_do(both: tuple[Any, Any]) -> None:
    def of(reported: list[dict[str, Any]], task: str) -> set[int]:
        facts = [
            each["result"]["ansible_facts"]
            for each in reported
            if each["event"] == "ok" and each["task"] == task
        ]
        return {int(value) for fact in facts for name, value in fact.items() if name in ("first", "second")}

    (_, theirs), (_, ours) = both
    assert len(of(theirs, "Remember who works") | of(theirs, "Work again")) == 4
    here = of(ours, "Remember who works") | of(ours, "Work again")
    assert len(here) == 1
    workers = {
        int(each["result"]["stdout"])
        for each in ours
        if each["event"] == "ok" and each["task"] == "Have a worker"
    }
    assert workers and not workers & here
