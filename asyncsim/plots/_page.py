"""Parts of every picture: titles that wrap, legends that stay inside the figure, remarks, readable axes."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from asyncsim.components._checked import checked
from asyncsim.delays import FloatArray
from asyncsim.plots.style import GREY

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D

TITLE_ROOM = 0.6  # inches that a title of one line and a subtitle of one line take at the top
TITLE_LINE, SUBTITLE_LINE = 0.22, 0.17  # inches that each further line takes
MOST_TITLE = 0.4  # share of the figure's height, beyond which the words shrink
MOST_LEGEND = 0.5  # share of the height, or of the width, of the figure
MOST_LEGEND_INSIDE = 0.7  # share of the height of the panel that holds it
SHRINKING = (1.0, 0.88, 0.76, 0.65, 0.54, 0.45)  # of the font's size, tried in this order
BELOW_AXES = 34  # points that the numbers and the label of an x axis take below it
CROSS_ROW, MOST_CROSSES = 0.035, 0.4  # shares of the height of a panel: of a row of crosses, and of all rows
LEGEND_ENTRY = 97  # points that an entry of a legend takes, with the space to the next one


def draw_title(figure: "Figure", title: str, subtitle: str) -> None:
    """Draw a title and a grey subtitle at the top left of a figure, wrapped to its width, and make room for them."""
    width, scale, heads, details = 0.96 * 72 * figure.get_figwidth(), 1.0, [title], [subtitle]
    for scale in SHRINKING:  # the largest that leaves enough of the figure
        heads, details = wrapped(title, width, 13 * scale, "bold"), wrapped(subtitle, width, 9 * scale)
        if scale * _title_room(heads, details) <= MOST_TITLE * figure.get_figheight():
            break
    inch = scale / figure.get_figheight()
    further = TITLE_LINE * (len(heads) - 1)
    for number, line in enumerate(heads):
        y = 1 - (0.24 + TITLE_LINE * number) * inch
        figure.text(0.02, y, line, size=13 * scale, weight="bold", va="center")
    for number, line in enumerate(details):
        y = 1 - (0.51 + further + SUBTITLE_LINE * number) * inch
        figure.text(0.02, y, line, size=9 * scale, color=GREY, va="center")
    if figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0.01, 0.01, 0.98, 0.98 - _title_room(heads, details) * inch), h_pad=0.12, w_pad=0.12)


def wrapped(text: str, points: float, size: float, weight: str = "normal") -> list[str]:
    """Return the lines of a text, at most `points` wide: broken after a comma or semicolon, else between words."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=size, weight=weight)

    def fits(line: str) -> bool:
        # The width of the outlines is that of every backend, and needs no figure that is drawn already.
        width, _, _ = text_to_path.get_text_width_height_descent(line, font, ismath=False)
        return width <= points

    lines = [""]
    for item in re.split("(?<=[,;]) ", text):
        # An item that is longer than a line is broken between its words.
        for words in [item] if fits(item) else item.split(" "):
            longer = f"{lines[-1]} {words}".strip()
            # A word that is wider than a line has a line of its own.
            lines[-1:] = [longer] if fits(longer) or not lines[-1] else [lines[-1], words]
    return lines


def draw_legend_below(ax: "Axes", artists: "Sequence[Artist]") -> "Legend":
    """Draw a legend below the label of the x axis, in as many columns as fit, inside the figure."""
    from matplotlib.transforms import ScaledTranslation

    below = ax.transAxes + ScaledTranslation(0, -BELOW_AXES / 72, ax.figure.dpi_scale_trans)  # type: ignore[union-attr]
    look: dict[str, Any] = {"bbox_to_anchor": (0.0, 0.0), "bbox_transform": below, "loc": "upper left"}
    look |= {"handles": artists, "borderaxespad": 0.0, "borderpad": 0.1, "columnspacing": 1.4}
    figure: Any = ax.figure
    whole, ax_left = figure.bbox, ax.get_window_extent().x0
    columns = max(1, int(size_in_points(ax)[0] / LEGEND_ENTRY))
    legend = _largest_that_fits(ax, columns, whole.x1 - ax_left, MOST_LEGEND * whole.height, **look)
    low = (whole.y0 - legend.get_window_extent().y0) / whole.height
    if figure.get_layout_engine() is not None or low <= 0:
        return legend  # a layout engine makes room by itself
    # Without a layout engine, the panel itself or the grid of panels is raised to make room.
    if ax.get_subplotspec() is None:
        box = ax.get_position()
        ax.set_position((box.x0, box.y0 + low, box.width, max(box.height - low, 0.05)))
    else:
        margins = figure.subplotpars
        figure.subplots_adjust(bottom=min(margins.bottom + low, margins.top - 0.05))
    return legend


def draw_legend_beside(ax: "Axes", artists: "Sequence[Artist]") -> "Legend":
    """Draw a legend of these to the right of a panel, inside a figure whose title makes its layout."""
    look: dict[str, Any] = {"handles": artists, "bbox_to_anchor": (1.01, 1), "loc": "upper left"}
    whole = ax.figure.bbox
    return _largest_that_fits(ax, 1, MOST_LEGEND * whole.width, MOST_LEGEND * whole.height, **look)


def draw_legend_inside(ax: "Axes", loc: str, artists: "Sequence[Artist] | None" = None) -> "Legend":
    """Draw a legend within a panel, of all its labelled artists or of these."""
    look: dict[str, Any] = {"loc": loc} if artists is None else {"loc": loc, "handles": artists}
    panel = ax.get_window_extent()
    return _largest_that_fits(ax, 1, panel.width, MOST_LEGEND_INSIDE * panel.height, **look)


def size_in_points(ax: "Axes") -> tuple[float, float]:
    """Return width and height of a panel, in 1/72 inch, as far as they are known before the layout is done."""
    box, inch = ax.get_window_extent(), ax.figure.dpi  # type: ignore[union-attr]
    return box.width / inch * 72, box.height / inch * 72


def fit_tick_labels(ax: "Axes") -> None:
    """Leave out numbers on the x axis that would overlap, and turn words that would."""
    figure: Any = ax.figure
    engine = figure.get_layout_engine()
    if engine is not None:
        # Labels have no places before the layout is done.
        engine.execute(figure)
    labels = sorted(ax.get_xticklabels(), key=lambda label: sum(label.get_window_extent().intervalx))
    boxes = [label.get_window_extent() for label in labels]
    turned_already = any(label.get_rotation() for label in labels)
    if turned_already or not any(following.x0 < box.x1 + box.height / 2 for box, following in pairwise(boxes)):
        return
    if any(label.get_text() and not _is_number(label.get_text()) for label in labels):
        # Labels that are closer than three lines of text would still overlap if they were turned by 30 degrees.
        narrow = min(following.x1 - box.x1 for box, following in pairwise(boxes)) < 3 * boxes[0].height
        look: dict[str, Any] = (
            {"rotation": 90} if narrow else {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
        )
        for label in ax.get_xticklabels():
            label.set(**look)
        return
    # Numbers are kept from left to right, each if it leaves a gap to the last one.
    labelled, end = set(), -np.inf
    for label, box in zip(labels, boxes, strict=True):
        if label.get_text() and box.x0 > end:
            labelled.add(label.get_position()[0])
            end = box.x1 + box.height / 2
    texts = {label.get_position()[0]: label.get_text() for label in labels}
    ax.set_xticks(list(texts), [text if place in labelled else "" for place, text in texts.items()])


def _is_number(text: str) -> bool:
    return text.startswith("$") or re.fullmatch(r"[-−+.\d]+(e[-+]?\d+)?", text) is not None


def remark(ax: "Axes", text: str, color: str = GREY) -> "Artist":
    """Write a few words at the upper right of a panel, outside the axes."""
    return ax.text(1.0, 1.03, text, transform=ax.transAxes, color=color, size=8.5, ha="right", va="bottom")


def mark_lost(ax: "Axes", lines: "Sequence[Line2D]", meaning: str) -> None:
    """Draw crosses above all points where a line has no value, in a row for each such line, and say their meaning."""
    lost = [(line, np.isnan(np.asarray(line.get_ydata(), np.float64))) for line in lines]
    lost = [(line, without) for line, without in lost if without.any()]
    if not lost:
        return
    remark(ax, f"×  {meaning}")
    # The y axis, which has its scale already, grows upwards by the share that the rows take.
    row = min(CROSS_ROW, MOST_CROSSES / len(lost))
    scale = ax.yaxis.get_transform()
    low, high = scale.transform(np.array(ax.get_ylim()))
    ax.set_ylim(top=float(scale.inverted().transform([low + (high - low) / (1 - row * len(lost))])[0]))
    for number, (line, without) in enumerate(lost):
        x = np.asarray(line.get_xdata())[without]
        look: dict[str, Any] = {"color": line.get_color(), "transform": ax.get_xaxis_transform(), "clip_on": False}
        ax.plot(x, np.full(len(x), 1 - row * (number + 0.8)), "x", markeredgewidth=2, **look)


def tick_at(axis: "Axis", values: Sequence[float]) -> None:
    """Set ticks at these values alone, as plain numbers."""
    from matplotlib.ticker import FixedLocator, FormatStrFormatter, NullLocator

    axis.set_major_locator(FixedLocator(values))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FormatStrFormatter("%g"))


def tick_at_whole_numbers(axis: "Axis") -> None:
    """Set few ticks, at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))


def of_shape(name: str, values: ArrayLike, shape: tuple[int, ...], remedy: str) -> FloatArray:
    """Return the values as an array, if they have this shape."""
    array = np.asarray(values, np.float64)
    if array.shape != shape:
        raise ValueError(f"`{name}` must have shape {shape}; got {array.shape}. {remedy}")
    return array


def say(ax: "Axes", text: str) -> "Artist":
    """Write words in the middle of an otherwise empty panel."""
    ax.set_axis_off()
    return ax.text(0.5, 0.5, text, transform=ax.transAxes, color=GREY, ha="center", va="center", linespacing=1.6)


def use_logarithm(ax: "Axes", *curves: Any) -> None:
    """Scale the y axis logarithmically if all finite values are positive, with plain numbers where these are short."""
    values = np.concatenate([np.asarray(curve, np.float64) for curve in curves])
    values = values[np.isfinite(values)]
    if not len(values) or values.min() <= 0:
        return
    ax.set_yscale("log")
    if values.min() > 1e-3 and values.max() < 1e4:
        use_plain_numbers(ax)


@checked
def use_plain_numbers(ax: "Axes") -> None:
    """Label a logarithmic y axis by 0.01, 0.1, 1 instead of powers of ten, and by numbers between where there are few.

    Args:
        ax: The axes, whose y axis is logarithmic.

    Example:
        >>> import matplotlib.pyplot as plt
        >>> figure, ax = plt.subplots()
        >>> _ = ax.semilogy([0.01, 1.0])
        >>> use_plain_numbers(ax)
        >>> ax.yaxis.get_major_formatter()(0.1)
        '0.1'
        >>> plt.close(figure)
    """
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):
        """Matplotlib's choice of labels, as plain numbers."""

        def __call__(self, x: float, pos: Any = None) -> str:
            """Return the label, or an empty string."""
            return f"{x:g}" if super().__call__(x, pos) else ""

    ax.yaxis.set_major_formatter(Plain())
    ax.yaxis.set_minor_formatter(Plain(labelOnlyBase=False, minor_thresholds=(1.5, 0.7)))


def _title_room(heads: list[str], details: list[str]) -> float:
    """Return the inches that these lines take at full size."""
    return TITLE_ROOM + TITLE_LINE * (len(heads) - 1) + SUBTITLE_LINE * (len(details) - 1)


def _largest_that_fits(ax: "Axes", columns: int, width: float, height: float, **look: Any) -> "Legend":
    """Return the legend with the largest font, and then the most columns, that is at most so large, in pixels."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties

    usual = FontProperties(size=rcParams["legend.fontsize"]).get_size_in_points()
    for scale in SHRINKING:
        for number in range(columns, 0, -1):
            legend = ax.legend(ncols=number, fontsize=scale * usual, **look)
            box = legend.get_window_extent()
            if box.width <= width and box.height <= height:
                return legend
    return ax.legend(ncols=1, fontsize=SHRINKING[-1] * usual, **look)
