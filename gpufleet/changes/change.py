"""What the table of changes consists of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpufleet.changes.observe import Effect


class Word(StrEnum):
    """Whose word a change needs beyond that of whoever runs `up`."""

    NONE = ""
    DATA = "`--allow-data-loss`"
    RESERVATION = "an explicit removal"


@dataclass(frozen=True, slots=True)
class Change:
    """One way to change a field: what it does, who notices, and whose word it needs.

    `slurm` is the effect in a Slurm site where it is another one than in a Kubernetes site.
    """

    how: str
    effect: Effect
    notices: str
    word: Word = Word.NONE
    slurm: Effect | None = None

    @property
    def in_slurm(self) -> Effect:
        """The effect in a Slurm site."""
        return self.effect if self.slurm is None else self.slurm


NOBODY = "nobody"


def nothing(how: str, notices: str = NOBODY) -> tuple[Change, ...]:
    """A field whose change no engine sees."""
    return (Change(how, Effect.NOTHING, notices),)


def in_place(how: str, notices: str = NOBODY) -> tuple[Change, ...]:
    """A field that changes in place in one way alone."""
    return (Change(how, Effect.IN_PLACE, notices),)
