"""Requirements of every role on a rack: a correct check run, a real run, a second run without changes.

    done = prove(lab, ["base", "users"], "dgx01,ctl01")
    done = prove(lab, "playbooks/gpu.yml", "rack_gpu_nodes")

Hosts are used as they are; tests that need bare ones reset them first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpufleet.racks.events import TaskEvent
from gpufleet.racks.runner import PlaybookResult
from tests.rack.lab import ROOT, Lab

ANSIBLE = ROOT / "ansible"
# Where roles write. Hosts write elsewhere by themselves.
_KEPT_FOLDERS = ("boot", "etc", "opt", "usr", "var/lib/dpkg")


@dataclass(frozen=True)
class PlayResult:
    """One run: its result, and every task result of every host."""

    result: PlaybookResult
    events: tuple[TaskEvent, ...]

    @property
    def changed(self) -> frozenset[tuple[str, str]]:
        """(host, `role : task`) of every changed task, also in check mode."""
        return frozenset((event.host, task_name(event)) for event in self.events if event.kind == "changed")

    def of(self, task: str, host: str = "") -> list[TaskEvent]:
        """Result of a task, by its name with or without its role, on one host or all."""
        return [
            event
            for event in self.events
            if task in (event.task, task_name(event)) and event.kind != "started" and host in ("", event.host)
        ]

    def messages(self) -> str:
        """Messages of failed tasks, one line each."""
        return "\n".join(
            f"{event.host}: {task_name(event)}: {event.message}" for event in self.result.failures
        )


@dataclass(frozen=True)
class RoleRuns:
    """The runs: with --check --diff, for real, and optionally again."""

    check: PlayResult
    first: PlayResult
    second: PlayResult | None


def task_name(event: TaskEvent) -> str:
    """A task as people see it, with its role."""
    return f"{event.role} : {event.task}" if event.role else event.task


def play(
    lab: Lab,
    what: str | Sequence[str | Mapping[str, Any]],
    hosts: str = "all",
    *,
    tasks_from: str = "",
    variables: Mapping[str, Any] | None = None,
    play_vars: Mapping[str, Any] | None = None,
    **options: Any,
) -> PlayResult:
    """One run of a playbook of `ansible/`, or of roles with the facts that facts.yml gathers.

    Roles are names, or entries as in a play's `roles`. `hosts` is a pattern: the hosts of the play for
    roles, the limit for a playbook. With `tasks_from` the roles' other task file runs, as `verify`.
    `play_vars` are the play's variables and may be templates; `variables` are extra variables, which win
    over the inventory. `options` go to Lab.run (check, diff, forks, environment, secrets, ...).
    """
    events: list[TaskEvent] = []
    options |= {"on_task": events.append, "variables": variables}
    if isinstance(what, str):
        assert play_vars is None and not tasks_from
        result = lab.run(what, limit="" if hosts == "all" else hosts, **options)
    else:
        book = lab.inventory.with_name("roles-under-test.yml")
        plays = _plays(what, hosts, dict(play_vars or {}), tasks_from)
        book.write_text(yaml.safe_dump(plays, sort_keys=False))
        result = lab.run(str(book), **options)
    return PlayResult(result, tuple(events))


def prove(
    lab: Lab,
    what: str | Sequence[str | Mapping[str, Any]],
    hosts: str = "all",
    *,
    again: bool = True,
    **options: Any,
) -> RoleRuns:
    """Run with --check --diff, for real, and again, and assert the requirements of all roles.

    No host fails; the check run changes no file where roles write; it lists exactly the
    tasks that change something on each host; and the second run changes nothing. Takes the arguments of
    `play`. The second run is optional (`again`), for roles that tests/rack/test_site.py
    runs a second time with the same settings.
    """
    before = _files(lab)
    check = play(lab, what, hosts, check=True, diff=True, **options)
    assert not check.result.failures, f"the check run failed:\n{check.messages()}"
    written = _difference(before, _files(lab))
    assert not written, f"the check run wrote:\n{written}"

    first = play(lab, what, hosts, diff=True, **options)
    assert not first.result.failures, f"the run failed:\n{first.messages()}"
    assert check.changed == first.changed, (
        f"announced, and not done:\n{_lines(check.changed - first.changed)}\n"
        f"done, and not announced:\n{_lines(first.changed - check.changed)}"
    )

    if not again:
        return RoleRuns(check, first, None)
    second = play(lab, what, hosts, diff=True, **options)
    assert not second.result.failures, f"the second run failed:\n{second.messages()}"
    assert not second.changed, f"the second run changed:\n{_lines(second.changed, second)}"
    return RoleRuns(check, first, second)


def _plays(
    what: Sequence[str | Mapping[str, Any]], hosts: str, play_vars: dict[str, Any], tasks_from: str
) -> list[dict[str, Any]]:
    facts = yaml.safe_load((ANSIBLE / "playbooks" / "facts.yml").read_text())[0]
    roles = [{"role": item} if isinstance(item, str) else dict(item) for item in what]
    of_roles: dict[str, Any] = {
        "name": "Roles under test",
        "hosts": hosts,
        "gather_facts": False,
        "become": True,
        "vars": play_vars,
    }
    if tasks_from:
        of_roles["tasks"] = [
            {"ansible.builtin.include_role": {"name": item["role"], "tasks_from": tasks_from}}
            for item in roles
        ]
    else:
        of_roles["roles"] = roles
    return [facts | {"hosts": hosts}, of_roles]


def _files(lab: Lab) -> dict[Path, tuple[int, int, int]]:
    """Files written since the first boot: time, size and mode by path."""
    found = {}
    for host in lab.rack.site.hosts:
        upper = lab.rack.layout.host(host.name) / "upper"
        for folder in _KEPT_FOLDERS:
            for path in (upper / folder).rglob("*"):
                if path.suffix == ".pyc" or path.name == "__pycache__" or path.is_dir():
                    continue
                about = path.lstat()
                found[path] = (about.st_mtime_ns, about.st_size, about.st_mode)
    return found


def _difference(before: dict[Path, Any], after: dict[Path, Any]) -> str:
    paths = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    return "\n".join(sorted(map(str, paths)))


def _lines(changed: Iterable[tuple[str, str]], run: PlayResult | None = None) -> str:
    """`host: task` a line, with what it changed where that is known."""
    lines = []
    for host, task in sorted(changed):
        lines.append(f"  {host}: {task}")
        for event in run.of(task, host) if run else ():
            lines += [f"    {diff.what}\n{diff.text}" for diff in event.diffs if event.kind == "changed"]
    return "\n".join(lines) or "  (nothing)"
