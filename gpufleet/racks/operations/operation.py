"""What an operation is: a playbook, the options that people give it, and what it asks consent for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal

from msgspec import Struct

from gpufleet.errors import InputError

OptionKind = Literal["str", "int", "bool", "batch"]
"""`batch` is a number or percentage of hosts, as `serial` in Ansible."""
Value = str | int | bool

_BATCH = re.compile(r"[1-9][0-9]{0,3}|(?:100|[1-9][0-9]?)%")
_WORDS: Mapping[str, bool] = {"yes": True, "true": True, "no": False, "false": False}


class Option(Struct, frozen=True):
    """One `-o name=value`. The playbook gets it as variable `operation_<name>`.

    `pattern` is what a text has to match as a whole, `choices` what it may be. `least` and `most` bound a
    number, in the unit that `help` names. `default` None leaves the variable out, so that the playbook's own
    default counts; with `required` there is none.
    """

    name: str
    kind: OptionKind
    help: str
    default: Value | None = None
    required: bool = False
    least: int = 0
    most: int = 1_000_000
    choices: tuple[str, ...] = ()
    pattern: str = ""

    def read(self, text: str) -> Value:
        """The value of a text. Raises InputError with what would be right."""
        if self.kind == "int":
            if text.isascii() and text.isdigit() and self.least <= int(text) <= self.most:
                return int(text)
            raise self._wrong(text, f"a whole number from {self.least} to {self.most}")
        if self.kind == "bool":
            if text.lower() in _WORDS:
                return _WORDS[text.lower()]
            raise self._wrong(text, "yes or no")
        if self.kind == "batch":
            if _BATCH.fullmatch(text):
                return text
            raise self._wrong(text, "a number of hosts or a percentage from 1% to 100%")
        if self.choices and text not in self.choices:
            raise self._wrong(text, f"one of {', '.join(self.choices)}")
        if self.pattern and not re.fullmatch(self.pattern, text):
            raise self._wrong(text, f"of the form {self.pattern}")
        if not text or not text.isprintable():
            raise self._wrong(text, "a text")
        return text

    def _wrong(self, text: str, rule: str) -> InputError:
        return InputError(f"{self.name}={text}: it has to be {rule}", remedy=f"{self.name}: {self.help}")


class Operation(Struct, frozen=True):
    """One operation.

    `playbook` is relative to ansible/. With `first`, that playbook runs before it on targets and helpers, and
    `playbook` then only on the targets. `group` is the inventory's group of hosts that it is for: what --site
    and --limit select of it are its targets. `also` are groups of which the hosts at the targets' sites take
    part beside them, as helpers (the controllers, mostly). `asks` says what it does to hosts, in a question
    that has to be answered with yes unless --yes is given; empty: it does no harm and nothing is asked.
    `named` asks for the hosts' names with option `confirm`, which --yes does not answer. `one_by_one` means
    that targets have to be named with --limit. `secrets_of` are the roles whose secrets the playbook needs,
    and `secrets_for` gives those that only some options need.
    `preflight` measures the targets first, as `gpufleet configure` does. `marks` means that the playbook says
    of each target when it is through with it (fact `operation_done`): without the mark a target is not done,
    and a resumed run visits it again. `together` is a group of which a resumed run visits all hosts of a site
    or none: what is done to them cannot be done to some. `reads` means that it changes nothing on hosts.
    `forgets` means that the ssh keys of hosts that are done are no longer trusted.
    `settle` makes options from options when an operation begins; a resumed run keeps them. `variables` makes
    variables of roles from the options, which win over the inventory.
    """

    name: str
    playbook: str
    summary: str
    group: str
    options: tuple[Option, ...] = ()
    also: tuple[str, ...] = ()
    first: str = ""
    asks: str = ""
    named: bool = False
    one_by_one: bool = False
    secrets_of: tuple[str, ...] = ()
    secrets_for: Callable[[Mapping[str, Value]], tuple[str, ...]] | None = None
    preflight: bool = False
    marks: bool = False
    together: str = ""
    reads: bool = False
    forgets: bool = False
    settle: Callable[[Mapping[str, Value]], Mapping[str, Value]] | None = None
    variables: Callable[[Mapping[str, Value]], Mapping[str, Any]] | None = None

    def roles_with_secrets(self, options: Mapping[str, Value]) -> tuple[str, ...]:
        """Return the roles whose secrets a run with these options needs."""
        return (*self.secrets_of, *(self.secrets_for(options) if self.secrets_for is not None else ()))

    def values(self, given: Sequence[str], before: Mapping[str, Value] | None = None) -> dict[str, Value]:
        """Option -> value of `name=value` texts, with defaults; `before` are those of a run that is resumed.

        Raises InputError for unknown, repeated, malformed and missing ones.
        """
        known = {option.name: option for option in self.options}
        found: dict[str, Value] = {}
        for text in given:
            name, equals, value = text.partition("=")
            if not equals:
                raise InputError(f"option {text!r} has no value", remedy="write -o name=value")
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise InputError(
                    f"{self.name} has no option {name!r}",
                    remedy=f"{hint}It has {', '.join(known) or 'none'}",
                )
            if name in found:
                raise InputError(f"option {name} is given twice", remedy="give it once")
            found[name] = known[name].read(value)
        found = {**(before or {}), **found}
        for option in self.options:
            if option.name not in found and option.default is not None:
                found[option.name] = option.default
            if option.required and option.name not in found:
                raise InputError(
                    f"{self.name} needs option {option.name}",
                    remedy=f"-o {option.name}=...: {option.help}",
                )
        return {name: found[name] for name in known if name in found}
