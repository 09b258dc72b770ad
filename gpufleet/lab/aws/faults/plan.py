"""The file of faults: which faults, for which actions, how often."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpufleet.errors import InputError

Action = Annotated[
    str, Field(pattern=r"^[a-z0-9-]+:([A-Z][A-Za-z0-9]*|\*)$", description="service:Operation, or service:*")
]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Shortage(_Part):
    """Capacity of an instance type for `left` instances that run at the same time: in one zone, or in all.

    With a market only its instances count, and only they find no capacity.
    """

    type: str = Field(min_length=1)
    zone: str = ""
    left: int = Field(0, ge=0)
    market: Literal["", "spot", "on-demand"] = ""


class Delay(_Part):
    """Requests of an action take longer by that time."""

    action: Action
    seconds: float = Field(gt=0, le=300)


class InjectedFailure(_Part):
    """Requests of an action fail: `times` of them, from the `call`-th on (the first is 1).

    With `done` the action is performed, and only its answer is lost.
    """

    action: Action
    call: int = Field(1, ge=1)
    times: int = Field(1, ge=1)
    code: str = Field("InternalError", pattern=r"^[A-Za-z][A-Za-z0-9.]*$")
    message: str = "an injected fault"
    status: int = Field(500, ge=400, le=599)
    done: bool = False


class Faults(_Part):
    """All faults. By default there are none.

    `throttle` enables EC2's published token buckets. `late_s` is how long new resources are not found (EC2 by
    id, roles and instance profiles of IAM by name).
    """

    throttle: bool = False
    late_s: float = Field(0.0, ge=0, le=60)
    shortages: tuple[Shortage, ...] = ()
    slow: tuple[Delay, ...] = ()
    failures: tuple[InjectedFailure, ...] = ()

    def __bool__(self) -> bool:
        return self != Faults()


def read_faults(path: Path) -> Faults:
    """Return the faults in a file; none without it. Raises InputError for an invalid file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Faults()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"{path} cannot be read: {reason}", remedy="use a JSON file with faults") from None
    try:
        return Faults.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise InputError(
            f"{path}: {where}: {first['msg']}", remedy="run `gpufleet sandbox faults --clear`, or correct it"
        ) from None
