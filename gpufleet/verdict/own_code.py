"""Which programs of a verdict run with the running gpufleet, and not with one of their own checkout."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gpufleet.verdict.git import GitRepository, Revision

PACKAGES = Path(__file__).absolute().parents[2]
"""The folder of the running gpufleet, which may differ from the checkout's."""

CODE = ("gpufleet", "components", "policies", "stacks/*.py")
"""The files of gpufleet in a checkout of its own repository."""


def is_own(root: Path) -> bool:
    """Return whether this gpufleet is installed from the checkout `root`."""
    same = root.resolve() == PACKAGES.resolve()
    return same and str(PACKAGES) in sys.path[1:] and not os.environ.get("PYTHONPATH")


def has_own_code(repository: GitRepository, revision: Revision) -> bool:
    """Return whether a commit has exactly the files of the running gpufleet, as git compares them."""
    return is_own(repository.root) and not repository.changed(revision, *CODE)


def runs_own_code(repository: GitRepository, revision: Revision) -> bool:
    """Return whether programs of a commit run with the running gpufleet: it has the same, or none."""
    return has_own_code(repository, revision) or not repository.has(revision, "gpufleet")


def needed(name: str) -> bool:
    """Return whether a file is needed of a commit for which `has_own_code` is true: fleets and programs."""
    return name.startswith("stacks/") or (not name.endswith(".py") and not name.startswith("ansible/"))
