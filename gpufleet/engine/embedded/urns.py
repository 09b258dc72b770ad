"""URNs: creating and parsing Pulumi's resource names and their aliases."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from msgspec import Struct

ROOT_STACK_TYPE = "pulumi:pulumi:Stack"
PROVIDER_PREFIX = "pulumi:providers:"


class AliasSpec(Struct, frozen=True):
    """A former identity of a resource; an empty part means 'as now'."""

    name: str = ""
    type: str = ""
    stack: str = ""
    project: str = ""
    parent: str = ""
    no_parent: bool = False


def make_urn(stack: str, project: str, parent: str, type_: str, name: str) -> str:
    """Return the URN of a resource; its qualified type has the types of its parents, except the stack's."""
    qualified = type_
    if parent:
        parent_type = qualified_type(parent)
        if parent_type != ROOT_STACK_TYPE:
            qualified = f"{parent_type}${type_}"
    return f"urn:pulumi:{stack}::{project}::{qualified}::{name}"


def qualified_type(urn: str) -> str:
    """Return the types from the outermost parent to the resource, joined by `$`."""
    return urn.split("::", 3)[2]


def urn_type(urn: str) -> str:
    """Return the resource's own type token."""
    return qualified_type(urn).rsplit("$", 1)[-1]


def urn_name(urn: str) -> str:
    """Return the name in the program (it may contain `::`)."""
    return urn.split("::", 3)[3]


def package_of(type_: str) -> str:
    """Return the package of a type or function token: `aws` of `aws:ec2/vpc:Vpc`."""
    return type_.split(":", 1)[0]


def is_provider_type(type_: str) -> bool:
    """Return whether a resource of this type is a provider."""
    return type_.startswith(PROVIDER_PREFIX)


def is_default_provider(urn: str) -> bool:
    """Return whether the engine registered this provider, for resources without an explicit one."""
    name = urn_name(urn)
    return is_provider_type(urn_type(urn)) and (name == "default" or name.startswith("default_"))


def default_provider_name(version: str, download_url: str = "") -> str:
    """Return Pulumi's name of a default provider: `default`, `default_7_51_1`."""
    name = "default"
    if version:
        name += "_" + re.sub(r"[^A-Za-z0-9_]", "_", version)
    if download_url:
        name += "_" + re.sub(r"[^A-Za-z0-9_]", "_", download_url.split("://", 1)[-1].rstrip("/"))
    return name


def split_reference(reference: str) -> tuple[str, str]:
    """Return the URN and the id of a provider reference (`urn::id`)."""
    urn, _, identifier = reference.rpartition("::")
    return urn, identifier


def matches(target: str, urn: str) -> bool:
    """Return whether a target (a URN, `*` for any text) matches a resource."""
    return target == urn or ("*" in target and fnmatchcase(urn, target.replace("**", "*")))


class AliasResolver:
    """Turns the aliases of a resource into old URNs, including its parents' aliases.

    `used` records which alias matched a resource's old state, since its children are then under that old
    URN too.
    """

    def __init__(self, stack: str, project: str) -> None:
        self._stack = stack
        self._project = project
        self.used: dict[str, str] = {}

    def candidates(
        self, name: str, type_: str, parent: str, aliases: tuple[AliasSpec | str, ...]
    ) -> list[str]:
        """Return old URNs to search, best first, without repeats."""
        found = dict.fromkeys(self._collapse(name, type_, parent, alias) for alias in aliases)
        old_parent = self.used.get(parent)
        if old_parent:
            found.setdefault(self._under_alias(type_, name, parent, old_parent))
            for urn in list(found):
                found.setdefault(self._under_alias(urn_type(urn), urn_name(urn), parent, old_parent))
        return list(found)

    def _collapse(self, name: str, type_: str, parent: str, alias: AliasSpec | str) -> str:
        if isinstance(alias, str):
            return alias
        old_parent = alias.parent or parent
        if alias.parent:
            old_parent = self.used.get(alias.parent, alias.parent)
        if alias.no_parent:
            old_parent = ""
        return make_urn(
            alias.stack or self._stack,
            alias.project or self._project,
            old_parent,
            alias.type or type_,
            alias.name or name,
        )

    def _under_alias(self, type_: str, name: str, parent: str, old_parent: str) -> str:
        # A child named after its parent (`<parent>-role`) had the parent's old name.
        parent_name = urn_name(parent)
        if name.startswith(parent_name):
            name = urn_name(old_parent) + name[len(parent_name) :]
        return make_urn(self._stack, self._project, old_parent, type_, name)
