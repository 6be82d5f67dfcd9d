"""The report of one run: four panels on a page."""

from typing import TYPE_CHECKING

from asyncsim.engine import Run
from asyncsim.plots.curves import draw_energies, draw_loss, draw_pi
from asyncsim.plots.staleness import draw_staleness
from asyncsim.plots.style import GREY
from asyncsim.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (9.6, 6.6)  # inches


def draw_report(figure: "Figure", trace: Trace, run: Run, title: str, subtitle: str = "") -> "list[Axes]":
    """Loss, staleness, energies and π of a run.

    Args:
        figure: An empty figure; see `asyncsim.plots.style` for the look.
        trace: Schedule of the run.
        run: The run.
        title: First line, say what was run.
        subtitle: Second line, in grey: with which settings.

    Returns:
        The four panels. What a run does not have is said in its panel.
    """
    panels = list(figure.subplots(2, 2).flat)
    draw_loss(panels[0], run)
    draw_staleness(panels[1], trace)
    draw_energies(panels[2], run)
    draw_pi(panels[3], run)
    names = ("Training loss", "Staleness", "Kinetic energy", "Scaling π of the updates")
    for panel, name in zip(panels, names, strict=True):
        panel.set_title(name)
    draw_title(figure, title, subtitle)
    return panels


def draw_title(figure: "Figure", title: str, subtitle: str) -> None:
    """Two lines at the top left of a figure; room is made for them, the same on every size of page."""
    inch = 1 / figure.get_figheight()
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.set(rect=(0.01, 0.01, 0.98, 0.98 - 0.6 * inch), h_pad=0.12, w_pad=0.12)  # type: ignore[call-arg]
    figure.text(0.02, 1 - 0.24 * inch, title, size=13, weight="bold", va="center")
    figure.text(0.02, 1 - 0.51 * inch, subtitle, size=9, color=GREY, va="center")
