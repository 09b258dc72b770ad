"""The entries of the table of changes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpufleet.changes.observe import Effect


class Approval(StrEnum):
    """What a change needs besides the run of `up` itself."""

    NONE = ""
    DATA = "`--allow-data-loss`"
    RESERVATION = "an explicit removal"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One way to change a field: what it does, who notices, and which approval it needs.

    `slurm` is the effect in a Slurm site where it differs from that in a Kubernetes site.
    """

    how: str
    effect: Effect
    notices: str
    approval: Approval = Approval.NONE
    slurm: Effect | None = None

    @property
    def in_slurm(self) -> Effect:
        """The effect in a Slurm site."""
        return self.effect if self.slurm is None else self.slurm


NOBODY = "nobody"


def nothing(how: str, notices: str = NOBODY) -> tuple[FieldChange, ...]:
    """A field whose change no engine sees."""
    return (FieldChange(how, Effect.NOTHING, notices),)


def in_place(how: str, notices: str = NOBODY) -> tuple[FieldChange, ...]:
    """A field that changes only in place, in one way."""
    return (FieldChange(how, Effect.IN_PLACE, notices),)
