"""The commands that messages offer: completed with the environment and the options that the user gave.

Messages name commands in backticks (`gpufleet preview`). Where they are raised it is unknown how gpufleet was
called, so each is completed where it is printed.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

import typer

# Options that mean the same wherever they are. What allows a loss, answers a question or forms the output
# is not repeated: the user says that again or not.
_REPEATED = (
    *("cloud", "engine", "parallel", "skip_policies", "policy_config"),
    *("site", "limit", "only", "transport", "ssh_config", "forks"),
)
_OFFERED = re.compile(r"`gpufleet ([a-z][^`\n]*)`")
_PLACEHOLDER = re.compile(r"<env(?:ironment)?>")
_invocation: list[typer.Context] = []


def remember(context: typer.Context) -> None:
    """Take the command that runs for what hints are completed with."""
    _invocation[:] = [context]


def forget() -> None:
    """Complete hints with nothing, until a command is remembered."""
    _invocation.clear()


def hint(*words: str) -> str:
    """`gpufleet <words>` with the environment and the options of the command that runs.

    Only what the named command takes, and what the words do not say already.
    """
    return _completed(" ".join(words))


def complete_hints(text: str) -> str:
    """A text with each `gpufleet ...` in backticks completed as `hint` does it."""
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
    """The command that the words name (None for one of a newer gpufleet) and the words behind its name."""
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
    """Parameter -> words that give it as the user did; the defaults are left out."""
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
