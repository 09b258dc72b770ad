"""Results of a preflight: each check of each region, with what is missing or could not be checked."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from gpufleet.findings import Severity

Status = Literal["pass", "missing", "not-checked"]

SpecPath = tuple[str | int, ...]
"""The path of a field of the fleet file: keys and list indices, as in `("cloud", 0, "zones")`."""


class AccountFinding(Struct, frozen=True):
    """What the account lacks for a fleet: `value` is what it has or what the fleet asks for.

    `rule` is a stable identifier, `path` the field of the fleet file that needs it, `request` the command
    that requests it (empty if there is none). An error makes `up` fail now; a warning prevents the fleet from
    growing to its maximum, or may be wrong (a permission that a condition or a resource decides).
    """

    rule: str
    path: SpecPath
    value: Any
    message: str
    remedy: str
    request: str = ""
    severity: Severity = "error"


class AccountCheck(Struct, frozen=True):
    """One check in one region. `unchecked` are the reasons why something could not be read.

    `facts` are what was read, for people: the zone ids of the account, quotas and their use.
    """

    check: str
    region: str
    findings: tuple[AccountFinding, ...] = ()
    unchecked: tuple[str, ...] = ()
    facts: tuple[dict[str, Any], ...] = ()

    @property
    def status(self) -> Status:
        """`missing` if anything is, else `not-checked` if anything could not be read, else `pass`."""
        if self.findings:
            return "missing"
        return "not-checked" if self.unchecked else "pass"


class Preflight(Struct, frozen=True):
    """All checks of an account. `account` is masked, `caller` the kind of its credentials."""

    account: str
    checks: tuple[AccountCheck, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def findings(self) -> tuple[AccountFinding, ...]:
        """Everything that is missing, errors first."""
        every = [finding for check in self.checks for finding in check.findings]
        return tuple(sorted(every, key=lambda finding: finding.severity != "error"))

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Everything that could not be checked, with check and region."""
        return tuple(
            f"{check.check} in {check.region}: {reason}"
            for check in self.checks
            for reason in check.unchecked
        )

    @property
    def status(self) -> Status:
        """The status of all checks together."""
        found = {check.status for check in self.checks}
        return "missing" if "missing" in found else "not-checked" if "not-checked" in found else "pass"
