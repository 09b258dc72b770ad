"""Options of calculators: quantities with a unit, with one error for all that cannot be read."""

from __future__ import annotations

import math
from typing import TypeVar

from gpufleet.errors import InputError
from gpufleet.spec.parsing import Quantity, QuantityError

AnyQuantity = TypeVar("AnyQuantity", bound=Quantity)


class OptionReader:
    """Reads options and collects their errors. `finish` raises them together."""

    def __init__(self) -> None:
        self._wrong: list[tuple[str, str]] = []

    def quantity(self, kind: type[AnyQuantity], option: str, text: str) -> AnyQuantity | None:
        """Return the quantity; None (until `finish`) for one that cannot be read."""
        try:
            return kind.parse(text)
        except QuantityError as error:
            self._wrong.append((f"{option}: {error.reason}", error.remedy))
            return None

    def optional(self, kind: type[AnyQuantity], option: str, text: str | None) -> AnyQuantity | None:
        """Return the quantity, None for an option that was not given."""
        return None if text is None else self.quantity(kind, option, text)

    def share(self, option: str, text: str) -> float:
        """Return a fraction of 1 that is written as `70%` or `0.7`."""
        number, percent, rest = text.strip().partition("%")
        try:
            value = float(number) / (100 if percent else 1)
        except ValueError:
            value = math.nan
        if rest or not 0 <= value <= 1:
            self._wrong.append((f"{option}: '{text}' is not a share from 0 to 1", "write '70%' or 0.7"))
            return math.nan
        return value

    def finish(self) -> None:
        """Raise InputError with all errors, if there are any."""
        if self._wrong:
            raise InputError(
                "; ".join(what for what, _ in self._wrong),
                remedy="; ".join(dict.fromkeys(remedy for _, remedy in self._wrong)),
            )
