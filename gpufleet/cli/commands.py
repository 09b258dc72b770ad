"""The commands by name, each imported when it is called: `--version` and `validate` stay quick."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

# command -> the module of gpufleet.cli that registers it, in the order in which help lists them
_MODULES = {
    "init": "init",
    "validate": "inspect",
    "plan": "inspect",
    "schema": "inspect",
    "check": "check",
    "report": "report",
    "preview": "run",
    "up": "run",
    "refresh": "run",
    "destroy": "run",
    "outputs": "run",
    "inventory": "inventory",
    "configure": "configure",
    "verify": "verify",
    "operate": "operate",
    "hostkeys": "hostkeys",
    "secrets": "secrets",
    "state": "state",
    "rules": "rules",
    "comment": "comment",
    "catalog": "catalog",
    "sandbox": "sandbox",
    "rack": "rack",
}


def new_app(**settings: Any) -> typer.Typer:
    """A Typer app with the settings that all of gpufleet's have."""
    return typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, **settings
    )


class LazyCommands(MutableMapping[str, Any]):
    """Command name -> command; looking a command up imports its module."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(name, _MODULES[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]


class LazyGroup(TyperGroup):
    """The top of the command line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": None})
        self.commands = LazyCommands()


def _load(name: str, module_name: str) -> Any:
    module = import_module(f"gpufleet.cli.{module_name}")
    app = new_app()
    if hasattr(module, "app"):
        app.add_typer(module.app, name=name)
    else:
        module.register(app)
    command = get_command(app)
    return command.commands[name] if isinstance(command, TyperGroup) else command
