"""Shipped environments as the rules see them."""

from __future__ import annotations

from pathlib import Path

from gpufleet.engine.embedded.engine import EmbeddedEngine
from gpufleet.policy.report import Report
from gpufleet.verdict.preview import PACK, preview_with_policies, sandbox_request
from gpufleet.verdict.scratch import scratch
from gpufleet.workspace import Workspace


def preview_environment(root: Path, environment: str) -> Report:
    """Preview of an environment of the checkout `root` from an empty state, judged by its rules.

    `environment` is a name or the path of a fleet file. Raises InputError for one that does not exist
    or whose preview fails.
    """
    with scratch() as own:
        request = sandbox_request(
            Workspace(root, environment), own.account, own.folder / "state.json", own_code=False
        )
        return preview_with_policies(
            EmbeddedEngine(), request, root / PACK, own.folder / "report.json"
        ).report
