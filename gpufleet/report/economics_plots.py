"""Plots of calculators as SVG or PNG. matplotlib is imported on first use: it takes half a second."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from gpufleet.economics.tco_risk import Risk, TcoCase, TornadoBar

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PlotFormat = Literal["svg", "png"]

# Okabe and Ito's colours, which people with any colour vision can tell apart.
RENTED, OWNED = "#0072B2", "#D55E00"
_STEPS = 101
_SIZE = (5.6, 3.8)


def break_even_plot(case: TcoCase) -> Figure:
    """Return both totals over utilization, with the point where they are equal."""
    figure, axes = _figure(f"Total over {case.years:g} years", "utilization in %", "million USD")
    shares = [step / (_STEPS - 1) for step in range(_STEPS)]
    results = [case.with_value("utilization", share).result() for share in shares]
    percent = [share * 100 for share in shares]
    axes.plot(percent, [each.cloud_total / 1e6 for each in results], color=RENTED, label="rented")
    axes.plot(
        percent, [each.owned.total / 1e6 for each in results], color=OWNED, label="owned", linestyle="--"
    )
    now = case.result()
    if now.break_even_utilization is not None:
        at = now.break_even_utilization
        height = case.with_value("utilization", at).result().owned.total / 1e6
        axes.plot([at * 100], [height], "o", color="black")
        axes.annotate(f"equal at {at:.1%}", (at * 100, height), xytext=(8, -14), textcoords="offset points")
    axes.axvline(case.utilization * 100, color="gray", linewidth=1, linestyle=":")
    axes.set_xlim(0, 100)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, loc="upper left")
    return figure


def tornado_plot(bars: Sequence[TornadoBar], expected: float) -> Figure:
    """Return a bar for each input: the saving of owning at its lowest and its highest value."""
    from matplotlib.patches import Patch

    figure, axes = _figure("What moves the saving of owning", "rented - owned, million USD", "")
    shown = list(reversed(bars))
    for place, bar in enumerate(shown):
        for saving, colour in ((bar.saving_at_low, RENTED), (bar.saving_at_high, OWNED)):
            axes.barh(place, (saving - expected) / 1e6, left=expected / 1e6, color=colour, height=0.6)
    labels = [
        f"{bar.name.replace('_', ' ')}\n{plain_number(bar.low)} to {plain_number(bar.high)}" for bar in shown
    ]
    axes.set_yticks(range(len(shown)), labels, fontsize=8)
    axes.axvline(expected / 1e6, color="black", linewidth=1)
    ends = [Patch(color=RENTED, label="lowest value"), Patch(color=OWNED, label="highest value")]
    axes.legend(handles=ends, frameon=False, loc="lower right")
    figure.set_size_inches(_SIZE[0], 1.6 + 0.42 * len(shown))
    return figure


def bands_plot(risk: Risk) -> Figure:
    """Return payments over months: the median, and the band from 5 % to 95 % of the draws."""
    figure, axes = _figure(f"Paid until a month, {risk.draws:,} draws", "month", "million USD")
    months = [band.month for band in risk.bands]
    for name, colour, style in (("rented", RENTED, "-"), ("owned", OWNED, "--")):
        low, median, high = zip(*(getattr(band, name) for band in risk.bands), strict=True)
        axes.fill_between(months, _millions(low), _millions(high), color=colour, alpha=0.25, linewidth=0)
        axes.plot(months, _millions(median), color=colour, linestyle=style, label=f"{name}, 5 % to 95 %")
    axes.set_xlim(0, months[-1])
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, loc="upper left")
    return figure


def ranges_plot(title: str, across: str, rows: Sequence[tuple[str, float, float, float]]) -> Figure:
    """Return a line from the low to the high value of each row, with a point at its median."""
    figure, axes = _figure(title, across, "")
    shown = list(reversed(rows))
    for place, (_, low, median, high) in enumerate(shown):
        axes.plot([low, high], [place, place], color=RENTED, linewidth=5, alpha=0.4, solid_capstyle="butt")
        axes.plot([median], [place], "o", color=RENTED)
    axes.set_yticks(range(len(shown)), [name for name, *_ in shown], fontsize=9)
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.set_xlim(left=0)
    figure.set_size_inches(_SIZE[0], 1.2 + 0.34 * len(shown))
    return figure


def rendered(figure: Figure, form: PlotFormat) -> bytes:
    """Return the file of a figure. The same figure gives the same bytes."""
    import matplotlib as mpl

    target = io.BytesIO()
    metadata: dict[str, Any] = {"Date": None} if form == "svg" else {"Software": None}
    # Text stays text: it can be searched, and needs no font in the file.
    with mpl.rc_context({"svg.hashsalt": "gpufleet", "svg.fonttype": "none"}):
        figure.savefig(target, format=form, metadata=metadata, dpi=150)
    return target.getvalue()


def _figure(title: str, across: str, up: str) -> tuple[Figure, Axes]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _millions(values: Sequence[float]) -> list[float]:
    return [value / 1e6 for value in values]


def plain_number(value: float) -> str:
    """Format a value of an input: whole from 1,000 on, else four digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
