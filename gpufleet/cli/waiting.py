"""Display of a long step with elapsed and remaining time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner

from gpufleet.cli.console import err, is_terminal
from gpufleet.cli.counting import Pace, Ticker
from gpufleet.cli.run_log import Durations


@contextlib.contextmanager
def waiting(
    what: str,
    key: str,
    durations: Durations,
    console: Console,
    *,
    quiet: bool = False,
    live: bool | None = None,
) -> Iterator[None]:
    """Show `what` with times while the block runs: `starting the emulated AWS, 2 s, about 1 s left`.

    A terminal shows a temporary line. Otherwise a line is printed every ten seconds. `durations` stores the
    duration under `key`. `quiet` prints nothing; `live` is for tests.
    """
    pace = Pace(what, durations.expected(key))

    def words() -> str:
        return ", ".join([what, *pace.times()])

    def tick() -> None:
        if pace.is_due():
            console.print(f"   {words()}", markup=False, soft_wrap=True)

    with contextlib.ExitStack() as shown:
        if not quiet and (is_terminal(console.file) if live is None else live):
            screen = Live(
                console=console,
                get_renderable=lambda: Spinner("dots", text=f" {words()}"),
                refresh_per_second=8,
                transient=True,
            )
            shown.enter_context(screen)
        elif not quiet:
            ticker = Ticker(tick)
            ticker.start()
            shown.callback(ticker.stop)
        yield
    durations.keep(key, 1, pace.elapsed_s)


def sandbox_start(local: Path, *, quiet: bool) -> contextlib.AbstractContextManager[None]:
    """Show progress while a checkout's emulated AWS starts. `local` is its .gpufleet folder."""
    return waiting("starting the emulated AWS", "sandbox start", Durations.of(local), err, quiet=quiet)
