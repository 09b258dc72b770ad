"""The fleet behind a stack: its file, plan and catalog, for rules that compare with what was declared."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpufleet.catalog import load_catalog
from gpufleet.errors import InputError, SpecError
from gpufleet.plan import build_plan
from gpufleet.policy.context import Surroundings
from gpufleet.spec.load import LoadedFleet, load_fleet

FLEET_FILE_KEY = "gpufleet:fleetFile"
EXEMPTIONS_FILE = "exemptions.yaml"


@dataclass(frozen=True, slots=True)
class StackOfFleet:
    """What a policy run knows of its stack: the fleet file with its places, and the surroundings of rules."""

    loaded: LoadedFleet | None
    around: Surroundings


def open_stack(
    root: Path,
    project: str,
    stack: str,
    config: Mapping[str, str],
    *,
    preview: bool,
    now: dt.datetime | None = None,
) -> StackOfFleet:
    """The fleet of a stack of the checkout `root`; without a fleet file of that name there is none.

    Raises SpecError for a fleet file that does not hold: nothing is judged by a broken file.
    """
    target = config.get(FLEET_FILE_KEY) or stack
    loaded: LoadedFleet | None = None
    try:
        loaded = load_fleet(target, root=root)
    except SpecError:
        raise
    except InputError:
        if config.get(FLEET_FILE_KEY):
            raise
    catalog = load_catalog()
    around = Surroundings(
        project=project,
        stack=stack,
        catalog=catalog,
        now=now or dt.datetime.now(dt.UTC),
        preview=preview,
        spec=loaded.spec if loaded else None,
        plan=build_plan(loaded.spec, catalog) if loaded else None,
        config=dict(config),
    )
    return StackOfFleet(loaded, around)
