"""The look of asyncsim's figures, and their files, whose bytes are the same every time."""

import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asyncsim._checks import brief
from asyncsim.components._checked import checked
from asyncsim.files._atomic import atomic_write, require_own
from asyncsim.files._hash import hash_parts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "is_picture_of",
    "keep_png",
    "read_png_metadata",
    "require_color",
    "rule_colors",
    "save_figure",
    "save_png",
    "style",
]

BLUE, VERMILION, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#6B7280"
SKY, AMBER, PINK = "#56B4E9", "#E69F00", "#CC79A7"
INK, PALE_BLUE, PALE_SKY, PALE_GREY, SLATE = "#1B1F24", "#D3E6F2", "#E6F4FC", "#ECEEF1", "#4B5563"
DASHED = (0, (4, 3))  # points of a dash and of the gap after it
METADATA = {"png": {"Software": None}, "pdf": {"CreationDate": None}}  # that Matplotlib would fill in
STEEL, PALE_STEEL = "#7D8EA3", "#E3E8EE"  # of workers that compute
MIST, BROWN = "#B9C6D6", "#8A5A00"  # of messages, and of updates in service (those that wait are AMBER)
RULE_COLORS = {  # of the first of these that a name contains
    "downpour": VERMILION,
    "gem": BLUE,
    "agn": GREEN,
    "elastic": PINK,
    "easgd": PINK,
    "adaptive": SKY,
    "asynchronous": VERMILION,  # which is DOWNPOUR
    "synchronous": GREEN,
}
FURTHER = ("#332288", "#999933", "#882255", "#44AA99", "#AA4499")  # of an eighth line and more, after Tol
PALETTE = (BLUE, VERMILION, GREEN, PINK, SKY, INK, GREY, *FURTHER)  # of rules, as in the scripts of the moving pages
OTHER_COLORS = (SKY, GREEN, PINK, INK, GREY, BLUE, VERMILION, *FURTHER)  # of rules without a colour of their own
LAYOUT = "Layout"  # keyword of the metadata: the hash of what was chosen for the picture alone
STUDY = "Study"  # keyword of the metadata: the digest of the study that a picture belongs to
_drawing = threading.RLock()  # Matplotlib may draw in one thread at a time
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
DIGITS = 9  # decimals of a position, as a share of the figure: too few to be seen


def require_color(color: str) -> str:
    """Return the colour itself, if Matplotlib accepts it."""
    from matplotlib.colors import is_color_like

    if not is_color_like(color):
        raise ValueError(f"`color` must be a colour of Matplotlib; got {brief(color)}. Give a name or '#rrggbb'.")
    return color


def rule_colors(names: Iterable[str]) -> list[str]:
    """Return a colour for each of some rules or protocols: the same rule has one colour in every picture."""
    names = list(names)
    colors: list[str | None] = []
    for name in names:
        words = name.lower()
        color = next((color for key, color in RULE_COLORS.items() if key in words), None)
        colors.append(None if color in colors else color)
    # Other rules get the colours that no rule of this picture has.
    free = iter([color for color in OTHER_COLORS if color not in colors])
    return [color or next(free, GREY) for color in colors]


def style() -> AbstractContextManager[None]:
    """Apply the style in a context: nothing global changes.

    Example:
        >>> from matplotlib.figure import Figure
        >>> with style():
        ...     ax = Figure().subplots()
        >>> ax.spines["top"].get_visible()
        False
    """
    import matplotlib.style

    return matplotlib.style.context(Path(__file__).with_name("asyncsim.mplstyle"))


@checked
def save_png(
    path: str | os.PathLike[str],
    draw: Callable[["Figure"], object],
    size: tuple[float, float],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Draw a figure in the style and write it as PNG, whole or not at all. Equal drawings give equal bytes.

    Args:
        path: The file.
        draw: Draws on the empty figure that it receives.
        size: Width and height in inches, of 150 pixels each.
        metadata: Keyword -> text, kept in the file for `read_png_metadata`.

    Raises:
        OSError: If the file cannot be written.
    """
    save_figure([path], draw, size, kind="png", metadata=metadata)


def read_png_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read keyword -> text from a PNG, or {} if the file is missing or a part disagrees with its checksum."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        return {}
    texts, offset, kind = {}, len(PNG_SIGNATURE), b""
    while content.startswith(PNG_SIGNATURE) and kind != b"IEND" and len(content) >= offset + 12:
        length, kind = struct.unpack_from(">L4s", content, offset)
        data = content[offset + 8 : offset + 8 + length]
        # A chunk has 12 bytes besides its data: length, kind and checksum.
        offset += 12 + length
        if content[offset - 4 : offset] != zlib.crc32(kind + data).to_bytes(4, "big"):
            return {}
        if kind == b"tEXt":
            keyword, _, text = data.partition(b"\0")
            texts[keyword.decode("latin-1")] = text.decode("latin-1")
    return texts if kind == b"IEND" else {}


def save_figure(
    paths: Iterable[str | os.PathLike[str]],
    draw: Callable[["Figure"], object],
    size: tuple[float, float],
    *,
    kind: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Draw a figure in the style once and write it as PDF or PNG files, each whole or not at all.

    The suffix of a path gives the format, unless `kind` does. `size` is in inches.
    """
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    if np.shape(size) != (2,) or not (np.asarray(size) > 0).all():
        raise ValueError(f"`size` must be a width and a height in inches, both positive; got {brief(size)}.")
    with _drawing, style():
        figure = Figure(figsize=size, layout="constrained", dpi=rcParams["savefig.dpi"])
        draw(figure)
        engine = figure.get_layout_engine()
        if engine is not None and figure.axes:
            engine.execute(figure)
        figure.set_layout_engine(None)  # "none" would leave a placeholder, for which saving draws everything once more
        for ax in figure.axes:
            x, y, width, height = (round(value, DIGITS) for value in ax.get_position().bounds)
            ax.set_position((x, y, width, height))
        for path in paths:
            format = kind or Path(path).suffix.removeprefix(".")
            save = partial(figure.savefig, format=format, metadata={**METADATA[format], **(metadata or {})})
            atomic_write(path, save)


def is_picture_of(digest: str, path: Path) -> bool:
    """Return whether a picture is there, whole, and was drawn of the study with this digest."""
    return read_png_metadata(path).get(STUDY) == digest


def keep_png(
    path: Path,
    draw: Callable[["Figure"], object],
    size: tuple[float, float],
    digest: str,
    *,
    layout: str = "",
    again: bool,
) -> None:
    """Write the picture of the study with this digest, unless it exists already (with `again` in any case).

    What a user chooses for the picture alone, such as its title, is in no digest: `layout` stands for it.
    """
    metadata = {STUDY: digest, **({LAYOUT: hash_parts(layout)} if layout else {})}
    if again or read_png_metadata(path) != metadata:
        require_own(path)
        save_png(path, draw, size, metadata)
