"""The process that tests/warm_ansible starts, and its forks: each serves a configuration or runs a playbook.

Run as a script, with the number of a listening socket and that of a pipe that closes with its owner.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import setproctitle

# They read no configuration.
FREE = (
    *("cryptography.hazmat.primitives.serialization", "jinja2.nativetypes", "yaml", "urllib.request"),
    *("multiprocessing.queues", "tempfile", "argparse", "getpass", "logging.handlers"),
    *("mitogen.master", "mitogen.service", "mitogen.unix", "mitogen.utils", "mitogen.fork"),
    *("ansible.module_utils.basic", "ansible.module_utils.urls", "ansible.module_utils.facts"),
    "ansible.config.manager",
)
CONFIGURED = (
    *("ansible.cli.playbook", "ansible.plugins.strategy.linear", "ansible.plugins.inventory.yaml"),
    *("ansible.plugins.action.normal", "ansible.plugins.action.command", "ansible.plugins.action.template"),
)
# What Ansible reads for each run, and never while it is imported.
OF_A_RUN = {"ANSIBLE_LOCAL_TEMP", "ANSIBLE_VAULT_PASSWORD_FILE"}
# What an interpreter reads when it starts: a fork cannot have other values.
AT_START = ("PYTHON", "LD_", "LC_", "LANG", "OPENSSL_", "MALLOC_")

Key = frozenset[tuple[str, str]]


class Asked:
    """A playbook to run: what its process gets, and the link to the process that waits for it."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        self.descriptors = descriptors
        self.link, file, self.mounts, *self.streams = descriptors
        with Path("/proc/self/fd", str(file)).open("rb") as written:
            self.arguments, self.environment, self.folder = json.load(written)

    @property
    def configuration(self) -> Key:
        """What a process that has imported Ansible cannot change."""
        file = Path(self.environment.get("ANSIBLE_CONFIG", ""))
        written = str(file.stat().st_mtime_ns) if file.is_file() else ""
        names = {name for name in self.environment if name.startswith("ANSIBLE_")} - OF_A_RUN
        return frozenset((name, self.environment[name]) for name in names) | {("", written)}

    def enter(self) -> None:
        """Take over environment and folder."""
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(self.folder)

    def close(self) -> None:
        """Leave it to another process."""
        for number in self.descriptors:
            os.close(number)


def serve(listener: socket.socket, owner: int) -> Asked:
    """Have playbooks run until the owner has ended. Return in each process that runs one."""
    once: set[Key] = set()
    configured: dict[Key, socket.socket] = {}
    mine = at_start(os.environ)
    while True:
        if owner in select.select([listener, owner], [], [])[0]:
            os._exit(0)
        link, _ = listener.accept()
        _, descriptors, _, _ = socket.recv_fds(link, 32, 5)
        if not descriptors:  # who has asked is gone
            link.close()
            continue
        asked = Asked([link.detach(), *descriptors])
        key = asked.configuration
        # Many configurations have a single run: the first one's process serves no others.
        if at_start(asked.environment) == mine and key not in once:
            once.add(key)
            if os.fork() == 0:
                listener.close()
                return asked
        elif key in once:
            if key not in configured:
                configured[key], theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                if os.fork() == 0:
                    for other in (listener, *configured.values()):
                        other.close()
                    return serve_configured(theirs, asked)
                theirs.close()
            socket.send_fds(configured[key], [b"run"], asked.descriptors)
        asked.close()


def serve_configured(link: socket.socket, first: Asked) -> Asked:
    """Import Ansible with the configuration of `first`. Return in each process that runs a playbook."""
    first.enter()
    first.close()
    load(CONFIGURED)
    fill_caches()
    gc.freeze()
    while True:
        _, descriptors, _, _ = socket.recv_fds(link, 32, 6)
        if not descriptors:  # the server has ended
            os._exit(0)
        asked = Asked(descriptors)
        if os.fork() == 0:
            link.close()
            return asked
        asked.close()


def at_start(environment: Any) -> dict[str, str]:
    """Return what an interpreter reads when it starts."""
    return {name: value for name, value in environment.items() if name.startswith(AT_START)}


def load(modules: tuple[str, ...]) -> None:
    """Import modules."""
    for name in modules:
        importlib.import_module(name)


def fill_caches() -> None:
    """Do what each run does in the same way: load plugins, and prepare what mitogen sends to hosts."""
    loader: Any = importlib.import_module("ansible.plugins.loader")
    loader.init_plugin_loader()
    # A run would warn that this was done before.
    loader._configure_collection_loader = lambda *_: None
    strategy = os.environ.get("ANSIBLE_STRATEGY", "linear")
    loader.strategy_loader.get(strategy, class_only=True)
    loader.filter_loader.get("ansible.builtin.upper")
    loader.test_loader.get("ansible.builtin.defined")
    if "mitogen" not in strategy:
        return
    load(("ansible_mitogen.services", "ansible_mitogen.target", "ansible_mitogen.runner"))
    master: Any = importlib.import_module("mitogen.master")
    process: Any = importlib.import_module("ansible_mitogen.process")
    minify: Any = importlib.import_module("mitogen.minify")
    minify.minimize_source = functools.cache(minify.minimize_source)
    master._get_core_source()
    set_up, ready = (
        process._setup_responder,
        master.ModuleResponder(_Router(), master.mitogen.core.ImportPolicy()),
    )
    set_up(ready)
    for root in ("ansible_mitogen.target", "ansible_mitogen.runner"):
        for name in (root, *ready._finder.find_related(root)):
            if not ready.policy.denied(name):
                ready._build_tuple(name)

    def prepared(responder: Any) -> None:
        set_up(responder)
        responder._cache.update(ready._cache)
        responder._finder._related_cache.update(ready._finder._related_cache)

    process._setup_responder = prepared


class _Router:
    """The router of a responder that is asked nothing."""

    def add_handler(self, **_: Any) -> None:
        """Take no messages."""


def play(asked: Asked) -> None:
    """Run ansible-playbook to its end, in the mount namespace and with the streams of who has asked."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    mine = Path("/proc/self/ns/mnt").stat().st_ino
    if os.fstat(asked.mounts).st_ino != mine and ctypes.CDLL(None).setns(asked.mounts, 0) != 0:
        os._exit(1)  # it has begun nothing: the program runs instead
    link = os.dup(asked.link)
    for number, stream in enumerate(asked.streams):
        os.dup2(stream, number)
    asked.close()
    asked.enter()
    reread()
    script = shutil.which("ansible-playbook")
    assert script is not None
    sys.argv = [script, *asked.arguments]
    os.write(link, b"begun")
    code: Any = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        code = ended.code
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os.write(link, str(int(code or 0)).encode())
    os._exit(0)


def reread() -> None:
    """Give Ansible the settings of this run, if it has read its configuration already."""
    constants: Any = sys.modules.get("ansible.constants")
    settings = constants.config.get_configuration_definitions() if constants else {}
    for name, definition in settings.items():
        if OF_A_RUN & {each["name"] for each in definition.get("env", ())}:
            setattr(constants, name, constants.config.get_config_value(name, variables=vars(constants)))


if __name__ == "__main__":
    # Hides the mark of tests/leftovers.py, too: this process is still there when it looks.
    setproctitle.setproctitle("gpufleet-test-ansible")
    del sys.path[0]
    gc.disable()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    load(FREE)
    gc.freeze()
    play(serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])))
