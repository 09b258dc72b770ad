"""Derives the property tables of the provider from the sources of the installed pulumi_aws.

pulumi_aws is 270 MB of generated classes that take seconds to import, so the provider process never imports
it: this module reads the few needed class definitions with `ast` and writes `aws.json` next to itself. A test
rebuilds the table and compares, so it stays up to date with the pinned version. Run it with `python -m
gpufleet.lab.aws.provider.schema.build`.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import keyword
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpufleet.lab.aws.provider.schema.tokens import FUNCTIONS, RESOURCES

TARGET = Path(__file__).with_name("aws.json")
_SCALARS = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "Any": "any",
    "Archive": "any",
}
_SEQUENCES = {"Sequence", "List", "list"}
_MAPPINGS = {"Mapping", "Dict", "dict"}
_WRAPPERS = {"Input", "Output", "Optional", "NotRequired", "InputType"}


class _Package:
    """The source tree of the installed pulumi_aws, parsed lazily."""

    def __init__(self) -> None:
        spec = importlib.util.find_spec("pulumi_aws")
        if spec is None or not spec.submodule_search_locations:
            raise RuntimeError("pulumi_aws is not installed: its sources are what this table is built from")
        self.root = Path(next(iter(spec.submodule_search_locations)))
        self.types: dict[str, Any] = {}

    def classes(self, path: Path) -> dict[str, ast.ClassDef]:
        return _classes(path)

    def module_folder(self, module: str) -> Path:
        # A module named like a keyword of Python ends in an underscore.
        folder = f"{module}_" if keyword.iskeyword(module) else module
        return self.root if module == "index" else self.root / folder

    def struct(self, node: ast.ClassDef, module: str) -> dict[str, Any]:
        """Properties (wire name to type) and required wire names of one arguments class."""
        wire = _wire_names(node)
        init = next(
            item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"
        )
        arguments = [*zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True)]
        properties: dict[str, Any] = {}
        required: list[str] = []
        for argument, default in arguments:
            if argument.annotation is None:
                continue
            name = wire.get(argument.arg, argument.arg)
            properties[name] = self.type_of(argument.annotation, module)
            if default is None:
                required.append(name)
        return {"properties": properties, "required": sorted(required)}

    def type_of(self, node: ast.expr, module: str) -> Any:
        """The wire type of an annotation; nested classes are added to `types`."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self.reference(node.value, module)
        if isinstance(node, ast.Attribute):
            return self.named(node.attr, module)
        if isinstance(node, ast.Name):
            return self.named(node.id, module)
        if isinstance(node, ast.Subscript):
            return self.generic(node, module)
        raise ValueError(f"cannot read the annotation {ast.unparse(node)}")

    def named(self, name: str, module: str) -> Any:
        return _SCALARS[name] if name in _SCALARS else self.reference(name, module)

    def generic(self, node: ast.Subscript, module: str) -> Any:
        head = node.value.attr if isinstance(node.value, ast.Attribute) else ast.unparse(node.value)
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if head in _WRAPPERS:
            return self.type_of(items[0], module)
        if head in _SEQUENCES:
            return {"array": self.type_of(items[0], module)}
        if head in _MAPPINGS:
            return {"map": self.type_of(items[-1], module)}
        if head == "Union":
            return self.union(items, module)
        raise ValueError(f"cannot read the annotation {ast.unparse(node)}")

    def union(self, items: list[ast.expr], module: str) -> Any:
        """Return "string" for a union of a string and an enum; one with PolicyDocument can be an object."""
        text = [ast.unparse(item) for item in items]
        if any(item.strip("'\"").rsplit(".", 1)[-1] == "PolicyDocumentArgs" for item in text):
            return "document"
        if any(item.endswith("str") for item in text):
            return "string"
        return self.type_of(items[0], module)

    def reference(self, name: str, module: str) -> Any:
        bare = name.rsplit(".", 1)[-1]
        key = f"{module}/{bare.removesuffix('Args')}"
        if key in self.types:
            return {"ref": key}
        classes = self.classes(self.module_folder(module) / "_inputs.py")
        node = classes.get(bare)
        if node is None:
            return "string"  # an enum of strings
        self.types[key] = {}
        self.types[key] = self.struct(node, module)
        return {"ref": key}


@lru_cache(maxsize=64)
def _classes(path: Path) -> dict[str, ast.ClassDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _wire_names(node: ast.ClassDef) -> dict[str, str]:
    """Python argument name to wire name, from the `pulumi.getter` decorators of a class."""
    names: dict[str, str] = {}
    for item in node.body:
        if not isinstance(item, ast.FunctionDef):
            continue
        for decorator in item.decorator_list:
            if not isinstance(decorator, ast.Call) or not ast.unparse(decorator.func).endswith("getter"):
                continue
            for each in decorator.keywords:
                if each.arg == "name" and isinstance(each.value, ast.Constant):
                    names[item.name] = str(each.value.value)
    return names


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _resource(package: _Package, token: str) -> dict[str, Any]:
    module, member = token.split(":")[1].split("/")
    name = token.rsplit(":", 1)[1]
    classes = package.classes(package.module_folder(module) / f"{_snake(member)}.py")
    # A class whose arguments would have the name of a nested type is called ...InitArgs.
    arguments = package.struct(classes.get(f"{name}Args") or classes[f"{name}InitArgs"], module)
    state = package.struct(classes[f"_{name}State"], module)
    return {
        "inputs": arguments["properties"],
        "required": arguments["required"],
        "outputs": state["properties"],
    }


def _function(package: _Package, token: str) -> dict[str, Any]:
    module, member = token.split(":")[1].split("/")
    path = package.module_folder(module) / f"{_snake(member)}.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    function = next(
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == _snake(member)
    )
    wire: dict[str, str] = {}
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Subscript)
            and ast.unparse(node.targets[0].value) == "__args__"
            and isinstance(node.targets[0].slice, ast.Constant)
            and isinstance(node.value, ast.Name)
        ):
            wire[node.value.id] = str(node.targets[0].slice.value)
    inputs: dict[str, Any] = {}
    required: list[str] = []
    count = len(function.args.args) - len(function.args.defaults)
    for index, argument in enumerate(function.args.args):
        if argument.arg not in wire or argument.annotation is None:
            continue
        inputs[wire[argument.arg]] = package.type_of(argument.annotation, module)
        if index < count or "Optional" not in ast.unparse(argument.annotation):
            required.append(wire[argument.arg])
    result = package.classes(path)[f"{member[0].upper()}{member[1:]}Result"]
    names = _wire_names(result)
    init = next(item for item in result.body if isinstance(item, ast.FunctionDef) and item.name == "__init__")
    outputs = sorted(names.get(argument.arg, argument.arg) for argument in init.args.args[1:])
    return {"inputs": inputs, "required": sorted(required), "outputs": outputs}


def build() -> dict[str, Any]:
    """Return the whole table: version, resources, functions and nested types of the installed pulumi_aws."""
    package = _Package()
    resources = {token: _resource(package, token) for token in RESOURCES}
    functions = {token: _function(package, token) for token in FUNCTIONS}
    return {
        "version": importlib.metadata.version("pulumi_aws"),
        "resources": resources,
        "functions": functions,
        "types": dict(sorted(package.types.items())),
    }


def render() -> str:
    """Return the table as written to `aws.json`."""
    return json.dumps(build(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
