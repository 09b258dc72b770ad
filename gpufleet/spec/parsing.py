"""Reading numbers with units: exact decimals, one error that says what is wrong and what to write.

pint was tried and left out: importing it and building its registry takes 0.4 s, twice the rest of
the command line's start; it evaluates expressions (`3 * 8 GiB`); and it turns `24 TB` into a
fraction of a GiB without a word, where a file system has to be a whole number of GiB.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, ClassVar, Self

from msgspec import Struct
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

LONGEST = 60
NUMBER = r"[0-9]+(\.[0-9]+)?"
_SPLIT = re.compile(r"([0-9]{1,15})(\.[0-9]{1,9})?[ \t]*(.*)", re.DOTALL)


class QuantityError(ValueError):
    """A quantity that cannot be read: `reason` in words, `remedy` with an example."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy


class Quantity(Struct, frozen=True):
    """Base of all quantities: a pydantic field type that is written as text.

    Subclasses say what is `accepted`, give `examples`, a `pattern` for editors (a superset of what
    `parse` takes, ECMA 262 syntax) and a `description`, and implement `parse`.
    """

    noun: ClassVar[str]
    accepted: ClassVar[str]
    examples: ClassVar[tuple[str, ...]]
    pattern: ClassVar[str]
    description: ClassVar[str]

    @classmethod
    @abstractmethod
    def parse(cls, text: str) -> Self:
        """The quantity that `text` says. Raises `QuantityError`."""

    @classmethod
    def error(cls, text: str, why: str, remedy: str = "") -> QuantityError:
        """The error for `text`; without a `remedy` of its own it names what is accepted."""
        shown = text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
        general = f"write {cls.accepted}, such as '{cls.examples[0]}'"
        return QuantityError(f"'{shown}' is not {cls.noun}: {why}", remedy or general)

    @classmethod
    def read(cls, text: str, units: Mapping[str, Decimal]) -> Decimal:
        """`text` as one number, converted by the factor of its unit. Raises `QuantityError`."""
        number, unit = cls.split(text)
        if not unit:
            raise cls.error(text, "the unit is missing")
        if unit in units:
            return number * units[unit]
        folded = {known.casefold(): known for known in units}
        near = get_close_matches(unit.casefold(), folded, n=1, cutoff=0.6)
        hint = f" (did you mean '{folded[near[0]]}'?)" if near else ""
        raise cls.error(text, f"unknown unit '{unit[:20]}'{hint}")

    @classmethod
    def split(cls, text: str) -> tuple[Decimal, str]:
        """Split `text` into number and unit without validating them. Raises `QuantityError`."""
        stripped = text.strip()
        if not stripped:
            raise cls.error(text, "it is empty")
        if len(stripped) > LONGEST:
            raise cls.error(text, f"it is longer than {LONGEST} characters")
        if stripped[0] in "-\N{MINUS SIGN}":
            raise cls.error(text, "it is negative")
        match = _SPLIT.fullmatch(stripped)
        if match is None:
            raise cls.error(text, "it does not start with a number")
        whole, fraction, unit = match.groups()
        if unit.startswith(","):
            raise cls.error(text, "numbers have no commas (a decimal point is '.', thousands have no mark)")
        if re.match(r"[eE][+-]?[0-9]", unit):
            raise cls.error(text, "exponents are not accepted")
        if re.match(r"[0-9._']", unit):
            raise cls.error(text, "the number has too many digits or is malformed")
        return Decimal(whole + (fraction or "")), unit

    @classmethod
    def _validate(cls, value: Any) -> Self:
        if isinstance(value, cls):
            return value
        if isinstance(value, bool) or not isinstance(value, (str, int, float, Decimal)):
            raise PydanticCustomError("not_text", "{noun}", {"noun": cls.noun})
        try:
            return cls.parse(str(value))
        except QuantityError as error:
            raise PydanticCustomError(
                "quantity", "{reason}; {remedy}", {"reason": error.reason, "remedy": error.remedy}
            ) from None

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validate, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {
            "type": "string",
            "pattern": cls.pattern,
            "examples": list(cls.examples),
            "description": cls.description,
        }


def plain(number: Decimal) -> str:
    """A decimal as people write it: no exponent, no trailing zeros."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
