"""Possible weakenings in a module that creates resources, found in its syntax tree.

Every keyword of a call that creates a resource, its arguments or its options can be left out; every
flag flipped, count changed, network opened, algorithm or mode weakened, IAM statement widened, entry
of a list or mapping dropped, conditional taken on either side, and every call that makes something
for its side effect left out. Texts for people (docstrings, error messages) are not changed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

WEAKER = {
    "required": "optional",
    "enabled": "disabled",
    "Enabled": "Suspended",
    "true": "false",
    "false": "true",
    "aws:kms": "AES256",
    "Deny": "Allow",
    "tcp": "-1",
    "BucketOwnerEnforced": "ObjectWriter",
    "ALL": "REJECT",
    "API": "API_AND_CONFIG_MAP",
    "cluster": "spread",
    "targeted": "open",
    "capacity-block": "spot",
    "efa": "interface",
    "efa-only": "interface",
    "MINIMAL": "DEFAULT",
    "AWS::EC2::CapacityBlock": "on-demand",
    "STANDARD": "EXTENDED",
    "gp3": "gp2",
    "restricted": "privileged",
    "baseline": "privileged",
    **dict.fromkeys(
        (
            "AmazonEKSWorkerNodePolicy",
            "AmazonEC2ContainerRegistryPullOnly",
            "AmazonSSMManagedInstanceCore",
            "AmazonEKS_CNI_Policy",
            "service-role/AmazonEBSCSIDriverPolicy",
        ),
        "AmazonEC2FullAccess",
    ),
}
"""Values of a provider, and weaker replacements."""

ADDRESSES = {"cidr_ipv4": "0.0.0.0/0", "cidr_ipv6": "::/0"}
IAM = {"Action": "*", "Resource": "*", "Principal": "*"}
WHOLE_STATEMENT = frozenset({"Effect", "Action", "Principal", "Resource", "Statement", "Version"})
"""Entries that a statement requires: AWS refuses it without them, so leaving one out weakens nothing."""

PERMISSIONS = frozenset({"Action", "managed_policies"})
"""Names that give permissions: fewer of them are no weakening."""

WEAKER_NUMBERS = {
    "from_port": 0,
    "to_port": 65535,
    "deletion_window_in_days": 7,
    "log_retention_days": 1,
    "http_put_response_hop_limit": 2,
    "LUSTRE_PORTS": 0,
}
"""Numbers that open, forget or lose the most; other numbers are changed by one."""

_NETWORK = re.compile(r"\d+\.\d+\.\d+\.\d+/\d+")
_PLAIN = frozenset({"field", "super", "Output", "InvokeOutputOptions", "replace", "InputError", "ValueError"})
_OPTIONS = frozenset({"child", "ResourceOptions"})
_PEOPLES = frozenset({"description", "remedy", "Sid"})


@dataclass(frozen=True)
class Mutant:
    """One weakening of one module: the `number`th that `weakenings` finds there.

    `subject` is the name of what it weakens: a keyword, a mapping's entry, a constant of the module,
    or the call that is left out.
    """

    module: str
    number: int
    line: int
    what: str
    subject: str

    @property
    def name(self) -> str:
        """`components.bucket:62 drop force_destroy of Bucket`."""
        return f"{self.module}:{self.line} {self.what}"

    @property
    def plain(self) -> str:
        """The name without the line, which moves."""
        return f"{self.module} {self.what}"


@dataclass(frozen=True)
class Weakening:
    """How to apply one weakening to the tree that it was found in."""

    line: int
    what: str
    apply: Callable[[], None]
    subject: str


def mutants_of(module: str, path: Path) -> list[Mutant]:
    """All mutants of a module, in the order of its text."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        Mutant(module, number, each.line, each.what, each.subject)
        for number, each in enumerate(weakenings(tree))
    ]


def mutated(mutant: Mutant, path: Path) -> ast.Module:
    """The module's tree with the mutant's weakening applied."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = list(weakenings(tree))[mutant.number]
    assert found.what == mutant.what
    found.apply()
    return ast.fix_missing_locations(tree)


def weakenings(tree: ast.Module) -> Iterator[Weakening]:
    """Everything that can be weakened in the module, outermost first."""
    for function, subject, node in _nodes(tree):
        if isinstance(node, ast.Call):
            yield from _of_call(node, function)
        elif isinstance(node, ast.Dict):
            yield from _of_dict(node, function)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield from _of_default(node)
        elif isinstance(node, ast.List | ast.Tuple) and isinstance(getattr(node, "ctx", None), ast.Load):
            yield from _of_list(node, function, subject)
        elif isinstance(node, ast.IfExp):
            yield from _of_condition(node, function, subject)
        elif hasattr(node, "body") and isinstance(node.body, list):
            yield from _of_body(node, function)


def _nodes(tree: ast.Module) -> Iterator[tuple[str, str, ast.AST]]:
    """Nodes with their function or class and the name of their context.

    Nothing of annotations, imports and errors.
    """

    def walk(node: ast.AST, around: str, subject: str) -> Iterator[tuple[str, str, ast.AST]]:
        if isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
            return
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node.name, node
            for child in node.body:
                yield from walk(child, node.name, node.name)
            return
        yield around, subject, node
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                yield from walk(value, around, str(key.value) if isinstance(key, ast.Constant) else subject)
            return
        if isinstance(node, ast.keyword) and node.arg:
            subject = node.arg
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            subject = ast.unparse(target)
        for name, value in ast.iter_fields(node):
            if name == "annotation":
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from walk(child, around, subject)

    yield from walk(tree, "", "")


def _called(node: ast.Call) -> str:
    text = ast.unparse(node.func)
    return text.rpartition(".")[2]


def _makes(node: ast.Call) -> bool:
    """Whether the call makes a resource, its arguments, its options or its tags."""
    name = _called(node)
    if name in _PLAIN or ast.unparse(node.func).startswith("pulumi.Output"):
        return False
    return name[:1].isupper() or name.startswith("_") or name in {*_OPTIONS, "encryption_key", "tags"}


def _of_call(node: ast.Call, function: str) -> Iterator[Weakening]:
    if not _makes(node):
        return
    name = _called(node)
    for keyword in list(node.keywords):
        if keyword.arg is None or keyword.arg in _PEOPLES:
            continue
        label = f"of {name} in {function}"

        def drop(keyword: ast.keyword = keyword) -> None:
            node.keywords.remove(keyword)

        subject = keyword.arg
        if subject not in PERMISSIONS:
            yield Weakening(keyword.value.lineno, f"drop {keyword.arg} {label}", drop, subject)
        for what, value in _weaker_values(keyword.value, keyword.arg):

            def change(keyword: ast.keyword = keyword, value: ast.expr = value) -> None:
                keyword.value = value

            yield Weakening(keyword.value.lineno, f"{keyword.arg} {what} {label}", change, subject)
        if keyword.arg == "referenced_security_group_id":

            def open_up(keyword: ast.keyword = keyword) -> None:
                keyword.arg, keyword.value = "cidr_ipv4", ast.Constant("0.0.0.0/0")

            yield Weakening(keyword.value.lineno, f"a group opened to the world {label}", open_up, subject)


def _weaker_values(node: ast.expr, name: str) -> Iterator[tuple[str, ast.expr]]:
    if name in ADDRESSES and not (isinstance(node, ast.Constant) and node.value == ADDRESSES[name]):
        yield f"opened to {ADDRESSES[name]}", ast.Constant(ADDRESSES[name])
    if name == "cidr_ipv4":
        yield "opened over IPv6", ast.Constant("::/0")
    if isinstance(node, ast.ListComp):
        yield (
            "without its last",
            ast.Subscript(node, ast.Slice(upper=ast.UnaryOp(ast.USub(), ast.Constant(1))), ast.Load()),
        )
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "reversed", node.operand
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "bool":
        yield "reversed", ast.UnaryOp(ast.Not(), node)
    if isinstance(node, ast.Constant):
        yield from _weaker_constants(node, name)


def _weaker_constants(node: ast.Constant, name: str) -> Iterator[tuple[str, ast.expr]]:
    value = node.value
    if isinstance(value, bool):
        yield f"{value} -> {not value}", ast.Constant(not value)
    elif isinstance(value, int):
        for other in (WEAKER_NUMBERS[name],) if name in WEAKER_NUMBERS else (value + 1, value - 1):
            if other >= 0 and other != value:
                yield f"{value} -> {other}", ast.Constant(other)
    elif isinstance(value, str):
        if value in WEAKER:
            yield f"{value!r} -> {WEAKER[value]!r}", ast.Constant(WEAKER[value])
        if _NETWORK.fullmatch(value) and value != "0.0.0.0/0":
            yield f"{value} -> 0.0.0.0/0", ast.Constant("0.0.0.0/0")


def _of_dict(node: ast.Dict, function: str) -> Iterator[Weakening]:
    for index, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str) or key.value in _PEOPLES:
            continue
        label = f"in {function}"

        def drop(index: int = index) -> None:
            del node.keys[index], node.values[index]

        if key.value not in WHOLE_STATEMENT:
            yield Weakening(key.lineno, f"drop entry {key.value!r} {label}", drop, key.value)
        weaker = list(_weaker_values(value, ""))
        if key.value in IAM and not (isinstance(value, ast.Constant) and value.value == "*"):
            weaker.append(("widened to *", ast.Constant("*")))
        for what, other in weaker:

            def change(index: int = index, other: ast.expr = other) -> None:
                node.values[index] = other

            yield Weakening(key.lineno, f"entry {key.value!r} {what} {label}", change, key.value)


def _of_default(node: ast.AnnAssign) -> Iterator[Weakening]:
    assert node.value is not None
    name = ast.unparse(node.target)
    for what, value in _weaker_values(node.value, name):

        def change(value: ast.expr = value) -> None:
            node.value = value

        yield Weakening(node.lineno, f"default {name} {what}", change, name)


def _of_list(node: ast.List | ast.Tuple, function: str, subject: str) -> Iterator[Weakening]:
    for index, element in enumerate(node.elts):
        text = ast.unparse(element)
        short = text if len(text) <= 40 else f"{text[:37]}..."

        def drop(index: int = index) -> None:
            del node.elts[index]

        if subject not in PERMISSIONS:
            yield Weakening(element.lineno, f"drop element {short} of {subject}", drop, subject)
        if isinstance(element, ast.Constant):
            for what, value in _weaker_constants(element, subject):

                def change(index: int = index, value: ast.expr = value) -> None:
                    node.elts[index] = value

                yield Weakening(element.lineno, f"element {what} of {subject}", change, subject)


def _of_condition(node: ast.IfExp, function: str, subject: str) -> Iterator[Weakening]:
    text = ast.unparse(node.test)
    for value in (True, False):

        def force(value: bool = value) -> None:
            node.test = ast.Constant(value)

        yield Weakening(node.lineno, f"as if `{text}` were {value} in {function}", force, subject)


def _of_body(node: ast.AST, function: str) -> Iterator[Weakening]:
    body: list[ast.stmt] = node.body  # type: ignore[attr-defined]
    if not function:
        return
    for index, statement in enumerate(body):
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
            continue
        name = ast.unparse(statement.value.func)
        if name.startswith(("super()", "self.register_outputs", "pulumi.log", "pulumi.export")):
            continue

        def leave_out(index: int = index) -> None:
            body[index] = ast.Pass()

        yield Weakening(statement.lineno, f"leave out {name}(...) in {function}", leave_out, name)
