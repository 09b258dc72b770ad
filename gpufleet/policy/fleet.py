"""The fleet of a stack: its file, plan and catalog, for rules that compare with the declaration."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from gpufleet.catalog import load_catalog
from gpufleet.checks import OVERRIDES, ValidFleet
from gpufleet.errors import InputError, SpecError
from gpufleet.plan import build_plan
from gpufleet.policy.context import PolicyContext
from gpufleet.policy.exemption_file import with_exemption_file
from gpufleet.spec.load import LoadedFleet, load_fleet

FLEET_FILE_KEY = "gpufleet:fleetFile"
NOW = "GPUFLEET_POLICY_NOW"
"""Environment variable: the time to evaluate rules at (ISO 8601, UTC by default) instead of now."""


class StackOfFleet(Struct, frozen=True):
    """The fleet file of a policy run's stack, with line numbers, and the context of the rules."""

    loaded: LoadedFleet | None
    shared: PolicyContext


def open_stack(
    root: Path,
    project: str,
    stack: str,
    config: Mapping[str, str],
    *,
    preview: bool,
    now: dt.datetime | None = None,
    validated: ValidFleet | None = None,
) -> StackOfFleet:
    """Return the fleet of a stack of the checkout `root`, without a fleet if no fleet file has that name.

    Exemptions of the separate file are included. If the caller passes `validated`, the file is neither read
    nor planned again. Raises SpecError for an invalid file.
    """
    if validated is None:
        loaded, catalog = _load(root, stack, config), load_catalog(root / OVERRIDES)
        plan = build_plan(loaded.spec, catalog) if loaded else None
    else:
        loaded, catalog = with_exemption_file(validated.loaded, root), validated.catalog
        plan = validated.plan
    shared = PolicyContext(
        project=project,
        stack=stack,
        catalog=catalog,
        now=now or moment(),
        preview=preview,
        spec=loaded.spec if loaded else None,
        plan=plan,
        config=dict(config),
    )
    return StackOfFleet(loaded, shared)


def _load(root: Path, stack: str, config: Mapping[str, str]) -> LoadedFleet | None:
    target = config.get(FLEET_FILE_KEY) or stack
    try:
        return with_exemption_file(load_fleet(target, root=root), root)
    except SpecError:
        raise
    except InputError:
        if config.get(FLEET_FILE_KEY):
            raise
    return None


def moment() -> dt.datetime:
    """Return the time in `GPUFLEET_POLICY_NOW`, else the current time. Raises InputError if it is invalid."""
    text = os.environ.get(NOW)
    if not text:
        return dt.datetime.now(dt.UTC)
    try:
        named = dt.datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"{NOW} is {text[:40]!r}, which is not a date and time",
            remedy="write it as 2026-11-21T12:00:00+00:00",
        ) from None
    return named if named.tzinfo else named.replace(tzinfo=dt.UTC)
