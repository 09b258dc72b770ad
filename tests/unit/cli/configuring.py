"""A checkout whose rack hosts are this machine, with a test playbook, for `gpufleet configure`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gpufleet.racks.stragglers import marked_processes
from tests.conftest import ROOT, make_checkout

HOSTS = ("dgx01", "dgx02", "ctl01", "login01")
KEY = "planted-munge-key-4f1c-" + "k" * 40
PASSWORD = "planted-password-77aa-" + "p" * 20
SECRETS = {"GPUFLEET_SECRET_MUNGE_KEY": KEY, "GPUFLEET_SECRET_DATABASE_PASSWORD": PASSWORD}
PLAY = """---
- name: Test
  hosts: onprem
  gather_facts: false
  vars:
    munge_key: "{{{{ lookup('ansible.builtin.env', 'GPUFLEET_SECRET_MUNGE_KEY_LAB') }}}}"
  tasks:
{tasks}
"""
# Over the host's connection, three Pythons on each. Most tests are about results, not about transport:
# for them the controller writes the file.
COPY = """
    - name: Write a file
      ansible.builtin.copy:
        content: "new\\n"
        dest: "{folder}/out-{{{{ inventory_hostname }}}}"
        mode: "0644"
"""
WRITE = """
    - name: Write a file
      write_here:
        content: "new\\n"
        dest: "{folder}/out-{{{{ inventory_hostname }}}}"
"""
WRITE_HERE = """
from pathlib import Path

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        path, text = Path(self._task.args["dest"]), self._task.args["content"]
        before = path.read_text() if path.is_file() else ""
        if before != text and not self._task.check_mode:
            path.write_text(text)
        diff = {"before": before, "after": text, "before_header": str(path), "after_header": str(path)}
        return {"changed": before != text} | ({"diff": diff} if self._task.diff else {})
"""


class Rack:
    """A checkout with a playbook, and the command line as a process with local rack hosts."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.checkout = make_checkout(folder)
        self.out = folder / "out"
        self.out.mkdir()
        self.env = os.environ | self.checkout.env | SECRETS
        self.env |= {"PYTHONPATH": str(ROOT), "ANSIBLE_HOME": str(folder / "ansible-home")}
        (folder / "home").mkdir()
        actions = folder / "ansible" / "playbooks" / "action_plugins"
        actions.mkdir()
        (actions / "write_here.py").write_text(WRITE_HERE)
        for role in ("munge", "slurm_database"):
            (folder / "ansible" / "roles" / role).mkdir(exist_ok=True)

    def play(self, *tasks: str) -> None:
        text = "".join(task.format(folder=self.out) for task in tasks)
        (self.root / "ansible" / "playbooks" / "site.yml").write_text(PLAY.format(tasks=text))

    def command(self, *arguments: str) -> list[str]:
        module = "tests.unit.cli.configure_local"
        return [sys.executable, "-m", module, "configure", "sandbox", "--transport", "ssh", *arguments]

    def run(self, *arguments: str, away: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command("--skip-preflight", *arguments),
            cwd=self.root,
            env=self.env | {"TEST_AWAY": away} | env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def kill_ansible(self, process: subprocess.Popen[str]) -> Any:
        """Kill Ansible of a running run; the run's output. Its own process is ended, too."""
        try:
            playbook = [
                each
                for each in marked_processes(self.last["token"])
                if b"ansible-playbook" in _arguments(each)
            ]
            assert playbook
            os.kill(min(playbook), signal.SIGKILL)
            out, _ = process.communicate(timeout=300)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 4
        return json.loads(out.splitlines()[-1])

    def json(self, *arguments: str, code: int = 0, **options: Any) -> Any:
        done = self.run(*arguments, "--yes", "--json", **options)
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def at_work(self) -> list[bytes]:
        """Arguments of the last run's processes, found by its mark."""
        return [_arguments(each) for each in marked_processes(self.last["token"])]

    @property
    def kept(self) -> Path:
        return self.root / ".gpufleet" / "configure" / "sandbox"

    @property
    def last(self) -> Any:
        return json.loads((self.kept / "last.json").read_text())

    def everything_kept(self) -> Iterator[tuple[Path, str]]:
        for path in (self.root / ".gpufleet").rglob("*"):
            if path.is_file():
                yield path, path.read_text(errors="replace")


def wait_for(what: Callable[[], bool], seconds: float = 240.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _arguments(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""
