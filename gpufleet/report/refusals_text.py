"""The last lines of a refused verdict or run: each violation with place and remedy."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from rich.console import Console
from rich.text import Text

from gpufleet.report.verdict_words import in_number, one_line
from gpufleet.visible import visible_line


class PolicyRefusal(Struct, frozen=True):
    """A violation of a mandatory rule; `name` is the resource's, `file` is empty without a known line."""

    rule: str
    name: str
    message: str
    remedy: str = ""
    file: str = ""
    line: int = 0

    @property
    def why(self) -> str:
        """Return the message without the remedy, which rules append."""
        return self.message.replace(f"; {self.remedy}", "", 1) if self.remedy else self.message


def print_refusals(refusals: Sequence[PolicyRefusal], console: Console) -> None:
    """Print `2 violations of 1 rule forbid this:` and each of them; nothing without refusals."""
    if not refusals:
        return
    rules = len({each.rule for each in refusals})
    one = len(refusals) == 1
    console.print()
    console.print(
        Text(
            f"{in_number(len(refusals), 'violation')} of {in_number(rules, 'rule')} "
            f"forbid{'s' if one else ''} this:",
            style="bold red",
        ),
        soft_wrap=True,
    )
    for each in refusals:
        place = Text(visible_line(f"{each.file}:{each.line}: ") if each.file else "", style="bold")
        what = f"{each.rule}: {one_line(each.name, 120)}: {one_line(each.why)}"
        console.print(Text.assemble(place, Text("error: ", style="red"), what), soft_wrap=True)
        if each.remedy:
            console.print(Text(f"    remedy: {one_line(each.remedy)}"), soft_wrap=True)
