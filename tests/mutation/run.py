"""Runs mutants, each in a forked process of its own: rules first, then the tests that mirror the module.

The parent imports everything once and runs nothing, so a child starts in milliseconds and what it
does to its modules ends with it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.abc
import importlib.util
import json
import os
import pickle
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from gpufleet.policy.stack import Stack
from tests.collected import ROOT, Violations, collect, judge_of, plan_of, violations
from tests.mutation.operators import Mutant, mutants_of, mutated

ENVIRONMENTS = ("prod", "sandbox", "dev")
TIMEOUT_S = 90.0
OWN = ("components", "stacks")
STACK_TESTS = ("test_stack.py", "test_program.py", "test_stack_on_moto.py")

By = Literal["rule", "program", "test", "nothing"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant: killed by a rule, by the program's own refusal, by a test, or by nothing.

    `who` names the rules, the error or the test; `changed` says whether any environment's resources
    differ from those of the program as it is.
    """

    by: By
    who: str
    changed: bool


@dataclass(frozen=True)
class Seen:
    """What an environment comes to: its resources in one comparable text, and the violations that count."""

    resources: str
    violations: Violations


def all_mutants() -> list[Mutant]:
    """Every mutant of the program's own modules."""
    return [
        mutant
        for folder in OWN
        for path in sorted((ROOT / folder).glob("*.py"))
        for mutant in mutants_of(f"{folder}.{path.stem}", path)
    ]


def path_of(module: str) -> Path:
    """The file of a module of the program."""
    return ROOT / f"{module.replace('.', '/')}.py"


def run(mutants: Sequence[Mutant], *, workers: int, tests: bool = True) -> Iterator[tuple[Mutant, Outcome]]:
    """Each mutant with its outcome, as they come. `tests=False` asks rules alone."""
    base = prepare()
    gc.freeze()
    yield from _forked(mutants, lambda mutant: judge_mutant(mutant, base, tests=tests), workers)


def prepare() -> dict[str, Seen]:
    """Import what children need, and see the program as it is (in a child, so that nothing runs here)."""
    for environment in ENVIRONMENTS:
        plan_of(environment)
        judge_of(environment)
    baseline, modules = _in_child(_baseline)
    for name in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    return dict(baseline)


def judge_mutant(mutant: Mutant, base: dict[str, Seen], *, tests: bool) -> Outcome:
    """Run in a child: the program with the mutant in it, then the tests."""
    _install(mutant)
    changed = False
    for environment in ENVIRONMENTS:
        try:
            seen = see(environment)
        except BaseException as error:
            return Outcome("program", f"{type(error).__name__}: {error}"[:160], True)
        new = seen.violations - base[environment].violations
        if new:
            return Outcome("rule", ", ".join(sorted({rule for rule, _, _ in new})), True)
        changed = changed or seen.resources != base[environment].resources
        if changed:
            # The rules have seen the weaker resources and say nothing: another environment's are alike.
            break
    if tests:
        failed = failed_test(mutant.module)
        if failed:
            return Outcome("test", failed, changed)
    return Outcome("nothing", "", changed)


def see(environment: str) -> Seen:
    """Run the program of the environment and judge what it registers."""
    stack = collect(environment)
    return Seen(_text(stack), violations(environment, stack))


def _text(stack: Stack) -> str:
    def plain(value: Any) -> Any:
        return str(value)

    return json.dumps(
        sorted(
            (
                each.urn,
                json.dumps(each.inputs, sort_keys=True, default=plain),
                each.options.protect,
                each.options.ignore_changes,
                each.parent,
                sorted(each.dependencies),
            )
            for each in stack
        )
    )


def _baseline() -> tuple[dict[str, Seen], list[str]]:
    before = set(sys.modules)
    seen = {environment: see(environment) for environment in ENVIRONMENTS}
    ours = tuple(f"{name}." for name in OWN)
    added = [name for name in sys.modules if name not in before and not name.startswith(ours)]
    return seen, [name for name in added if name not in OWN and not name.startswith("_")]


def failed_test(module: str) -> str:
    """The first test of those that mirror the module which fails, or nothing."""
    import pytest

    class Failures:
        first = ""

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed and not self.first:
                self.first = report.nodeid

        def pytest_collectreport(self, report: Any) -> None:
            if report.failed and not self.first:
                self.first = report.nodeid

    failures = Failures()
    files = tests_of(module)
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        pytest.main(
            ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", *files],
            plugins=[failures],
        )
    return failures.first


def tests_of(module: str) -> list[str]:
    """The test files that are asked about a module: its mirror, else all of its folder, then the stack's."""
    folder, _, name = module.partition(".")
    mirror = ROOT / "tests" / "unit" / folder / f"test_{name}.py"
    first = [mirror] if mirror.exists() else sorted((ROOT / "tests" / "unit" / folder).glob("test_*.py"))
    stack = [ROOT / "tests" / "unit" / "stacks" / name for name in STACK_TESTS]
    return [str(path) for path in dict.fromkeys([*first, *stack])]


class _Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a mutated tree in place of its file."""

    def __init__(self, mutant: Mutant) -> None:
        self._module = mutant.module
        self._path = path_of(mutant.module)
        self._code = compile(mutated(mutant, self._path), str(self._path), "exec")

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        del path, target
        if name != self._module:
            return None
        spec = importlib.util.spec_from_file_location(name, self._path, loader=self)
        assert spec is not None
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        del spec
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, vars(module))


def _install(mutant: Mutant) -> None:
    for name in list(sys.modules):
        if name in OWN or name.startswith(tuple(f"{own}." for own in OWN)):
            del sys.modules[name]
    sys.meta_path.insert(0, _Mutated(mutant))


def _in_child(call: Callable[[], Any]) -> Any:
    ((_, result),) = list(_forked([None], lambda _: call(), 1))
    if isinstance(result, str):
        raise RuntimeError(result)
    return result


def _forked(items: Iterable[Any], call: Callable[[Any], Any], workers: int) -> Iterator[tuple[Any, Any]]:
    """`call` of each item in a forked child, so many at a time; a child's traceback is its result."""
    waiting = list(items)[::-1]
    running: dict[int, tuple[Any, int, float, bytearray]] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            item = waiting.pop()
            reader, writer = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(reader)
                _child(item, call, writer)
            os.close(writer)
            running[reader] = (item, pid, time.monotonic() + TIMEOUT_S, bytearray())
        ready, _, _ = select.select(list(running), [], [], 1.0)
        for reader in ready:
            item, pid, _, gathered = running[reader]
            chunk = os.read(reader, 1 << 20)
            if chunk:
                gathered += chunk
                continue
            os.close(reader)
            os.waitpid(pid, 0)
            del running[reader]
            yield item, pickle.loads(bytes(gathered)) if gathered else Outcome("program", "died", True)
        for reader, (item, pid, deadline, _) in list(running.items()):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                os.close(reader)
                os.waitpid(pid, 0)
                del running[reader]
                yield item, Outcome("program", f"did not end within {TIMEOUT_S:.0f} s", True)


def _child(item: Any, call: Callable[[Any], Any], writer: int) -> None:
    gc.disable()  # a collection would touch, and so copy, all that was inherited
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    try:
        result = call(item)
    except BaseException:
        result = traceback.format_exc()
    with os.fdopen(writer, "wb") as pipe:
        pickle.dump(result, pipe)
    os._exit(0)
