"""What one host measured for one role, and how a check of it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from gpufleet.racks.verify.result import Result, Status

HUNG, NO_PROGRAM = 124, 127
_MOST = 160
_ROW_COMMAS = 4


class Reading(Struct, frozen=True):
    """What a text says, shortened for a table, and what is wrong with it (empty: nothing)."""

    measured: str
    problem: str = ""


class RoleMeasurements(Struct, frozen=True):
    """The measurements of one role on one host, by name: `{rc, stdout, stderr}` each.

    `values` are the role's variables: its defaults, and what the inventory says. `container` is whether
    the host has no kernel of its own, so that boot arguments and kernel modules are another's. `why`
    says why a host has no measurements at all.
    """

    host: str
    role: str
    values: Mapping[str, Any]
    found: Mapping[str, Mapping[str, Any]]
    container: bool = False
    why: str = ""

    def value(self, name: str, default: Any = None) -> Any:
        """A variable of the role, named without the role."""
        return self.values.get(f"{self.role}_{name}", default)

    def expect(
        self,
        check: str,
        name: str,
        evaluate: Callable[[str], Reading],
        *,
        expected: str = "",
        remedy: str = "",
        codes: tuple[int, ...] = (0,),
        wrong: Status = "fail",
    ) -> Result:
        """Evaluate the output of measurement `name` (without the role). Exit codes other than `codes`
        fail."""
        found = self.found.get(f"{self.role}_{name}")
        if found is None:
            why = self.why or "it is missing in the role's measurements"
            return self._wrong(check, "fail", "not measured", expected, f"was not measured: {why}", remedy)
        if found.get("rc") not in codes:
            message = _message(found)
            return self._wrong(check, wrong, message, expected, message, remedy)
        try:
            reading = evaluate(str(found.get("stdout", "")))
        except (ValueError, LookupError, TypeError, AttributeError, StopIteration) as error:
            message = f"the output is not what was expected ({type(error).__name__}: {error})"
            return self._wrong(check, "fail", "not readable", expected, message, remedy)
        if reading.problem:
            return self._wrong(check, wrong, reading.measured, expected, reading.problem, remedy)
        return Result(self.host, self.role, check, "pass", short(reading.measured), expected)

    def same(
        self,
        check: str,
        name: str,
        wanted: str,
        *,
        read: Callable[[str], str] = str.strip,
        remedy: str = "",
        codes: tuple[int, ...] = (0,),
    ) -> Result:
        """The text that `read` finds in the output is `wanted`."""

        def compare(text: str) -> Reading:
            measured = read(text)
            return Reading(
                measured, "" if measured == wanted else f"{measured or 'nothing'} instead of {wanted}"
            )

        return self.expect(check, name, compare, expected=wanted, remedy=remedy, codes=codes)

    def active(self, check: str, name: str, unit: str) -> Result:
        """`systemctl is-active` says active, for each unit that was asked for."""

        def read(text: str) -> Reading:
            states = text.split()
            bad = not states or any(state != "active" for state in states)
            return Reading(", ".join(states) or "nothing", f"{unit} is {', '.join(states)}" if bad else "")

        return self.expect(
            check,
            name,
            read,
            expected="active",
            remedy=f"systemctl status {unit}, journalctl -u {unit}",
            codes=(0, 1, 2, 3, 4),
        )

    def runs(self, check: str, name: str, *, remedy: str = "", wrong: Status = "fail") -> Result:
        """The command ends well; its output does not matter."""
        return self.expect(check, name, lambda _: Reading("yes"), expected="yes", remedy=remedy, wrong=wrong)

    def _wrong(
        self, check: str, status: Status, measured: str, expected: str, message: str, remedy: str
    ) -> Result:
        return Result(
            self.host, self.role, check, status, short(measured), expected, short(message, 400), remedy
        )


def _message(found: Mapping[str, Any]) -> str:
    code = found.get("rc")
    if code == HUNG:
        return "it did not end in time"
    lines = str(found.get("stdout") or "").splitlines()
    # Below its rows nvidia-smi prints why it failed.
    message = "\n".join(line for line in lines if line.count(",") < _ROW_COMMAS) or "\n".join(lines)
    text = short(str(found.get("stderr") or "") or message)
    if code == NO_PROGRAM:
        return f"it is not installed ({text})" if text else "it is not installed"
    return f"exit code {code}: {text}" if text else f"exit code {code}"


def short(text: str, most: int = _MOST) -> str:
    """One line, cut to what a table can show."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 3] + "..."


def again(found: RoleMeasurements) -> str:
    """The command that sets a role right on a host."""
    return f"gpufleet configure <env> --only {found.role} --limit {found.host}"
