"""A value of a stranger through every output: nothing of it acts on a terminal, a page or a comment."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from rich.table import Table
from rich.text import Text

from gpufleet.cli.console import PipeConsole, emit_json, emit_text, error_json, print_error, print_findings
from gpufleet.cli.progress import Progress
from gpufleet.comment.body import verdict_body
from gpufleet.engine.api import DiagnosticEvent, Op, ResourceEvent
from gpufleet.errors import SpecError
from gpufleet.findings import Finding
from gpufleet.racks.configure.result import ConfigureResult, Failure
from gpufleet.racks.events import HostStats
from gpufleet.report.changes_text import describe
from gpufleet.report.configure_html import configure_page
from gpufleet.report.configure_text import print_configure
from gpufleet.report.verdict_json import verdict_to_json
from gpufleet.report.verdict_junit import verdict_to_junit
from gpufleet.report.verdict_markdown import verdict_to_markdown
from gpufleet.report.verdict_sarif import verdict_to_sarif
from gpufleet.report.verdict_text import print_verdict
from gpufleet.visible import ACTING, visible, visible_line
from gpufleet.yaml_text import dump_yaml
from tests.unit.verdict.conftest import cost_line, costs, rule, verdict, violated

# A color, a title, a C1 code, a link, overrides, a backspace, markup, HTML, no character, a line of its own.
EVIL = (
    "a\x1b[31mb\x1b]0;title\x07c\x9b2Jd\x1b]8;;https://evil.example\x1b\\e\u202egood\u2066\u200f\x08\x7f\x85"
    "\u2028[bold]B[/bold][link=https://evil.example]L[/link]<b>h</b>\ufffe\ufeff\U000e0041"
    "\nerror: forged\r::stop-commands::x"
)


def finding() -> Finding:
    return Finding(EVIL, 3, EVIL, EVIL, "a-rule", EVIL, EVIL)


def made() -> Any:
    return verdict(
        rule("a", violated(EVIL, name=EVIL, file=EVIL), violated(EVIL, effect="advisory")),
        rule("b", note=EVIL),
        costs=costs(cost_line(EVIL, 1, 2)),
        warnings=(EVIL,),
    )


def on_console(show: Callable[[PipeConsole], object]) -> str:
    file = io.StringIO()
    show(PipeConsole(file=file, width=200, highlight=False, emoji=False, color_system=None))
    return file.getvalue()


def table() -> Table:
    made = Table("name", box=None)
    made.add_row(Text(EVIL))
    return made


EVENT = ResourceEvent(EVIL, EVIL, EVIL, Op.CREATE, "failed", error=EVIL)
CONSOLE: dict[str, Callable[[PipeConsole], object]] = {
    "findings": lambda console: print_findings([finding()], console),
    "verdict": lambda console: print_verdict(made(), console),
    "event": lambda console: console.print(describe(EVENT), soft_wrap=True),
    "table": lambda console: console.print(table()),
    "plain": lambda console: console.print(EVIL, markup=False, soft_wrap=True),
}


@pytest.mark.parametrize("name", CONSOLE)
def test_terminal_output_has_no_control_characters(name: str) -> None:
    shown = on_console(CONSOLE[name])
    assert ACTING.search(shown) is None
    assert "\\x1b[31m" in shown
    assert "[bold]B[/bold][link=https://evil.example]L[/link]" in shown


@pytest.mark.parametrize("name", ["findings", "verdict"])
def test_value_cannot_start_a_new_line(name: str) -> None:
    lines = on_console(CONSOLE[name]).splitlines()
    assert not [line for line in lines if line.startswith(("error: forged", "::"))]


def test_errors_are_escaped_in_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    error = SpecError([finding()])
    print_error(error)
    emit_json(error_json(error))
    emit_text(EVIL)
    reported = capsys.readouterr()
    assert ACTING.search(reported.out + reported.err) is None
    assert json.loads(reported.out.splitlines()[0])["findings"][0]["message"] == EVIL


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from (key, *strings(item))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from strings(item)
    elif isinstance(value, str):
        yield value


def test_verdict_files_are_escaped_and_can_be_parsed(tmp_path: Path) -> None:
    markdown, junit = verdict_to_markdown(made()), verdict_to_junit(made())
    ET.fromstring(junit)
    sarif = verdict_to_sarif(made())
    messages = [each["message"]["text"] for each in sarif["runs"][0]["results"]]
    texts = [markdown, junit, json.dumps(sarif), json.dumps(verdict_to_json(made())), *messages]
    comment = tmp_path / "comment.md"
    comment.write_text(markdown + EVIL, encoding="utf-8")
    texts.append(verdict_body("prod", comment, most=100_000))
    assert [text for text in texts if ACTING.search(text)] == []
    assert "<b>h</b>" not in markdown
    assert "[bold]" not in markdown


def test_host_output_is_escaped_on_the_screen_and_the_page() -> None:
    result = ConfigureResult(
        environment="prod",
        run="1",
        check=False,
        hosts={"a": HostStats(failed=1)},
        duration_s=1.0,
        changes=(),
        failures=(Failure("a", "failed", "base", "Write", EVIL),),
        verdicts=(),
        role_seconds={},
        cut_short=EVIL,
    )
    assert ACTING.search(configure_page(result)) is None
    assert ACTING.search(on_console(lambda console: print_configure(result, console, diffs=True))) is None


def test_yaml_escapes_invisible_characters_and_keeps_other_scripts_and_the_value() -> None:
    text = dump_yaml({"name": EVIL.replace("\ufffe", "")})
    assert ACTING.search(text) is None
    assert yaml.safe_load(text) == {"name": EVIL.replace("\ufffe", "")}
    assert "Zürich" in dump_yaml({"name": "Zürich"})


def test_line_breaks_and_joiners_are_kept_and_a_single_line_stays_one() -> None:
    assert visible("a\n\tb \u200d é 日本") == "a\n\tb \u200d é 日本"
    assert visible_line("a\n\tb\r") == "a\\n\\tb\\r"
    assert visible("\udcff\x9b\U000e0041") == "\\udcff\\x9b\\U000e0041"


def test_provider_diagnostic_is_escaped() -> None:
    def show(console: PipeConsole) -> None:
        Progress(console, "up").on_event(DiagnosticEvent("error", EVIL))

    assert ACTING.search(on_console(show)) is None
