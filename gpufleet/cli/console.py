"""What every command writes with: one console for people, one JSON object for programs."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from rich.console import Console, ConsoleDimensions, ConsoleOptions
from rich.markup import escape
from rich.segment import Segment

from gpufleet.cli.hints import complete_hints
from gpufleet.cli.streams import lose, silence
from gpufleet.errors import GpufleetError, SpecError
from gpufleet.findings import Finding
from gpufleet.visible import visible, visible_line

# Without a terminal (a pipe, a CI log) there is no width to fit into, and 80 columns break tables.
_WIDTH_WITHOUT_TERMINAL = 140

# `PipeConsole.size` alone judges COLUMNS: Rich shows nothing for 0, and breaks off at what is no number.
_SEEN_BY_RICH = ChainMap({"COLUMNS": ""}, os.environ)


class PipeConsole(Console):
    """Wraps for people only, and goes on in silence when its reader is gone (`| head`).

    Rich would end the process there with exit code 1: in the middle of an update, and with the
    code that means "refused".
    """

    def print(self, *objects: Any, **options: Any) -> None:
        """As Rich's own, but `soft_wrap` (lines stay whole) is for pipes: a screen breaks between words.

        COLUMNS sets the width of the lines without one. Where the output cannot
        be written it goes on without, and `streams.finish` reports it.
        """
        if options.get("soft_wrap") and (self.is_terminal or _asked_columns()):
            options["soft_wrap"] = False
        try:
            super().print(*objects, **options)
        except OSError as error:
            self.quiet = True
            lose(self.file, error)

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Rich's own segments, with what would act on a terminal spelled out."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)

    @property
    def size(self) -> ConsoleDimensions:
        """The screen's columns and rows; COLUMNS counts where there is no screen, too."""
        found = super().size
        columns = _asked_columns()
        return ConsoleDimensions(columns, found.height) if columns else found

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size

    def on_broken_pipe(self) -> None:
        """Drop what is still to be written."""
        self.quiet = True
        silence(self.file)


def _asked_columns() -> int:
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and len(columns) < 5 else 0


def is_terminal(stream: IO[str]) -> bool:
    """Whether a person watches `stream`. Rich's own answer is also yes for FORCE_COLOR in a CI log."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    # A stream that the caller has closed is None here; `streams.prepare` puts another in its place.
    width = None if stream is not None and stream.isatty() else _WIDTH_WITHOUT_TERMINAL
    # No emoji: they would make a picture of what stands between two colons in a user's own text.
    return PipeConsole(stderr=stderr, highlight=False, emoji=False, width=width, _environ=_SEEN_BY_RICH)


out = _console(stderr=False)
err = _console(stderr=True)
"""Progress, warnings and advice: nothing of it with --quiet."""
errors = _console(stderr=True)
"""Why a command fails."""


def from_here(text: object) -> str:
    """A text with the paths below the working folder as they are from there."""
    try:
        here = str(Path.cwd())
    except OSError:
        return str(text)
    return re.sub(rf"(?<![\w./-]){re.escape(here.rstrip(os.sep))}{os.sep}(?=[\w.])", "", str(text))


def set_quiet(wanted: bool) -> None:
    """Print errors and results only, from now on."""
    err.quiet = wanted


def is_quiet() -> bool:
    """Whether only errors and results are printed."""
    return err.quiet


def note(text: str, *, markup: bool = False) -> None:
    """Print a line beside the result (a legend, what to run next), unless --quiet; hints are completed."""
    if not is_quiet():
        out.print(complete_hints(text), markup=markup, soft_wrap=True)


def emit_text(text: str) -> None:
    """Write text for a program: never wrapped, coloured or cut; what would act on a terminal spelled out."""
    try:
        sys.stdout.write(visible(text))
        sys.stdout.flush()
    except OSError as error:
        lose(sys.stdout, error)


def emit_json(document: Mapping[str, Any]) -> None:
    """Write one JSON object on one line of stdout: the last line of a command with --json."""
    emit_text(json.dumps(document, default=str) + "\n")


def print_findings(findings: Iterable[Finding], console: Console = err) -> None:
    """Each finding as `file:line: severity: field: message` with its value and remedy below."""
    for finding in findings:
        color = "red" if finding.severity == "error" else "yellow"
        place = escape(visible_line(f"{finding.file}:{finding.line}"))
        field = f"{escape(visible_line(finding.field))}: " if finding.field else ""
        first = (
            f"[bold]{place}[/bold]: [{color}]{finding.severity}[/{color}]: "
            f"{field}{escape(visible_line(finding.message))} [dim]({escape(finding.rule)})[/dim]"
        )
        lines = [first]
        value = finding.to_json()["value"]
        if value not in (None, ""):
            lines.append(f"    value:  {escape(visible_line(str(value)))}")
        lines.append(f"    remedy: {escape(complete_hints(visible_line(finding.remedy)))}")
        # At once: a file can have a thousand findings.
        console.print("\n".join(lines), soft_wrap=True)


def print_error(error: GpufleetError) -> None:
    """The error for a person: findings first, then what is wrong and what to do."""
    if isinstance(error, SpecError):
        print_findings(
            [each for each in error.findings if each.severity == "error" or not is_quiet()], errors
        )
    errors.print(f"[red]error:[/red] {escape(error.message)}", soft_wrap=True)
    if error.remedy:
        errors.print(f"  fix: {complete_hints(error.remedy)}", soft_wrap=True, markup=False)


def error_json(error: GpufleetError) -> dict[str, Any]:
    """The error for a program, under the same exit code."""
    document: dict[str, Any] = {
        "error": error.message,
        "remedy": complete_hints(error.remedy),
        "exit_code": int(error.exit_code),
    }
    if isinstance(error, SpecError):
        document["findings"] = [finding.to_json() for finding in error.findings]
    return document
