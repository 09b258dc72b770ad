"""Runs mutants, each in a forked process of its own: rules first, then the tests that mirror the module.

The parent imports everything once and runs nothing, so a child starts in milliseconds and its
changes of modules end with it.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Literal

from gpufleet.resources.stack import Stack
from tests.collected import ROOT, Violations, collect, judge_of, plan_of, violations
from tests.mutation.operators import Mutant, mutants_of, mutated

ENVIRONMENTS = ("prod", "sandbox", "dev")
TIMEOUT_S = 90.0
_QUIETLY = ("-q", "-p", "no:cacheprovider", "-n0")
"""In this process. Not without xdist's plugin: its marks would end pytest before the first test."""

OWN = ("components", "stacks")
USED_BY = {
    "access_entries": ("cluster",),
    "base": ("identity", "storage", "network", "budget"),
    "bucket": ("storage",),
    "budget_function": ("budget",),
    "device_plugins": ("cluster_base",),
    "dynamic": ("capacity_block_offering",),
    "eks_registries": ("cluster_base",),
    "eks_user_data": ("cluster",),
    "flow_logs": ("network",),
    "gpu_operator": ("cluster_base",),
    "karpenter_rights": ("karpenter",),
    "kubeconfig": ("cluster",),
    "launch_template": ("node_group",),
    "neuron_scheduler": ("neuron",),
    "node_capacity": ("node_group",),
    "node_group_args": ("node_group",),
    "node_image": ("node_group",),
    "plugin_daemon_set": ("cluster_base", "neuron"),
    "scale_out_stop": ("budget",),
    "scaling_groups": ("ordered_capacity",),
    "security_groups": ("network", "storage"),
    "shares": ("capacity",),
    "spot_drain": ("budget",),
    "system_pods": ("cluster_autoscaler", "karpenter"),
    "team_volume": ("bucket_volume", "file_system_volume"),
}
"""Modules without a test file of their name -> the tests of the components built with them."""

WHOLE_STACK = ("wiring", "program", "stack")

By = Literal["rule", "program", "test", "nothing"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a mutant: killed by a rule, by a refusal of the program, by a test, or not killed.

    `who` is the rules, the error or the test; `changed` is whether any environment's resources
    differ from those of the unchanged program.
    """

    by: By
    who: str
    changed: bool


@dataclass(frozen=True)
class EnvironmentResult:
    """Result of an environment: its resources in one comparable text, and its mandatory violations."""

    resources: str
    violations: Violations


@dataclass(frozen=True)
class Base:
    """The unchanged program: results of each environment, and tests that fail without a mutant."""

    seen: Mapping[str, EnvironmentResult]
    broken_tests: Sequence[str]


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
    """Each mutant with its outcome, as they finish. `tests=False` runs only rules."""
    base = prepare(tests=tests)
    gc.freeze()
    yield from forked(mutants, lambda mutant: judge_mutant(mutant, base, tests=tests), workers)


def prepare(*, tests: bool) -> Base:
    """Import what children need, and record the unchanged program (in a child, so that nothing runs here)."""
    for environment in ENVIRONMENTS:
        plan_of(environment)
        judge_of(environment)
    seen, modules = _in_child(_baseline)
    for name in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if not tests:
        return Base(seen, ())
    files = sorted({file for mutant in all_mutants() for file in judges_of(mutant.module)})
    return Base(seen, _in_child(lambda: failed_tests(files, all_of_them=True)))


def judge_mutant(mutant: Mutant, base: Base, *, tests: bool) -> Outcome:
    """Run in a child: the program with the mutant in it, then the tests."""
    _install(mutant)
    changed = False
    for environment in ENVIRONMENTS:
        try:
            seen = see(environment)
        except BaseException as error:
            return Outcome("program", f"{type(error).__name__}: {error}"[:160], True)
        new = seen.violations - base.seen[environment].violations
        if new:
            return Outcome("rule", ", ".join(sorted({rule for rule, _, _ in new})), True)
        changed = changed or seen.resources != base.seen[environment].resources
        if changed:
            # The rules accept the weaker resources: other environments are alike.
            break
    if tests:
        failed = failed_tests(judges_of(mutant.module), broken=base.broken_tests)
        if failed:
            return Outcome("test", failed[0], changed)
    return Outcome("nothing", "", changed)


def see(environment: str) -> EnvironmentResult:
    """Run the program of the environment and judge what it registers."""
    stack = collect(environment)
    return EnvironmentResult(_text(stack), violations(environment, stack))


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


def _baseline() -> tuple[dict[str, EnvironmentResult], list[str]]:
    before = set(sys.modules)
    seen = {environment: see(environment) for environment in ENVIRONMENTS}
    added = [name for name in sys.modules if name not in before and not _mutable(name)]
    return seen, [name for name in added if not name.startswith("_")]


def failed_tests(
    files: Sequence[str],
    *,
    broken: Iterable[str] = (),
    all_of_them: bool = False,
    plugins: Sequence[object] = (),
) -> list[str]:
    """Failing tests of the files (or single tests); only the first, or all. `broken` ones are skipped."""
    import pytest

    class Failures:
        found: ClassVar[list[str]] = []

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed:
                self.found.append(report.nodeid)

        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                self.found.append(report.nodeid)

    failures = Failures()
    options = [*([] if all_of_them else ["-x"]), *(f"--deselect={each}" for each in broken)]
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        code = pytest.main([*_QUIETLY, *options, *files], plugins=[failures, *plugins])
    if not failures.found and code != pytest.ExitCode.OK:
        raise RuntimeError(f"pytest ended with {code!r} before a test failed: {', '.join(files)}")
    return failures.found


def collect_tests(files: Sequence[str]) -> None:
    """Import the test files and what they import, so that children need not."""
    import pytest

    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        code = pytest.main([*_QUIETLY, "--collect-only", *files])
    if code != pytest.ExitCode.OK:
        raise RuntimeError(f"pytest ended with {code!r} as it collected {', '.join(files)}")


def judges_of(module: str) -> list[str]:
    """Test files for a module: its mirror, or those of what is built with it; after it, those of stacks."""
    folder, _, name = module.partition(".")
    names = USED_BY.get(name, (name,)) if folder == "components" else dict.fromkeys((name, *WHOLE_STACK))
    places = dict.fromkeys((folder, "stacks"))
    files = [ROOT / "tests" / "unit" / place / f"test_{each}.py" for each in names for place in places]
    return [str(path) for path in files if path.exists()]


class _MutantImporter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import one module from a mutated tree instead of its file."""

    def __init__(self, mutant: Mutant) -> None:
        self._module = f"gpufleet.{mutant.module}"
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
        if _mutable(name):
            del sys.modules[name]
    sys.meta_path.insert(0, _MutantImporter(mutant))


def _mutable(module: str) -> bool:
    """Whether it is one of the packages of mutants, or in one."""
    return module.startswith("gpufleet.") and module.split(".")[1] in OWN


def _in_child(call: Callable[[], Any]) -> Any:
    ((_, result),) = list(forked([None], lambda _: call(), 1, timeout_s=600.0))
    if isinstance(result, str):
        raise RuntimeError(result)
    return result


def forked(
    items: Iterable[Any], call: Callable[[Any], Any], workers: int, timeout_s: float = TIMEOUT_S
) -> Iterator[tuple[Any, Any]]:
    """Run `call` for each item in a forked child, with a limit; a child's traceback is its result."""
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
            running[reader] = (item, pid, time.monotonic() + timeout_s, bytearray())
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
                yield item, Outcome("program", f"did not end within {timeout_s:.0f} s", True)


def _child(item: Any, call: Callable[[Any], Any], writer: int) -> None:
    gc.disable()  # a collection would touch, and so copy, all inherited memory
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
