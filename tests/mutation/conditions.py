"""Random mutants of comparisons, operators and conditions of `plan`, `checks`, `pricing` and security rules.

One comparison, operator or condition of a function is changed. The function's code is replaced in a forked
process that has imported everything, and the tests that reach the changed line run (`reached`). A security
rule is judged by the tests of security rules only.
"""

from __future__ import annotations

import ast
import copy
import gc
import importlib
import pkgutil
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType

from tests.collected import ROOT
from tests.mutation import reached
from tests.mutation.run import Outcome, collect_tests, failed_tests, forked

RULES = "policies.rules.security"
PACKAGES = ("plan", "checks", "pricing", RULES)
TIMEOUT_S = 600.0
KILLED_OF_100 = 95
PREVIEWS = (
    "test_our_environments.py",
    "test_mutants_of_our_stack.py",
    "test_interruptions.py",
    "test_judged_resources.py::test_all_resources_of_the_shipped_environments_are_judged",
    "test_provider_account.py::test_shipped_environments_have_providers_that_the_rule_checks",
)
"""Tests of security rules that preview whole environments first: files, and single tests."""

_OF_RACKS = ("test_variables.py", "test_kubernetes_gpu_variables.py", "test_inventory.py", "test_secrets.py")
"""Tests in `tests/unit/racks` of the variables of racks, which are made of their plan."""

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


@dataclass(frozen=True)
class ConditionMutant:
    """The `number`th change of a module's functions: its first and last line, the text before and after."""

    module: str
    number: int
    line: int
    last: int
    before: str
    after: str

    @property
    def name(self) -> str:
        """`gpufleet.plan.marks:12 a < b -> a <= b`."""
        return f"{self.module}:{self.line} {self.plain.removeprefix(self.module + ' ')}"

    @property
    def plain(self) -> str:
        """The name without the line, which moves."""
        return f"{self.module} {self.before} -> {self.after}"


def path_of(module: str) -> Path:
    """The file of a module of the product."""
    path = ROOT / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def all_mutants() -> list[ConditionMutant]:
    """Every mutant of the packages, in the order of their text."""
    return [
        ConditionMutant(
            module,
            number,
            node.lineno,
            node.end_lineno or node.lineno,
            ast.unparse(node),
            ast.unparse(changed),
        )
        for module in _modules()
        for number, (node, changed) in enumerate(conditions_of(_tree(module)))
    ]


def run(
    count: int, seed: int, workers: int, only: str, tests: Sequence[str] = ()
) -> Iterator[tuple[ConditionMutant, Outcome]]:
    """Random mutants whose names match `only`, with their outcomes as they finish.

    The same ones for the same seed and code. `tests` are the files that judge them (default: all).
    """
    mutants = [mutant for mutant in all_mutants() if re.search(only, mutant.name)]
    chosen = random.Random(seed).sample(mutants, min(count, len(mutants)))
    for module in _modules():
        importlib.import_module(module)
    files = list(tests) or _files()
    collect_tests(files)
    functions = _functions()
    gc.freeze()
    lines = reached.measure(files, {str(path_of(each.module)) for each in chosen}, _previews(), workers)
    yield from forked(chosen, lambda mutant: _judge(mutant, functions, lines), workers, TIMEOUT_S)


def _judge(
    mutant: ConditionMutant, functions: dict[tuple[str, int, str], list[FunctionType]], lines: reached.Lines
) -> Outcome:
    _install(mutant, functions)
    tests = lines.tests(str(path_of(mutant.module)), mutant.line, mutant.last)
    for part in (tests[:12], tests[12:60], tests[60:]):
        failed = failed_tests(part) if part else []
        if failed:
            return Outcome("test", failed[0], True)
    return Outcome("nothing", "" if tests else "no test reaches it", True)


def trees_of(mutant: ConditionMutant) -> tuple[ast.Module, ast.Module]:
    """The module as it is, and with the mutant in it."""
    tree = _tree(mutant.module)
    node, changed = list(conditions_of(tree))[mutant.number]
    _replace(tree, node, changed)
    return _tree(mutant.module), ast.fix_missing_locations(tree)


def _modules() -> list[str]:
    return [
        name
        for package in PACKAGES
        for name in (
            f"gpufleet.{package}",
            *(
                each.name
                for each in pkgutil.walk_packages(
                    [str(ROOT.joinpath("gpufleet", *package.split(".")))], prefix=f"gpufleet.{package}."
                )
            ),
        )
    ]


def _files() -> list[str]:
    """All test files that judge mutants."""
    folders = [ROOT.joinpath("tests", "unit", *each.replace(".rules.", ".").split(".")) for each in PACKAGES]
    found = [path for folder in folders for path in sorted(folder.glob("test_*.py"))]
    found += [ROOT / "tests" / "unit" / "policies" / "test_examples.py"]
    found += [ROOT / "tests" / "unit" / "racks" / name for name in _OF_RACKS]
    return [str(path) for path in found if str(path.relative_to(ROOT)) not in _previews()]


def _previews() -> list[str]:
    return [f"tests/unit/policies/security/{each}" for each in PREVIEWS]


def _tree(module: str) -> ast.Module:
    return ast.parse(path_of(module).read_text(encoding="utf-8"))


def _install(mutant: ConditionMutant, functions: dict[tuple[str, int, str], list[FunctionType]]) -> None:
    """Replace the code of the function that the mutant is in, and of the functions that it has made."""
    path = str(path_of(mutant.module))
    before, after = (_codes(compile(tree, path, "exec")) for tree in trees_of(mutant))
    found = [
        (function, code)
        for key, code in after.items()
        if code != before[key]
        for function in functions.get(key, ())
    ]
    assert found, mutant.name
    for function, code in found:
        bound = function.__code__.co_freevars
        assert code.co_freevars in (bound, ()), mutant.name
        function.__code__ = code.replace(co_freevars=bound)


def _functions() -> dict[tuple[str, int, str], list[FunctionType]]:
    """Functions by file, line and qualified name."""
    gc.unfreeze()  # what is frozen is not listed, and the tests freeze it
    found: dict[tuple[str, int, str], list[FunctionType]] = {}
    for each in gc.get_objects():
        if type(each) is FunctionType:
            found.setdefault(_key(each.__code__), []).append(each)
    return found


def _key(code: CodeType) -> tuple[str, int, str]:
    return code.co_filename, code.co_firstlineno, code.co_qualname


def _codes(code: CodeType) -> dict[tuple[str, int, str], CodeType]:
    """The code of each function, and of those inside it, which a module may have made on import."""
    found = {}
    for each in code.co_consts:
        if isinstance(each, CodeType):
            found |= _codes(each)
            if each.co_flags & 0x1 and each.co_flags & 0x2:  # CO_OPTIMIZED, CO_NEWLOCALS: no class body
                found[_key(each)] = each
    return found


def _replace(tree: ast.AST, node: ast.AST, changed: ast.AST) -> None:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is node:
                setattr(parent, name, changed)
                return
            if isinstance(value, list) and any(each is node for each in value):
                value[[each is node for each in value].index(True)] = changed
                return
    raise AssertionError(ast.unparse(node))


def conditions_of(tree: ast.Module) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Expressions inside functions, each with a replacement."""
    for function in _outermost(tree):
        conditions = {id(each) for node in ast.walk(function) for each in _tests(node)}
        for node in _without_annotations(function):
            for changed in [*_changed(node), *(_forced(node) if id(node) in conditions else ())]:
                yield node, ast.copy_location(changed, node)


def _outermost(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.Lambda):
            yield child
        else:
            yield from _outermost(child)


def _without_annotations(function: ast.AST) -> Iterator[ast.expr]:
    for name, value in ast.iter_fields(function):
        if name in ("annotation", "returns", "decorator_list", "defaults", "kw_defaults"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.Raise | ast.Assert) or not isinstance(child, ast.AST):
                continue
            if isinstance(child, ast.expr):
                yield child
            yield from _without_annotations(child)


def _tests(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.If | ast.IfExp):
        return [node.test]
    return node.ifs if isinstance(node, ast.comprehension) else []


def _forced(node: ast.expr) -> Iterator[ast.expr]:
    yield ast.Constant(True)
    yield ast.Constant(False)


def _changed(node: ast.expr) -> Iterator[ast.expr]:
    changed = copy.copy(node)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        assert isinstance(changed, ast.Compare)
        changed.ops = [_COMPARISONS[type(node.ops[0])]()]
        yield changed
    elif isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            other = copy.copy(node)
            other.ops = [*node.ops[:index], _COMPARISONS[type(operator)](), *node.ops[index + 1 :]]
            yield other
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        assert isinstance(changed, ast.BinOp)
        changed.op = _OPERATORS[type(node.op)]()
        yield changed
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.BoolOp):
        assert isinstance(changed, ast.BoolOp)
        changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield changed
        for index in range(len(node.values)):
            rest = [*node.values[:index], *node.values[index + 1 :]]
            yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
