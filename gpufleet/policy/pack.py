"""Finding the rules of a checkout: one `Rule` in each module of `policies/rules`."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path
from typing import Any

from gpufleet.errors import InputError
from gpufleet.policy.rule import Rule

PACKAGE = "policies.rules"


def load_rules(root: Path) -> tuple[Rule[Any], ...]:
    """The rules of the checkout `root`, by group and name. Raises InputError where there are none,
    where a module does not load or holds none or several, and where two have one name.
    """
    if not (root / "policies" / "rules" / "__init__.py").is_file():
        raise InputError(f"{root} has no policies/rules", remedy="run from a checkout of gpufleet")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    package = importlib.import_module(PACKAGE)
    found: dict[str, Rule[Any]] = {}
    for module in pkgutil.walk_packages(package.__path__, f"{PACKAGE}."):
        if module.ispkg or module.name.rpartition(".")[2].startswith("_"):
            continue
        for rule in _rules_of(module.name):
            if rule.name in found:
                raise InputError(
                    f"two rules are called {rule.name}", remedy=f"rename the one in {module.name}"
                )
            found[rule.name] = rule
    return tuple(sorted(found.values(), key=lambda rule: (rule.group, rule.name)))


def _rules_of(module: str) -> list[Rule[Any]]:
    try:
        loaded = importlib.import_module(module)
    except Exception as error:
        # Rules are the checkout's own code: what is wrong with one is its author's to mend.
        raise InputError(
            f"the rule module {module} does not load: {type(error).__name__}: {error}",
            remedy=f"mend policies/{'/'.join(module.split('.')[1:])}.py",
        ) from error
    rules = [value for value in vars(loaded).values() if isinstance(value, Rule)]
    if len(rules) != 1:
        raise InputError(
            f"{module} holds {len(rules)} rules, and a module of policies/rules holds one",
            remedy="split it, or name helpers with a leading underscore",
        )
    return rules
