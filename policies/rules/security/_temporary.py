"""Temporary environments: their data may be deleted."""

from __future__ import annotations

from typing import TypeVar

from pydantic import Field

from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Settings


class TemporaryEnvironmentSettings(Settings):
    """Where data may be lost."""

    temporary: tuple[str, ...] = Field(
        ("sandbox", "dev"), description="Environments whose storage may be deleted and replaced"
    )
    ends_within: int = Field(
        90, ge=0, description="An environment that expires within this number of days is temporary too"
    )


E = TypeVar("E", bound=TemporaryEnvironmentSettings)


def is_temporary(context: RuleContext[E]) -> bool:
    """Return whether the environment is listed, on trial, or expires soon by its fleet file."""
    spec, settings = context.shared.spec, context.settings
    ends = spec.expires if spec is not None else None
    soon = ends is not None and (ends - context.shared.now.date()).days <= settings.ends_within
    return context.shared.on_trial or soon or context.environment in settings.temporary
