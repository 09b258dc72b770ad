"""Import of programs and modules by path: those of hosts are in no package, and some have no suffix."""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from unittest.mock import patch


def load_source(path: Path, name: str) -> ModuleType:
    """Return a new module of a file, which `sys.modules` has under `name`. No bytecode is written."""
    spec = spec_from_loader(name, SourceFileLoader(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    with patch.object(sys, "dont_write_bytecode", True):
        spec.loader.exec_module(module)
    return module
