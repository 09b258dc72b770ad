"""The entries of the table of changes."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from gpufleet.changes.observe import Effect


class Approval(StrEnum):
    """What a change needs in addition to the run of `up`."""

    NONE = ""
    DATA = "`--allow-data-loss`"
    RESERVATION = "an explicit removal"


class FieldChange(Struct, frozen=True):
    """One way to change a field: its effect, who is affected, and the needed approval.

    `slurm` is the effect in a Slurm site if it differs from that in a Kubernetes site.
    """

    how: str
    effect: Effect
    affects: str
    approval: Approval = Approval.NONE
    slurm: Effect | None = None

    @property
    def in_slurm(self) -> Effect:
        """Return the effect in a Slurm site."""
        return self.effect if self.slurm is None else self.slurm


NO_ONE = "no one"


def nothing(how: str, affects: str = NO_ONE) -> tuple[FieldChange, ...]:
    """Return the entry of a field whose change has no effect on resources."""
    return (FieldChange(how, Effect.NOTHING, affects),)


def in_place(how: str, affects: str = NO_ONE) -> tuple[FieldChange, ...]:
    """Return the entry of a field that changes only in place, in one way."""
    return (FieldChange(how, Effect.IN_PLACE, affects),)
