"""Environments that may be deleted with all that is in them."""

from __future__ import annotations

from typing import TypeVar

from pydantic import Field

from gpufleet.policy.context import Context
from gpufleet.policy.rule import Settings


class Environments(Settings):
    """Where data may be lost."""

    temporary: tuple[str, ...] = Field(
        ("sandbox", "dev"), description="Environments whose storage may be deleted and replaced"
    )


E = TypeVar("E", bound=Environments)


def is_temporary(context: Context[E]) -> bool:
    """Whether this environment is one of them, or ends on a date that its fleet file names."""
    spec = context.around.spec
    ends = spec is not None and spec.expires is not None
    return ends or context.environment in context.settings.temporary
