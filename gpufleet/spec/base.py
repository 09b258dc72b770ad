"""The base of every model of the fleet file.

Modules with models do not import annotations from `__future__`: pydantic would compile the text of each
annotation again, a fifteenth of the time of `gpufleet plan`.
"""

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

Narrowed = dict[str, tuple[str, dict[str, tuple[str, ...]]]]
"""Field -> another field of the model, and the choices that each of its values leaves."""


class Model(BaseModel):
    """Base of all models of the fleet file: frozen; unknown fields are errors.

    `exactly_one_of` names optional fields of which exactly one must be set. The loader checks it too, so that
    it is reported with other errors of the same model.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)

    exactly_one_of: ClassVar[tuple[str, ...]] = ()
    narrowed_by: ClassVar[Narrowed] = {}
    """Fields whose choices depend on another field. Rules check this; remedies suggest only valid choices."""

    @model_validator(mode="after")
    def _has_exactly_one(self) -> Self:
        given = [kind for kind in self.exactly_one_of if getattr(self, kind) is not None]
        if self.exactly_one_of and len(given) != 1:
            listed = ", ".join(self.exactly_one_of)
            raise PydanticCustomError(
                "gpufleet",
                "{message}",
                {
                    "rule": "exactly-one-of",
                    "message": f"exactly one of {listed} is needed",
                    "remedy": "keep one",
                },
            )
        return self

    def chosen(self) -> Any:
        """The value of the one field of `exactly_one_of` that is given."""
        return next(each for kind in self.exactly_one_of if (each := getattr(self, kind)) is not None)
