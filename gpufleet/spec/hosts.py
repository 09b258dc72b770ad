"""Host ranges: `dgx[001-064]` is 64 hosts, in order, with names that DNS and Slurm take."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, ClassVar, Self

from pydantic import GetJsonSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

from gpufleet.spec.parsing import Quantity

MOST_HOSTS = 10_000
_SHAPE = re.compile(r"([^\[\]]*)\[([^\[\]]*)\]([^\[\]]*)")
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMBERS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


class HostRange(Quantity, frozen=True):
    """Hosts written as a range (`dgx[001-064]`), expanded in order."""

    text: str
    hosts: tuple[str, ...]

    noun: ClassVar[str] = "a host range"
    accepted: ClassVar[str] = "a host, or a name with one bracket of numbers of equal width"
    examples: ClassVar[tuple[str, ...]] = ("dgx[001-064]", "dgx[001-010,012]", "login1")
    pattern: ClassVar[str] = (
        r"^\s*[a-z][a-z0-9-]*(\[[0-9]+(-[0-9]+)?(\s*,\s*[0-9]+(-[0-9]+)?)*\][a-z0-9-]*)?\s*$"
    )
    description: ClassVar[str] = (
        "Hosts: one name, or a name with one bracket of numbers, padded to equal width."
    )

    @classmethod
    def parse(cls, text: str) -> Self:
        """The hosts of `text`: at most 10,000, all different, each a valid DNS label."""
        stripped = text.strip()
        if not stripped:
            raise cls.error(text, "it is empty")
        if len(stripped) > 1000:
            raise cls.error(text, "it is longer than 1000 characters")
        if "[" not in stripped and "]" not in stripped:
            return cls(stripped, (cls._checked(text, stripped),))
        match = _SHAPE.fullmatch(stripped)
        if match is None:
            raise cls.error(text, "it needs exactly one '[' and one ']'")
        prefix, inside, suffix = match.groups()
        numbers = cls._numbers(text, inside)
        if len(set(numbers)) != len(numbers):
            twice = Counter(numbers).most_common(1)[0][0]
            raise cls.error(text, f"{prefix}{twice}{suffix} is in it twice")
        # All names have the same shape, so the longest and the first stand for all of them.
        for number in (numbers[0], max(numbers, key=len)):
            cls._checked(text, f"{prefix}{number}{suffix}")
        return cls(stripped, tuple(f"{prefix}{number}{suffix}" for number in numbers))

    @classmethod
    def _numbers(cls, text: str, inside: str) -> list[str]:
        if not inside.strip():
            raise cls.error(text, "the brackets are empty, so it holds no host")
        numbers: list[str] = []
        for part in inside.split(","):
            match = _NUMBERS.fullmatch(part.strip(" \t"))
            if match is None:
                raise cls.error(
                    text, f"'{part.strip()[:30]}' is neither a number nor a range such as 001-064"
                )
            first, last = match[1], match[2] or match[1]
            padded = any(len(number) > 1 and number.startswith("0") for number in (first, last))
            if padded and len(first) != len(last):
                width = max(len(first), len(last))
                raise cls.error(
                    text,
                    f"{first} and {last} are padded to different widths",
                    f"write [{first.zfill(width)}-{last.zfill(width)}]",
                )
            low, high = int(first), int(last)
            if low > high:
                raise cls.error(
                    text, f"{first}-{last} is reversed, so it holds no host", f"write [{last}-{first}]"
                )
            if len(numbers) + high - low + 1 > MOST_HOSTS:
                raise cls.error(text, f"it holds more than {MOST_HOSTS} hosts", "split the site")
            width = len(first) if padded else 0
            numbers += [str(number).zfill(width) for number in range(low, high + 1)]
        return numbers

    @classmethod
    def _checked(cls, text: str, name: str) -> str:
        if _NAME.fullmatch(name):
            return name
        if len(name) > 63:
            raise cls.error(text, f"'{name[:40]}...' is longer than the 63 characters of a DNS label")
        if _NAME.fullmatch(name.lower()):
            raise cls.error(text, f"'{name}' has upper-case letters", f"write '{text.strip().lower()}'")
        if "." in name:
            raise cls.error(
                text, f"'{name}' has a dot", "write only host names; set the domain in ssh.domain"
            )
        raise cls.error(
            text,
            f"'{name}' is not a host name (lower-case letters, digits and '-'; a letter first, no '-' last)",
        )

    def __str__(self) -> str:
        return self.text


class HostList(HostRange, frozen=True):
    """Hosts written as a range, or as a list of hosts and ranges (`[ctl01, adm[1-2]]`), in order."""

    noun: ClassVar[str] = "hosts"
    accepted: ClassVar[str] = "a host, a range, or a list of them"

    @classmethod
    def _validate(cls, value: Any) -> Self:
        if not isinstance(value, (list, tuple)):
            return super()._validate(value)
        if not value:
            raise PydanticCustomError("too_short", "empty", {"min_length": 1})
        ranges = [HostRange._validate(item) for item in value]
        hosts = tuple(host for item in ranges for host in item.hosts)
        twice = Counter(hosts).most_common(1)[0]
        if twice[1] > 1:
            error = cls.error(str(twice[0]), f"{twice[0]} is listed twice", "list each host once")
            raise PydanticCustomError(
                "quantity", "{reason}; {remedy}", {"reason": error.reason, "remedy": error.remedy}
            )
        if len(hosts) > MOST_HOSTS:
            raise PydanticCustomError("too_long", "too many", {"max_length": MOST_HOSTS})
        return cls(", ".join(item.text for item in ranges), hosts)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        # Named in full, for the same reason.
        one = Quantity.__get_pydantic_json_schema__.__func__(cls, schema, handler)  # type: ignore[attr-defined]
        return {"anyOf": [one, {"type": "array", "minItems": 1, "items": one}]}
