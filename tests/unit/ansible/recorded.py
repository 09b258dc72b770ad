"""Playbooks run by Ansible on hosts that do not exist. Modules of the collection record their arguments.

Real are: playbooks, roles, the inventory of a fleet file, filters and Ansible itself. Modules return prepared
results and fail if the test says so, so that order, batches, conditions and behavior after a failure
are tested without a host.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.rack.lab import plan_fleet
from tests.unit.ansible.rendering import ANSIBLE, facts

RACK = ANSIBLE
# An Ansible action replaces each module: it runs within Ansible, without a host.
ACTION = """\
import importlib, json, os, yaml
from ansible.plugins.action import ActionBase

def real(name, arguments, check):
    module = importlib.import_module("ansible_collections.gpufleet.rack.plugins.modules." + name)
    options = yaml.safe_load(module.DOCUMENTATION)["options"]
    params = {option: about.get("default") for option, about in options.items()}
    try:
        return module.work({**params, **arguments}, check)
    except module.RefusalError as refusal:
        return {"failed": True, "msg": str(refusal)}

class ActionModule(ActionBase):
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        name, folder = "%s", os.environ["RECORDED"]
        host = str(self._task.delegate_to or task_vars["inventory_hostname"])
        arguments = dict(self._task.args)
        note = {"module": name, "host": host, "arguments": arguments, "check": self._task.check_mode}
        with open(os.path.join(folder, "notes"), "a") as notes:
            notes.write(json.dumps(note, default=str) + chr(10))
        answer = {"changed": False}
        if os.path.exists(os.path.join(folder, "real-" + name)):
            return real(name, arguments, self._task.check_mode)
        for rule in json.load(open(os.path.join(folder, "answers.json"))):
            wanted = rule.get("arguments", {}).items()
            if rule["module"] == name and rule.get("host", host) == host and wanted <= arguments.items():
                answer.update(rule["answer"])
        return answer
"""


@dataclass(frozen=True)
class TaskCall:
    """One task on one host: the module's short name, the host that did it, its arguments."""

    module: str
    host: str
    arguments: Mapping[str, Any]
    check: bool


@dataclass(frozen=True)
class Answer:
    """Result of a module, on one host or all, for at least these arguments. Later ones add to earlier."""

    module: str
    answer: Mapping[str, Any]
    host: str | None = None
    arguments: Mapping[str, Any] | None = None

    def rule(self) -> dict[str, Any]:
        """In the format of the stand-in."""
        found = {
            "module": self.module,
            "answer": dict(self.answer),
            "host": self.host,
            "arguments": self.arguments,
        }
        return {name: value for name, value in found.items() if value is not None}


class Recorder:
    """The hosts of a fleet. `real` are modules whose `work` runs on this machine."""

    def __init__(self, folder: Path, fleet: str, real: Sequence[str] = ()) -> None:
        self.folder = folder
        (folder / "fleet.yaml").write_text(fleet)
        (folder / "inventory.yml").write_text(plan_fleet(folder / "fleet.yaml")[1])
        copy = folder / "collections" / "ansible_collections" / "gpufleet" / "rack"
        for kind in ("modules", "action"):
            (copy / "plugins" / kind).mkdir(parents=True)
        for name in ("meta", "galaxy.yml", "roles", "plugins/module_utils", "plugins/filter"):
            (copy / name).symlink_to(RACK / name)
        for path in (RACK / "plugins" / "modules").glob("*.py"):
            (copy / "plugins" / "modules" / path.name).symlink_to(path)
            (copy / "plugins" / "action" / path.name).write_text(ACTION % path.stem)
        for name_of in real:
            (folder / f"real-{name_of}").touch()

    def play(
        self,
        playbook: str,
        *answers: Answer,
        check: bool = False,
        limit: str = "",
        **variables: Any,
    ) -> tuple[list[TaskCall], dict[str, set[str]], str]:
        """Task calls in order, facts of hosts set to true by name, and Ansible's output."""
        known = Answer("system", {"ansible_facts": facts("ubuntu_24_04")})
        (self.folder / "notes").write_text("")
        (self.folder / "answers.json").write_text(json.dumps([item.rule() for item in (known, *answers)]))
        here = {
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
        }
        words = ["-v", "-i", "inventory.yml", "-e", json.dumps(here | variables)]
        words += ["--check"] * check + (["--limit", limit] if limit else [])
        done = self._ansible("ansible-playbook", *words, str(ANSIBLE / "playbooks" / playbook))
        notes = [TaskCall(**json.loads(line)) for line in (self.folder / "notes").read_text().splitlines()]
        return notes, _true_facts(done.stdout), done.stdout + done.stderr

    def _ansible(self, *words: str) -> subprocess.CompletedProcess[str]:
        env = os.environ | {
            "ANSIBLE_COLLECTIONS_PATH": str(self.folder / "collections"),
            "ANSIBLE_ROLES_PATH": str(ANSIBLE / "roles"),
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_LOCALHOST_WARNING": "False",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_FORKS": "4",
            "ANSIBLE_PIPELINING": "True",
            "RECORDED": str(self.folder),
        }
        return subprocess.run(
            [str(Path(sys.executable).with_name(words[0])), *words[1:]],
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )


def _true_facts(reported: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in reported.splitlines():
        if line.startswith("ok: [") and '"ansible_facts": {' in line:
            host, _, text = line.removeprefix("ok: [").partition("] => ")
            values = json.loads(text)["ansible_facts"]
            found.setdefault(host, set()).update(name for name, value in values.items() if value is True)
    return found
