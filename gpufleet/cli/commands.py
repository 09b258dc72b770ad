"""The commands by name. Each module is imported when its command runs, to keep startup fast."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, MutableMapping
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from gpufleet.cli import console, hints

# heading of the help -> command -> module of gpufleet.cli that registers it, in order of use
_PARTS = {
    "The fleet file": {
        "new": "new",
        "init": "init",
        "adopt": "adopt",
        "validate": "inspect",
        "plan": "inspect",
        "schema": "inspect",
        "catalog": "catalog",
    },
    "Preview and check changes": {
        "check": "check",
        "preview": "run",
        "rules": "rules",
        "comment": "comment",
        "report": "report",
    },
    "The cloud half": {
        "preflight": "preflight",
        "up": "run",
        "refresh": "run",
        "destroy": "run",
        "outputs": "run",
        "eks-token": "eks_token",
        "state": "state",
        "backend": "backend",
        "budget": "budget",
        "image": "image",
    },
    "The racks": {
        "inventory": "inventory",
        "configure": "configure",
        "verify": "verify",
        "operate": "operate",
        "hostkeys": "hostkeys",
        "secrets": "secrets",
        "mirror": "mirror",
    },
    "Cost and size": {
        "cost": "cost",
        "advise": "advise",
        "size": "size",
        "spot": "spot",
        "tco": "tco",
        "usage": "usage",
    },
    "Try it on this machine": {
        "sandbox": "sandbox",
        "rack": "rack",
    },
}
_MODULES = {name: module for part in _PARTS.values() for name, module in part.items()}


class CommandGroup(TyperGroup):
    """A command group whose help lists commands with full sentences."""

    def parts(self) -> dict[str, list[str]]:
        """Return heading -> commands, by default one heading."""
        return {"Commands": list(self.commands)}

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with their descriptions under their headings."""
        for heading, names in self.parts().items():
            with formatter.section(heading):
                formatter.write_dl([(name, _sentence(self.commands[name])) for name in names])


def _sentence(command: Any) -> str:
    """Return the first paragraph of a command's help on one line."""
    text = inspect.cleandoc(command.help or "").partition("\n\n")[0]
    return " ".join(text.split())


def new_app(**settings: Any) -> typer.Typer:
    """Return a Typer app with the settings shared by all commands."""
    defaults: dict[str, Any] = {"cls": CommandGroup, "add_completion": False}
    return typer.Typer(
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        **defaults | settings,
    )


class LazyCommands(MutableMapping[str, Any]):
    """Mapping of command name to command. A lookup imports its module."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(name, _MODULES[name])
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in _MODULES

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]


class LazyGroup(CommandGroup):
    """The top-level command group."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": None})
        self.commands = LazyCommands()

    def parts(self) -> dict[str, list[str]]:
        """Return heading -> commands, in order of use."""
        return {heading: list(names) for heading, names in _PARTS.items()}


def _load(name: str, module_name: str) -> Any:
    module = import_module(f"gpufleet.cli.{module_name}")
    app = new_app()
    if hasattr(module, "app"):
        app.add_typer(module.app, name=name)
    else:
        module.register(app)
    command = get_command(app)
    return _with_shared(command.commands[name] if isinstance(command, TyperGroup) else command)


def _with_shared(command: Any) -> Any:
    """Add the shared options to a command, or to each command of a group."""
    if isinstance(command, TyperGroup):
        for each in command.commands.values():
            _with_shared(each)
    else:
        command.params += _shared()
    return command


@cache
def _shared() -> list[Any]:
    app = new_app()

    @app.command()
    def _every(
        quiet: bool = typer.Option(
            False,
            *("--quiet", "-q"),
            help="Print errors and the result only.",
            callback=_take_quiet,
            is_eager=True,
            expose_value=False,
        ),
    ) -> None:
        pass

    return list(get_command(app).params)


def _take_quiet(context: typer.Context, wanted: bool) -> None:
    hints.remember(context)
    if wanted:
        console.set_quiet(True)
