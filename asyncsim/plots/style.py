"""The look of asyncsim's figures, and how they become files that are the same bytes every time."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from asyncsim.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, VERMILION, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#6B7280"


def style() -> AbstractContextManager[None]:
    """The style as a context: nothing global changes.

    Example:
        >>> from matplotlib.figure import Figure
        >>> with style():
        ...     ax = Figure().subplots()
        >>> ax.spines["top"].get_visible()
        False
    """
    import matplotlib.style

    return matplotlib.style.context(Path(__file__).with_name("asyncsim.mplstyle"))


def save_png(path: str | os.PathLike[str], draw: Callable[["Figure"], object], size: tuple[float, float]) -> None:
    """Draw a figure in the style and write it as PNG, whole or not at all; equal drawings give equal bytes.

    Args:
        path: The file.
        draw: Draws on the empty figure that it is given.
        size: Width and height in inches, of 150 pixels each.

    Raises:
        OSError: If the file cannot be written.
    """
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        # Matplotlib would write its version, and nothing else, into the file.
        atomic_write(path, lambda file: figure.savefig(file, format="png", metadata={"Software": None}))
