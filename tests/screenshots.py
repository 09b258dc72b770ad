"""Screenshots of the README: real output of real commands. `make screenshots` writes docs/images again.

Terminals become SVG with Rich, pages PNG with Chromium.
"""

from __future__ import annotations

import argparse
import fcntl
import html
import io
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Browser
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from tests.browser.pages import chromium

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
COLUMNS = 100
# name -> the command, and the text before which the picture ends
TERMINALS = {"plan": (("plan", "sandbox"), "monthly cost"), "check": (("check", "dev"), None)}
PAGE = "prod"


def run_in_terminal(*arguments: str, columns: int = COLUMNS) -> str:
    """Output of `gpufleet <arguments>` on a terminal with this many columns, including escape sequences."""
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns)}
    for name in ("NO_COLOR", "FORCE_COLOR"):
        env.pop(name, None)
    command = [sys.executable, "-m", "gpufleet.cli.main", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdin=its, stdout=its, stderr=subprocess.DEVNULL
    ) as process:
        os.close(its)
        found = b""
        while block := _read(own):
            found += block
    os.close(own)
    if process.returncode:
        raise SystemExit(f"gpufleet {' '.join(arguments)} ended with exit code {process.returncode}")
    return found.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux reports the end of output so
        return b""


def terminal_lines(name: str) -> list[Text]:
    """The lines of a screenshot of a terminal, with their styles."""
    arguments, end = TERMINALS[name]
    lines = Text.from_ansi(run_in_terminal(*arguments)).split("\n", allow_blank=True)
    stop = next((place for place, line in enumerate(lines) if end and line.plain.startswith(end)), len(lines))
    shown = list(lines)[:stop]
    while shown and not shown[-1].plain.strip():
        shown.pop()
    return shown


def terminal_svg(name: str) -> str:
    """The screenshot. It references no external fonts: a picture loads nothing."""
    arguments, _ = TERMINALS[name]
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for line in terminal_lines(name):
        console.print(line, soft_wrap=True)
    without_fonts = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(
        title=f"gpufleet {' '.join(arguments)}", code_format=without_fonts, unique_id=name
    )


def svg_text(svg: str) -> list[str]:
    """The lines of text of such a picture."""
    rows: dict[float, list[tuple[float, str]]] = {}
    words = r'<text class="[^"]*-r\d+" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>'
    for x, y, text in re.findall(words, svg):
        rows.setdefault(float(y), []).append((float(x), html.unescape(text).replace("\xa0", " ")))
    return [" ".join("".join(text for _, text in sorted(row)).split()) for _, row in sorted(rows.items())]


def photograph(browser: Browser, report: Path, folder: Path) -> None:
    """Pictures of a report: its top and its fleet at desktop width, its cost on a phone in dark mode."""
    desk = browser.new_page(viewport={"width": 1216, "height": 640})
    desk.goto(report.as_uri())
    desk.screenshot(path=folder / "report-top.png")
    box = desk.locator("section[aria-labelledby=fleet]").bounding_box()
    if box is None:
        raise SystemExit(f"{report} shows no fleet")
    clip = {"x": 0, "y": box["y"], "width": 1216, "height": box["height"] + 16}
    desk.screenshot(path=folder / "report-fleet.png", full_page=True, clip=clip)  # type: ignore[arg-type]
    phone = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
    phone.goto(report.as_uri())
    phone.evaluate("document.getElementById('cost').scrollIntoView()")
    phone.screenshot(path=folder / "report-phone.png")
    for page in (desk, phone):
        page.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Write all pictures, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m tests.screenshots", description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(TERMINALS)} or report")
    parser.add_argument("--to", type=Path, default=IMAGES, metavar="FOLDER")
    asked = parser.parse_args(arguments)
    asked.to.mkdir(parents=True, exist_ok=True)
    for name in asked.names or (*TERMINALS, "report"):
        if name in TERMINALS:
            (asked.to / f"{name}.svg").write_text(terminal_svg(name), encoding="utf-8")
        elif name == "report":
            with tempfile.TemporaryDirectory() as folder:
                page = Path(folder) / "report.html"
                run_in_terminal("report", PAGE, "--html", str(page))
                with chromium(Path(folder)) as browser:
                    photograph(browser, page, asked.to)
        else:
            parser.error(f"there is no picture {name!r}")


if __name__ == "__main__":
    main()
