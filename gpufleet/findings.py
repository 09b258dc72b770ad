"""A finding: one error or warning about the user's input, with its place and its remedy."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

Severity = Literal["error", "warning"]

SAME_AS_FINDING = {"price-age": "price-catalog-age"}
"""Rules of findings that the policy pack also reports: a run prints one of the two."""

FINDINGS_SHOWN = "GPUFLEET_FINDINGS_SHOWN"
"""Environment variable of a stack program whose caller has already shown the fleet file's warnings."""


class Finding(Struct, frozen=True):
    """One finding of `gpufleet validate`; `to_json` is part of the stable contract.

    `field` is a dotted path with list indices (`cloud[0].node_groups[1].capacity`), `value` what the user
    wrote, `rule` the identifier of the rule in kebab-case, `message` the explanation, `remedy` what to
    write instead.
    """

    file: str
    line: int
    field: str
    value: Any
    rule: str
    message: str
    remedy: str
    severity: Severity = "error"

    def to_json(self) -> dict[str, Any]:
        """Return the finding as plain JSON values; `value` is cut to a readable length."""
        data = asdict(self)
        if not isinstance(self.value, (str, int, float, bool, type(None))):
            data["value"] = str(self.value)
        if isinstance(data["value"], str) and len(data["value"]) > 200:
            data["value"] = data["value"][:197] + "..."
        return data
