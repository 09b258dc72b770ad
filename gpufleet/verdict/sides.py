"""The sides of a change: the fleet before and after it, each with stack and cost."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gpufleet.catalog import Catalog
from gpufleet.errors import InputError, SpecError
from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.policy.exemption_file import with_exemption_file
from gpufleet.pricing.models import FleetCost
from gpufleet.resources.stack import Stack
from gpufleet.spec.load import FLEET_FILE, STACKS, LoadedFleet, load_fleet
from gpufleet.verdict.git import GitRepository, Revision
from gpufleet.verdict.own_code import has_own_code, needed
from gpufleet.workspace import Workspace


class Side(Struct, frozen=True):
    """A fleet before or after a change. `fleet` and `plan` are None if there is no fleet."""

    fleet: LoadedFleet | None
    plan: FleetPlan | None
    stack: Stack
    cost: FleetCost


NOTHING = Side(None, None, Stack(()), FleetCost())


class Checkout(Struct, frozen=True):
    """The files of a commit in a temporary folder. `fleet` is None if the commit does not have it.

    With `own_code` the commit has the files of the running gpufleet, which are left out of the folder.
    """

    revision: Revision
    workspace: Workspace
    fleet: LoadedFleet | None
    own_code: bool

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"{self.revision.ref[:80]} ({self.revision.commit[:12]})"


def check_out(repository: GitRepository, revision: Revision, head: Workspace, folder: Path) -> Checkout:
    """Return the files of a commit with the fleet that corresponds to that of `head`.

    Raises SpecError if the commit's fleet file is invalid. The findings contain the ref.
    """
    own_code = has_own_code(repository, revision)
    root = repository.export(revision, folder, needed) if own_code else repository.export(revision, folder)
    workspace = Workspace(root, _target(head, root))
    try:
        fleet = _fleet(workspace)
    except SpecError as error:
        raise SpecError(
            [replace(each, file=f"{revision.ref}:{each.file}") for each in error.findings]
        ) from None
    return Checkout(revision, workspace, fleet, own_code)


def _target(head: Workspace, root: Path) -> str:
    if not head.is_path:
        return head.target
    try:
        return str(root / Path(head.target).relative_to(head.root.resolve()))
    except ValueError:
        raise InputError(
            f"{head.target} is outside of the checkout, so no ref contains it",
            remedy="remove --base and --open, or move the file below stacks/",
        ) from None


def _fleet(workspace: Workspace) -> LoadedFleet | None:
    path = (
        Path(workspace.target)
        if workspace.is_path
        else workspace.root / STACKS / workspace.target / FLEET_FILE
    )
    if not path.exists():
        return None
    return with_exemption_file(load_fleet(workspace.target, root=workspace.root), workspace.root)


def side_of(fleet: LoadedFleet | None, stack: Stack, catalog: Catalog, region: str) -> Side:
    """Return a side with its cost, priced with the verdict's catalog."""
    from gpufleet.pricing import price_stack

    plan = build_plan(fleet.spec, catalog) if fleet is not None else None
    return Side(fleet, plan, stack, price_stack(stack, catalog, plan, default_region=region))
