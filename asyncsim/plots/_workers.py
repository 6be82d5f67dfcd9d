"""Workers whose data differ: the labels and the loss of each."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._checks import columns
from asyncsim._metrics import number
from asyncsim.components._checked import checked
from asyncsim.plots._page import draw_legend_inside, say
from asyncsim.plots.style import BLUE, DASHED, INK, VERMILION

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

PALEST = "#F3F6F9"  # of no example
ROOM = 1.5  # of the height that the losses take
MOST_TICKS = 20  # of labels that are named one by one


@checked
def draw_label_counts(ax: "Axes", counts: ArrayLike, *, colorbar: bool = True) -> "Artist":
    """Draw which worker has which labels: one column per worker, one row per label, darker for more examples.

    Args:
        ax: Where to draw.
        counts: (workers, classes) numbers of examples, such as `Partition.label_counts`.
        colorbar: Whether to explain the colours next to the axes. They go with the square root of the number, so that a
            few examples can be told from none.

    Raises:
        ValueError: If the counts are not of that shape, or negative.

    Example:
        >>> from matplotlib.figure import Figure
        >>> draw_label_counts(Figure().subplots(), [[3, 0], [0, 5], [1, 1]]).get_array().tolist()
        [[3.0, 0.0, 1.0], [0.0, 5.0, 1.0]]
    """
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    examples = np.asarray(counts, np.float64)
    if examples.ndim != 2 or not examples.size or not (examples >= 0).all():
        raise ValueError(f"`counts` must be (workers, classes) numbers of examples; got shape {examples.shape}.")
    workers, classes = examples.shape
    colours = LinearSegmentedColormap.from_list("examples", [PALEST, BLUE, INK])
    norm = PowerNorm(0.5, vmin=0, vmax=max(float(examples.max()), 1.0))
    image = ax.imshow(examples.T, cmap=colours, norm=norm, aspect="auto", interpolation="nearest", origin="lower")
    ax.set(xlabel="worker", ylabel="label")
    for axis, count in ((ax.xaxis, workers), (ax.yaxis, classes)):
        if count <= MOST_TICKS:
            axis.set_ticks(range(count))
    ax.tick_params(length=0)
    ax.grid(visible=False)
    if colorbar:
        assert ax.figure is not None
        ax.figure.colorbar(image, ax=ax, label="examples", pad=0.02)
    return image


@checked
def draw_worker_losses(
    ax: "Axes", losses: ArrayLike, shares: ArrayLike | None = None, *, objective: float | None = None
) -> "list[Artist]":
    """Draw the loss of each worker's own part against its share of the commits.

    Args:
        ax: Where to draw.
        losses: (workers,), such as `Run.evaluate_workers()["worker_loss"]`.
        shares: (workers,) each worker's share of the commits, in all 1: the horizontal axis, with a line at an equal
            share. By default workers are shown in their order.
        objective: The loss that is minimised, marked as a line (by default the mean of the losses).

    Returns:
        One marker per worker, the line at the objective, and that at an equal share if there are shares, or a text if a
        loss is not finite.

    Raises:
        ValueError: If shapes do not match.

    Example:
        >>> from matplotlib.figure import Figure
        >>> dots, mean, equal = draw_worker_losses(Figure().subplots(), [0.1, 0.5], [0.75, 0.25])
        >>> dots.get_xdata().tolist(), float(mean.get_ydata()[0]), float(equal.get_xdata()[0])
        ([0.75, 0.25], 0.3, 0.5)
    """
    (height,) = columns(losses=losses)
    x = np.arange(len(height)) if shares is None else columns(losses=losses, shares=shares)[1]
    if not np.isfinite(height).all():
        return [say(ax, "The loss is not finite.")]
    (dots,) = ax.plot(x, height, "o", color=BLUE, markersize=4, alpha=0.8, label="a worker's own part")
    mean = float(height.mean()) if objective is None else objective
    name = "mean" if objective is None else "objective"
    lines: list[Artist] = [ax.axhline(mean, color=VERMILION, linewidth=1.4, label=f"{name} {number(mean)}")]
    if shares is not None:
        lines.append(ax.axvline(1 / len(height), color=INK, linewidth=1, linestyle=DASHED, label="equal share"))
    ax.set(xlabel="worker" if shares is None else "share of the commits", ylabel="loss")
    if shares is not None:
        ax.set_xlim(0, 1.08 * max(float(x.max()), 2 / len(height)))  # small differences look small
    bottom, top = min(0.0, float(height.min())), max(float(height.max()), mean)
    ax.set_ylim(bottom, bottom + ROOM * ((top - bottom) or 1.0))  # the legend hides no worker
    draw_legend_inside(ax, "upper right", [dots, *lines])
    return [dots, *lines]
