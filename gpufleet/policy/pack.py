"""Loading of rules: one `Rule` per module of `gpufleet.policies.rules` or of a repository's pack."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path
from typing import Any

from gpufleet.errors import InputError
from gpufleet.policy.rule import Rule

PACKAGE = "gpufleet.policies.rules"
OWN_PACKAGE = "policies.rules"
_INSTALLED = Path(__file__).parents[1] / "policies"


def load_rules(root: Path) -> tuple[Rule[Any], ...]:
    """Return the rules for the repository `root`, ordered by group and name: those in its `policies/rules`,
    else those of gpufleet. Raises InputError if a module does not load or does not have exactly one rule, or
    if two rules have the same name.
    """
    name = _package(root)
    package = importlib.import_module(name)
    found: dict[str, Rule[Any]] = {}
    for module in pkgutil.walk_packages(package.__path__, f"{name}."):
        if module.ispkg or module.name.rpartition(".")[2].startswith("_"):
            continue
        for rule in _rules_of(module.name):
            if rule.name in found:
                raise InputError(
                    f"two rules are named {rule.name}", remedy=f"rename the one in {module.name}"
                )
            found[rule.name] = rule
    return tuple(sorted(found.values(), key=lambda rule: (rule.group, rule.name)))


def _package(root: Path) -> str:
    own = root / "policies"
    if not (own / "rules" / "__init__.py").is_file() or own.resolve() == _INSTALLED.resolve():
        return PACKAGE
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return OWN_PACKAGE


def _rules_of(module: str) -> list[Rule[Any]]:
    try:
        loaded = importlib.import_module(module)
    except Exception as error:
        # Rules are code of the checkout: its author has to fix errors.
        raise InputError(
            f"the rule module {module} does not load: {type(error).__name__}: {error}",
            remedy=f"fix {module.removeprefix('gpufleet.').replace('.', '/')}.py",
        ) from error
    rules = [value for value in vars(loaded).values() if isinstance(value, Rule)]
    if len(rules) != 1:
        raise InputError(
            f"{module} has {len(rules)} rules, but each module in policies/rules must have one",
            remedy="split it, or start the names of helpers with an underscore",
        )
    return rules
