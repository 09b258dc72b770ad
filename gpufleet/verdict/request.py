"""The options of a check. Imports little: the command line makes them before a check imports the rest."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from gpufleet.workspace import Cloud, Workspace


class CheckRequest(Struct, frozen=True):
    """The options of a check. `jobs` are the running jobs of node groups ("site/group" -> number).

    With engine `pulumi` the preview runs in `cloud` and compares with the deployed stack; `base` then
    provides only the earlier fleet file and rules. `change` is a commit whose data is judged by the code of
    `base`, in place of the work tree. `policy_config` is a file for Pulumi's
    `--policy-pack-config`. It overrides the fleet file.
    """

    workspace: Workspace
    engine: Literal["embedded", "pulumi"] = "embedded"
    cloud: Cloud | None = None
    base: str | None = None
    open_changes: tuple[str, ...] = ()
    change: str | None = None
    jobs: Mapping[str, int] = field(default_factory=dict)
    policy_config: Path | None = None
    now: dt.datetime | None = None
