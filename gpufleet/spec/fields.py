"""Scalar field types of the fleet file: text in, one type out, and errors that need no translation.

The reader hands every scalar over as text (see `nodes`), so these types decide what a number or a
switch is. They take Python values too, for programs that build a spec without a file.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from gpufleet.spec.translate import describe_pattern

_WHOLE = re.compile(r"[+-]?[0-9]{1,15}")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?")
_SWITCH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


def _whole(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    raise PydanticCustomError("whole_number", "not a whole number")


def _decimal(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return float(value)
    raise PydanticCustomError("decimal_number", "not a number")


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _SWITCH:
        return _SWITCH[value]
    raise PydanticCustomError("flag", "neither true nor false")


Whole = Annotated[int, BeforeValidator(_whole)]
Number = Annotated[float, BeforeValidator(_decimal), Field(allow_inf_nan=False)]
Switch = Annotated[bool, BeforeValidator(_switch)]

# A tag or label `4711` or `true` is the text "4711" or "true"; editors may take it for a number.
Word = Annotated[str, WithJsonSchema({"type": ["string", "number", "boolean"]})]

NAME = describe_pattern(
    r"^[a-z]([a-z0-9-]*[a-z0-9])?$",
    "lower-case letters, digits and '-', with a letter first and no '-' last, such as 'pretrain-1'",
)
Name = Annotated[str, Field(pattern=NAME, max_length=63)]
NodeCount = Annotated[Whole, Field(ge=0, le=100_000)]
