"""Completion of the commands in messages with the user's environment and options.

Messages contain commands in backticks (`gpufleet preview`). The code that raises them does not know the
command line, so they are completed when they are printed.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

import typer

# Options with the same meaning in all commands, except those that allow data loss, confirm, or format.
_REPEATED = (
    *("cloud", "engine", "parallel", "skip_policies", "policy_config"),
    *("site", "limit", "only", "transport", "ssh_config", "forks"),
)
_OFFERED = re.compile(r"`gpufleet ([a-z][^`\n]*)`")
_PLACEHOLDER = re.compile(r"<env(?:ironment)?>")
_invocation: list[typer.Context] = []


def remember(context: typer.Context) -> None:
    """Store the running command for the completion of hints."""
    _invocation[:] = [context]


def forget() -> None:
    """Clear the stored command."""
    _invocation.clear()


def hint(*words: str) -> str:
    """Return `gpufleet <words>` with the environment and options of the running command.

    Adds only options that the named command has and that are not in `words`.
    """
    return _completed(" ".join(words))


def complete_hints(text: str) -> str:
    """Return a text with each `gpufleet ...` in backticks completed by `hint`."""
    if not _invocation or "`gpufleet " not in text:
        return text
    return _OFFERED.sub(lambda found: f"`{_completed(found[1])}`", text)


def _completed(words: str) -> str:
    given = _given()
    if _PLACEHOLDER.search(words) and "environment" in given:
        words = _PLACEHOLDER.sub(lambda _: given["environment"][0], words)
    command, rest = _command(words.split())
    if command is None:
        return f"gpufleet {words}"
    added: list[str] = []
    for parameter in command.params:
        name = parameter.name or ""
        if name not in given:
            continue
        if name == "environment":
            if parameter.required and not any(not word.startswith("-") for word in rest):
                added[:0] = given[name]
        elif not set(parameter.opts) & set(words.split()):
            added += given[name]
    return " ".join(["gpufleet", words, *added])


def _command(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command of `words` (None if this gpufleet does not have it) and the words after its name."""
    root: Any = _invocation[-1].find_root().command if _invocation else None
    commands: Any = getattr(root, "commands", None)
    while words and commands:
        if words[0] not in commands:
            return None, words
        command, words = commands[words[0]], words[1:]
        commands = getattr(command, "commands", None)
        if not commands or not words or words[0].startswith("-"):
            return command, words
    return None, words


def _given() -> dict[str, list[str]]:
    """Return parameter -> its words on the command line, without defaults."""
    found: dict[str, list[str]] = {}
    for context in _invocation:
        for parameter in context.command.params:
            name = parameter.name or ""
            value = context.params.get(name)
            source = context.get_parameter_source(name)
            if value is None or source is None or source.name != "COMMANDLINE":
                continue
            if name == "environment":
                found[name] = [shlex.quote(str(value))]
            elif name in _REPEATED:
                found[name] = _words(parameter.opts[0], value)
    return found


def _words(option: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [option] if value else []
    values = value if isinstance(value, list | tuple) else [value]
    return [word for each in values for word in (option, shlex.quote(str(each)))]
