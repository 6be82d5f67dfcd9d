"""The states of a `Movie` through matplotlib: frames of a GIF or an MP4. Imported where one is written."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.path import Path as Outline
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.transforms import Affine2D
from numpy.typing import NDArray
from PIL import Image

from asyncsim._checks import brief, truncate
from asyncsim._metrics import counted
from asyncsim.animation._graph import GraphFilm
from asyncsim.animation._paths import SHADES, UNITS
from asyncsim.animation._states import DOWN, IDLE, NEAREST, SENDING, State, gravity_places
from asyncsim.files._atomic import atomic_write
from asyncsim.plots.style import AMBER, BROWN, GREY, INK, MIST, SLATE, STEEL, style

DPI = 100
SMALL = {1: (640, 460), 2: (820, 430)}  # pixels, by the number of panels, where more stand in two rows
LARGE = (820, 700)
COLORS = ("#D9DDE3", MIST, STEEL, MIST, AMBER, BROWN, SLATE)  # of DOING
SCALE = ("#9A8FE0", "#D63A9E", "#E3123C")  # fresh, as stale as the mean, twice as stale
BANDS = 14
PALETTE = 160  # colours of a GIF
KEPT = ("#FFFFFF", *COLORS, *SCALE, INK)
MOST_KEPT, PATCH = 30, 6  # lines of a picture that a colour takes to be kept
TAIL = 1.5  # commits of each worker in the strong end of a trail
FLASH = 0.3  # of a typical job: how long a commit is seen
LEAST, ENLARGED = 0.45, 3.0  # radius of a worker on a graph whose model is the mean, and factor of its area
SERVER = 1.8  # area of a region's server, that of a worker is 1
MOST_NUMBERED = 40  # workers on a graph that carry their numbers

Pixels = NDArray[np.uint8]  # (height, width, 3)


def times(movie: Any, frames: int) -> NDArray[np.float64]:
    """Return the simulated seconds of the frames: evenly from the first to the last of the film."""
    first, last = movie.states.film.seconds
    return np.linspace(first, last, frames)


def draw_frames(movie: Any, seconds: NDArray[np.float64], size: tuple[int, int] | None = None) -> Iterator[Pixels]:
    """Yield the frames at these times. The background is drawn once."""
    width, height = _size(movie, size)
    with style():
        figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI)
        canvas = FigureCanvasAgg(figure)
        scene = Scene(figure, movie)
        canvas.draw()
        still = canvas.copy_from_bbox(figure.bbox)
        for second in seconds:
            canvas.restore_region(still)
            for ax, artist in scene.moving(movie.at(float(second))):
                ax.draw_artist(artist)
            yield np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def write_gif(path: str | os.PathLike[str], movie: Any, frames: int, rate: float, size: tuple[int, int] | None) -> None:
    """Write a GIF whose frames share one palette, so that pixels without a change take no space."""
    pictures = [Image.fromarray(pixels) for pixels in draw_frames(movie, times(movie, frames), size)]
    samples = pictures[:: max(1, len(pictures) // 6)]
    width, height = pictures[0].size
    strip = Image.new("RGB", (width, (height + PATCH * MOST_KEPT) * len(samples)))
    for place, picture in enumerate(samples):
        strip.paste(picture, (0, place * height))
    between = stale_colors(np.arange(0, 21, 2), 10.0)  # the scale of staleness, from fresh to stale
    colors = [*KEPT, *((int(r), int(g), int(b)) for r, g, b in (255 * between).round())]
    for place, color in enumerate(colors):  # which would else be too rare for a place in the palette
        top = height * len(samples) + PATCH * len(samples) * place
        strip.paste(color, (0, top, width, top + PATCH * len(samples)))
    palette = strip.quantize(PALETTE, dither=Image.Dither.NONE)
    first, *rest = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
    look: dict[str, Any] = {"duration": round(1000 / rate), "loop": 0, "disposal": 1, "optimize": True}
    look["comment"] = "asyncsim"  # by which it is told from a file of the user's
    atomic_write(path, lambda file: first.save(file, format="GIF", save_all=True, append_images=rest, **look))


def write_mp4(path: str | os.PathLike[str], movie: Any, frames: int, rate: float, size: tuple[int, int] | None) -> None:
    """Write an MP4 by ffmpeg, to which frames are piped."""
    pictures = draw_frames(movie, times(movie, frames), size)
    first = next(pictures)
    height, width, _ = first.shape
    with tempfile.TemporaryDirectory() as folder:
        mp4 = FilePath(folder, "movie.mp4")
        source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{rate:g}", "-i", "-"]
        target = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", "-movflags", "+faststart", str(mp4)]
        command = ["ffmpeg", "-loglevel", "error", "-y", *source, *target]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as ffmpeg:
            assert ffmpeg.stdin is not None
            try:
                for pixels in (first, *pictures):
                    ffmpeg.stdin.write(pixels.tobytes())
            except BrokenPipeError:
                pass  # ffmpeg's own message follows
            _, complaint = ffmpeg.communicate()
        if ffmpeg.returncode:
            raise ValueError(f"`mp4`: ffmpeg failed: {truncate(complaint.decode(errors='replace'), 200)}. Take `gif`.")
        atomic_write(path, lambda file: file.write(mp4.read_bytes()))


def stale_colors(stale: NDArray[np.int64], mean: float) -> NDArray[np.float64]:
    """Return (…, 3) colours, from fresh over the mean to twice the mean and beyond."""
    shares = np.clip(np.maximum(stale, 0) / mean, 0, 2)
    scale = np.array([to_rgb(color) for color in SCALE])
    return np.stack([np.interp(shares, [0, 1, 2], scale[:, i]) for i in range(3)], axis=-1)


class Scene:
    """A figure with its panels, where `moving` gives the artists of a state."""

    def __init__(self, figure: Any, movie: Any) -> None:
        self.movie, self.film = movie, movie.states.film
        self.mean = self.film.mean_staleness
        self.most = max(1, self.film.staleness[: self.film.commits].max(initial=1))
        width, height = figure.get_size_inches() * DPI
        side, top, bottom = 150 / width, 1 - 38 / height, 30 / height
        names = list(movie.names) if movie.view == "landscape" else [""]
        columns = min(len(names), 2)
        rows = -(-len(names) // columns)
        margin, gap, room = 10 / width, 10 / width, 1 - side - 40 / width
        w = (room - gap * (columns - 1)) / columns
        h = (top - bottom - (10 / height) * (rows - 1)) / rows
        places = [divmod(i, columns) for i in range(len(names))]
        corners = [(margin + j * (w + gap), top - (i + 1) * h - i * 10 / height) for i, j in places]
        self.panels = [figure.add_axes((x, y, w, h)) for x, y in corners]
        self.bars = figure.add_axes((1 - side + 6 / width, bottom, side - 16 / width, top - bottom))
        figure.text(margin, 1 - 23 / height, movie.title, size=11, weight="bold", color=INK)
        self.words = figure.text(margin, 9 / height, "", size=9, color=INK, parse_math=False)
        self.words.set_animated(True)
        for ax, name in zip(self.panels, names, strict=True):
            if movie.view == "landscape":
                self._ground(ax, name)
            elif self.film.graph is not None:
                self._web(ax)
            else:
                self._space(ax)
        n = self.film.workers
        self.bars.set(xlim=(0, self.most * 1.05), ylim=(n - 0.4, -0.6))
        self.bars.set_title("staleness of each worker", size=7.5, weight="normal", pad=3, color=GREY)
        labelled = np.arange(0, n, -(-n // 20))
        self.bars.set_yticks(labelled, [str(i) for i in labelled], size=6.5)
        self.bars.tick_params(axis="x", labelsize=6.5)
        self.bars.tick_params(axis="y", length=0)
        self.bars.grid(visible=False, axis="y")

    def moving(self, state: State) -> Iterator[tuple[Any, Any]]:
        """Yield (axes, artist) of everything that moves, from the back to the front."""
        for ax, name in zip(self.panels, self.movie.names or ("",), strict=False):
            if self.film.graph is not None:
                yield from self._exchange(ax, self.film.graph, state)
            else:
                yield from self._walk(ax, name, state) if self.movie.view == "landscape" else self._drift(ax, state)
        yield from self._staleness(state)
        stalest = max(state.stalest, 0)
        behind = f" · stalest: {self.film.who(stalest)}, {state.stale[stalest]} behind"
        so_far = f"version {state.version}" if self.film.graph is None else counted(state.commits, "commit")
        self.words.set_text(f"{state.time:6.1f} s · {so_far}{behind if state.stalest >= 0 else ''}")
        yield self.bars, self.words

    def _ground(self, ax: Any, name: str) -> None:
        plane = self.movie.plane
        assert plane is not None
        ax.set(xlim=(0, UNITS), ylim=(0, UNITS), xticks=[], yticks=[])
        ax.grid(visible=False)
        for spine in ax.spines.values():
            spine.set_visible(False)
        if plane.heights is not None:
            side = np.linspace(0, UNITS, len(plane.heights))
            levels = np.linspace(-0.5, SHADES + 0.5, BANDS + 1)
            ramp = LinearSegmentedColormap.from_list("ground", ["#FCFDFE", "#AEC0D6"])
            ax.contourf(side, side, plane.heights, levels, cmap=ramp, antialiased=False)
            ax.contour(side, side, plane.heights, levels[1:-1], colors="#8FA3BC", linewidths=0.4)
        for minimum in plane.minima:
            ax.plot(*plane.round(np.array(minimum)), "+", color=INK, markersize=9, alpha=0.8)
        ax.text(0.02, 0.975, name, transform=ax.transAxes, size=11, weight="bold", va="top", color=INK)

    def _walk(self, ax: Any, name: str, state: State) -> Iterator[tuple[Any, Any]]:
        path = self.movie.states.paths[name]
        done = state.commits - self.film.row
        last = min(done, len(path.units) - 1)
        is_over, centre = done >= len(path.units), path.units[last]
        add = {"transform": ax.transData, "clip_on": True, "clip_path": None}

        def line(points: Any, **look: Any) -> tuple[Any, Any]:
            artist = Line2D(points[:, 0], points[:, 1], **{**add, "solid_capstyle": "round", **look})
            artist.set_clip_box(ax.bbox)
            return ax, _on(artist, ax)

        yield line(path.units[: last + 1], color=INK, linewidth=0.8, alpha=0.35)
        tail = max(12, round(TAIL * self.film.workers))
        yield line(path.units[max(0, last - tail // 2) : last + 1], color=INK, linewidth=1.6, alpha=0.7)
        places = path.plane.round(path.places(state.job))
        visible = np.isfinite(places).all(axis=1) & (state.job >= 0)
        colors = self._colors(state)
        if not is_over:
            live = visible & (state.stale >= 0)
            segments = np.stack([places[live], np.broadcast_to(centre, (live.sum(), 2))], axis=1)
            fan = LineCollection(list(segments), colors=colors[live], linewidths=1.0, alpha=0.5)
            fan.set_clip_box(ax.bbox)
            yield ax, _on(fan, ax, data=True)
        order = np.argsort(state.stale, kind="stable")
        order = order[visible[order]]
        yield ax, self._dots(ax, places[order], colors[order], 26)
        if state.stalest >= 0 and visible[state.stalest]:
            ring = places[[state.stalest]]
            yield ax, self._dots(ax, ring, colors[[state.stalest]], 100, hollow=True)
        flights = [(worker, share) for worker, share in self._flights(state) if visible[worker] and not is_over]
        if flights:
            spots = np.array([places[w] + (centre - places[w]) * s for w, s in flights])
            yield ax, self._dots(ax, spots, colors[[w for w, _ in flights]], 9)
        if not is_over:
            yield line(centre[None], color=INK, marker="o", markersize=8, markeredgecolor="white", markeredgewidth=1.2)
        ended = "the run ends here" if path.diverged_at is None else f"diverged at commit {path.diverged_at}"
        commits, values = self.movie.curves[name]
        place = int(np.searchsorted(commits, done, side="right")) - 1
        loss = f"loss {_number(values[place])}" if place >= 0 else ""
        halo = [withStroke(linewidth=3, foreground="white", alpha=0.8)]
        look = {"color": INK, "va": "top", "ha": "right", "size": 9, "path_effects": halo}
        yield ax, _on(Text(0.98, 0.975, ended if is_over else loss, transform=ax.transAxes, **look), ax)

    def _space(self, ax: Any) -> None:
        ax.set(xlim=(-1.06, 1.06), ylim=(-1.06, 1.06), xticks=[], yticks=[], aspect="equal")
        ax.set_axis_off()
        angle = np.linspace(0, 2 * np.pi, 200)
        for age, name in ((0, "fresh"), (1, f"τ = {self.mean:.3g}"), (2, f"τ = {2 * self.mean:.3g}")):
            radius = NEAREST + (1 - NEAREST) * (1 - np.exp(-age))
            ax.plot(radius * np.cos(angle), radius * np.sin(angle), color="#DDE1E6", linewidth=0.8)
            ax.text(0, radius + 0.015, name, color=GREY, size=7.5, ha="center", va="bottom")

    def _drift(self, ax: Any, state: State) -> Iterator[tuple[Any, Any]]:
        places, colors = gravity_places(self.movie.states, state.time), self._colors(state)
        for which, alpha, width in ((state.down, 0.35, 0.8), (state.up, 0.9, 1.2)):
            if which:
                segments = list(np.stack([places[which], np.zeros((len(which), 2))], axis=1))
                edges = LineCollection(segments, colors=colors[which], alpha=alpha, linewidths=width)
                yield ax, _on(edges, ax, data=True)
        for worker, strength in self._recent(state):
            x, y = zip((0.0, 0.0), places[worker], strict=True)
            look = {"color": colors[worker], "alpha": 0.7 * strength, "linewidth": 1.4, "transform": ax.transData}
            yield ax, _on(Line2D(x, y, **look), ax)
        for place, worker in enumerate(state.queue):
            angle = np.pi / 2 - 2 * np.pi * place / max(len(state.queue), 8)
            places[worker] = 0.13 * np.cos(angle), 0.13 * np.sin(angle)
        places[state.service] = 0.0
        away = np.isin(state.doing, (DOWN,))
        order = np.argsort(state.stale, kind="stable")
        size = max(14.0, min(60.0, 1600 / self.film.workers))
        yield ax, self._dots(ax, places[order], colors[order], size, alpha=np.where(away, 0.3, 1.0)[order])
        if state.stalest >= 0:
            yield ax, self._dots(ax, places[[state.stalest]], colors[[state.stalest]], 3.2 * size, hollow=True)
        flights = self._flights(state)
        if flights:
            spots = np.array([places[w] * (1 - s) for w, s in flights])
            yield ax, self._dots(ax, spots, colors[[w for w, _ in flights]], 0.4 * size)
        sun = Line2D([0], [0], marker="o", markersize=22, color=INK, transform=ax.transData)
        yield ax, _on(sun, ax)
        number = ax.text(0, 0, str(state.version), color="white", size=8, weight="bold", ha="center", va="center")
        number.remove()
        yield ax, _on(number, ax)

    def _web(self, ax: Any) -> None:
        ax.set(xlim=(-1.12, 1.12), ylim=(-1.12, 1.12), xticks=[], yticks=[], aspect="equal")
        ax.set_axis_off()

    def _exchange(self, ax: Any, graph: GraphFilm, state: State) -> Iterator[tuple[Any, Any]]:
        now, typical = state.time * self.film.per_second, self.film.typical
        places, colors = graph.places_at(now, typical), np.vstack([self._colors(state), to_rgb(INK)])
        yield ax, _on(LineCollection(list(places[graph.edges]), colors="#DDE1E6", linewidths=0.8), ax, data=True)
        bright = graph.flashes(now, typical)
        under_way = [(sender, receiver, 0.6) for sender, receiver, _ in state.messages]
        lit = [*under_way, *bright]
        if lit:
            ends = places[[[sender, receiver] for sender, receiver, _ in lit]]
            edges = LineCollection(list(ends), colors=to_rgb(INK), alpha=[0.75 * strength for *_, strength in lit])
            edges.set_linewidth(1.8)
            yield ax, _on(edges, ax, data=True)
        if state.messages:
            spots = [places[s] + (places[r] - places[s]) * share for s, r, share in state.messages]
            yield ax, self._dots(ax, np.array(spots), colors[[s for s, _, _ in state.messages]], 22)
        size = np.full(self.film.workers, max(20.0, min(90.0, 2400 / self.film.workers)))
        size[self.film.workers - graph.regions :] *= SERVER
        far = graph.distances(state.commits - self.film.row)
        if far is not None:
            size = size * (LEAST + (1 - LEAST) * far) ** 2
        for worker in np.argsort(-size, kind="stable"):
            alpha = 0.3 if state.doing[worker] == DOWN else 1.0
            yield ax, self._dots(ax, places[[worker]], colors[[worker]], float(size[worker]) * ENLARGED, alpha=alpha)
        for worker in range(self.film.workers) if self.film.workers <= MOST_NUMBERED else ():
            x, y = places[worker]
            look = {"size": 7.5, "ha": "center", "va": "center", "color": INK, "transform": ax.transData}
            look["path_effects"] = [withStroke(linewidth=2, foreground="white", alpha=0.75)]
            yield ax, _on(Text(x, y, str(worker), **look), ax)
        if graph.regions:
            x, y = places[-1]
            yield ax, _on(Line2D([x], [y], marker="o", markersize=22, color=INK, transform=ax.transData), ax)
            look = {"size": 8, "weight": "bold", "ha": "center", "va": "center", "color": "white"}
            pushes = str(graph.versions(now)[-1])
            yield ax, _on(Text(x, y, pushes, transform=ax.transData, **look), ax)

    def _staleness(self, state: State) -> Iterator[tuple[Any, Any]]:
        y, right = np.arange(self.film.workers, dtype=float), np.maximum(state.stale, 0).astype(float)
        low, high, zero = y - 0.4, y + 0.4, np.zeros_like(y)
        corners = np.stack([zero, low, right, low, right, high, zero, high], axis=1).reshape(-1, 4, 2)
        lanes = PolyCollection(list(corners), facecolors=[COLORS[doing] for doing in state.doing], linewidths=0)
        yield self.bars, _on(lanes, self.bars, data=True)

    def _colors(self, state: State) -> NDArray[np.float64]:
        colors = stale_colors(state.stale, self.mean)
        colors[np.isin(state.doing, (IDLE, DOWN))] = to_rgb(COLORS[IDLE])
        return colors

    def _flights(self, state: State) -> list[tuple[int, float]]:
        """Return workers with a message under way, and its place from the worker, 0, to the server, 1."""
        jobs, now, flights = self.film.jobs, state.time * self.film.per_second, []
        for worker in (*state.up, *state.down):
            job, up = state.job[worker], state.doing[worker] == SENDING
            first, last = (jobs.finish, jobs.arrive) if up else (jobs.begin, jobs.start)
            if np.isfinite(last[job]) and last[job] > first[job]:
                share = float((now - first[job]) / (last[job] - first[job]))
                flights.append((worker, share if up else 1 - share))
        return flights

    def _recent(self, state: State) -> list[tuple[int, float]]:
        """Return workers that committed a moment ago, and how recent that is, from 1 to 0."""
        film, long = self.film, FLASH * self.film.typical
        now, done = state.time * film.per_second, state.commits - film.row
        first = int(np.searchsorted(film.jobs.end[:done], now - long))
        strength = 1 - (now - film.jobs.end[first:done]) / long
        return list(zip(film.jobs.worker[first:done].tolist(), strength.tolist(), strict=True))

    def _dots(self, ax: Any, places: Any, colors: Any, size: float, *, hollow: bool = False, alpha: Any = None) -> Any:
        full = {"facecolors": colors, "edgecolors": "white", "linewidths": 0.6}
        look = {"facecolors": "none", "edgecolors": colors, "linewidths": 1.5} if hollow else full
        spots: dict[str, Any] = {"offsets": places, "offset_transform": ax.transData, "alpha": alpha}
        dots = PathCollection([Outline.unit_circle()], [size / 3.2], **spots, **look)
        dots.set_transform(Affine2D().scale(ax.figure.dpi / 72))
        dots.set_clip_box(ax.bbox)
        return _on(dots, ax)


def _number(value: float) -> str:
    """Return a number as the page writes it: three digits, with a power of ten if it is very large or small."""
    size = abs(value)
    if size >= 1e5 or 0 < size < 1e-3:
        digits, power = f"{value:.1e}".replace(".0e", "e").split("e")
        return f"{digits}e{int(power)}".replace("-", "−")
    return f"{float(f'{value:.3g}'):g}".replace("-", "−")


def _on(artist: Any, ax: Any, *, data: bool = False) -> Any:
    """Return an artist that knows its axes without being one of their children: it is drawn for one frame."""
    artist.set_figure(ax.figure)
    artist.axes = ax
    if data:
        artist.set_transform(ax.transData)
    return artist


def _size(movie: Any, size: tuple[int, int] | None) -> tuple[int, int]:
    if size is None:
        return SMALL.get(len(movie.names) if movie.view == "landscape" else 1, LARGE)
    width, height = np.asarray(size).tolist() if np.shape(size) == (2,) else (0, 0)
    if not (isinstance(width, int) and isinstance(height, int) and width >= 320 and height >= 200):
        raise ValueError(
            f"`size` must be width and height in pixels, at least 320 by 200; got {brief(size)}. Give (640, 460)."
        )
    return width, height
