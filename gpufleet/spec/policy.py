"""What a fleet file says of policy rules: their enforcement and settings, and exemptions from them."""

import datetime as dt
import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from gpufleet.spec.base import Model
from gpufleet.spec.fields import Code, FreeText, Name, ResourceName

LEVELS = ("advisory", "mandatory", "remediate", "disabled")

LEAST_OF_A_NAME = 4
"""How many letters a `*` in an exemption follows at least: fewer would be everything."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def _date(value: Any) -> dt.date:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            return dt.date.fromisoformat(value)
        except ValueError:
            pass
    raise PydanticCustomError(
        "gpufleet",
        "{message}",
        {
            "rule": "date",
            "message": "not a date",
            "remedy": "write a date of the calendar, such as 2031-06-30",
        },
    )


def _some_resources(value: Any) -> Any:
    if not isinstance(value, str) or "*" not in value:
        return value
    if value.index("*") < len(value) - 1 or len(value) <= LEAST_OF_A_NAME or value.startswith("urn:"):
        raise PydanticCustomError(
            "gpufleet",
            "{message}",
            {
                "rule": "exemption-too-wide",
                "message": f"* stands at the end of a name, after {LEAST_OF_A_NAME} letters of it at least",
                "remedy": "name the resource, or set the rule to advisory in `policies`",
            },
        )
    return value


Date = Annotated[dt.date, BeforeValidator(_date), WithJsonSchema({"type": "string", "format": "date"})]


class RuleSettings(Model):
    """Enforcement and settings of one rule. The rule validates its settings."""

    enforcement: Annotated[
        Literal["advisory", "mandatory", "remediate", "disabled"] | None,
        Field(description="How it is enforced here; the rule's own level if left out."),
    ] = None
    settings: dict[Code, Any] = Field(
        default_factory=dict,
        description="The rule's settings, by the names in its documentation.",
        examples=[{"workloads": ["batch"]}],
    )


class Exemption(Model):
    """A rule that one resource may break, until a day. Afterwards the violation counts again."""

    rule: Annotated[Name, Field(description="The rule's name.", examples=["imdsv2-required"])]
    resource: Annotated[
        ResourceName,
        BeforeValidator(_some_resources),
        Field(
            description="Name or URN of the resource, or a name's beginning and *; `stack` if it has none.",
            examples=["atlas-prod-legacy-*"],
        ),
    ]
    reason: Annotated[
        FreeText,
        Field(description="Why.", examples=["The old scheduler reads the metadata from a container"]),
    ]
    approver: Annotated[FreeText, Field(description="Who allowed it.", examples=["jo@example.org"])]
    expires: Annotated[
        Date, Field(description="The last day that it holds, within a year.", examples=["2031-06-30"])
    ]
