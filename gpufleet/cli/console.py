"""Output of all commands: text on a console, or one JSON object."""

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

# Without a terminal (a pipe, a CI log) there is no fixed width, and 80 columns would break tables.
_WIDTH_WITHOUT_TERMINAL = 140

# Only `PipeConsole.size` reads COLUMNS: Rich prints nothing for 0 and fails for invalid numbers.
_SEEN_BY_RICH = ChainMap({"COLUMNS": ""}, os.environ)


class PipeConsole(Console):
    """Wraps lines only on a terminal, and ignores a closed pipe (`| head`).

    Rich would end the process with exit code 1, in the middle of an update and with the code for "refused".
    """

    def print(self, *objects: Any, **options: Any) -> None:
        """As in Rich, but `soft_wrap` (no line breaks) applies only to pipes.

        COLUMNS sets the line width without a terminal. `streams.finish` reports output that could not be
        written.
        """
        if options.get("soft_wrap") and (self.is_terminal or _asked_columns()):
            options["soft_wrap"] = False
        try:
            super().print(*objects, **options)
        except OSError as error:
            self.quiet = True
            lose(self.file, error)

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """As in Rich, with terminal control characters escaped."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)

    @property
    def size(self) -> ConsoleDimensions:
        """The columns and rows of the terminal. Without one, COLUMNS applies."""
        found = super().size
        columns = _asked_columns()
        return ConsoleDimensions(columns, found.height) if columns else found

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size

    def on_broken_pipe(self) -> None:
        """Drop the remaining output."""
        self.quiet = True
        silence(self.file)


def _asked_columns() -> int:
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and len(columns) < 5 else 0


def is_terminal(stream: IO[str]) -> bool:
    """Return whether `stream` is a terminal. Rich also returns True for FORCE_COLOR in a CI log."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    # A stream that the caller closed is None here until `streams.prepare` replaces it.
    width = None if stream is not None and stream.isatty() else _WIDTH_WITHOUT_TERMINAL
    # No emoji codes: user text may contain words between colons.
    return PipeConsole(stderr=stderr, highlight=False, emoji=False, width=width, _environ=_SEEN_BY_RICH)


out = _console(stderr=False)
err = _console(stderr=True)
"""Progress, warnings and hints. Silent with --quiet."""
errors = _console(stderr=True)
"""Errors, also with --quiet."""


def from_here(text: object) -> str:
    """Return a text with paths relative to the current folder."""
    try:
        here = str(Path.cwd())
    except OSError:
        return str(text)
    return re.sub(rf"(?<![\w./-]){re.escape(here.rstrip(os.sep))}{os.sep}(?=[\w.])", "", str(text))


def set_quiet(wanted: bool) -> None:
    """Print only errors and results if `wanted`."""
    err.quiet = wanted


def is_quiet() -> bool:
    """Return whether only errors and results are printed."""
    return err.quiet


def note(text: str, *, markup: bool = False) -> None:
    """Print a note (a legend, the next command) unless --quiet, with completed hints."""
    if not is_quiet():
        out.print(complete_hints(text), markup=markup, soft_wrap=True)


def emit_text(text: str) -> None:
    """Write text for programs: not wrapped, coloured or truncated, with control characters escaped."""
    try:
        sys.stdout.write(visible(text))
        sys.stdout.flush()
    except OSError as error:
        lose(sys.stdout, error)


def emit_json(document: Mapping[str, Any]) -> None:
    """Write one JSON object on one line of stdout, the last line of a command with --json."""
    emit_text(json.dumps(document, default=str) + "\n")


def print_findings(findings: Iterable[Finding], console: Console = err) -> None:
    """Print each finding as `file:line: severity: field: message`, with value and remedy below."""
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
        # One write: a file can have a thousand findings.
        console.print("\n".join(lines), soft_wrap=True)


def print_error(error: GpufleetError) -> None:
    """Print an error: findings, message and remedy."""
    if isinstance(error, SpecError):
        print_findings(
            [each for each in error.findings if each.severity == "error" or not is_quiet()], errors
        )
    errors.print(f"[red]error:[/red] {escape(error.message)}", soft_wrap=True)
    if error.remedy:
        errors.print(f"  fix: {complete_hints(error.remedy)}", soft_wrap=True, markup=False)


def error_json(error: GpufleetError) -> dict[str, Any]:
    """Return an error as JSON, with its exit code."""
    document: dict[str, Any] = {
        "error": error.message,
        "remedy": complete_hints(error.remedy),
        "exit_code": int(error.exit_code),
    }
    if isinstance(error, SpecError):
        document["findings"] = [finding.to_json() for finding in error.findings]
    return document
