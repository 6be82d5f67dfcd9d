"""The page as text, the GIF and the MP4: size, frames, policy, and that no text of a user gets out of its place."""

import base64
import hashlib
import json
import re
import shutil
import zlib
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgb

import asyncsim as asim
from asyncsim import delays
from asyncsim.animation._frames import COLORS, SCALE, _number, draw_frames, stale_colors, times
from asyncsim.animation._page import COMMENT, _source, fill
from asyncsim.plots.style import PALETTE
from tests.animation.problems import trace_of, two_runs

EVIL = '</script><script>alert(1)</script>"{{film}}&<b>'


def film_in(page):
    """What the page's script unpacks."""
    text = re.search(r'id="film">([^<]*)<', page)[1]
    return json.loads(zlib.decompress(base64.b64decode(text)))


@pytest.fixture(scope="module")
def movie():
    return asim.animate(*two_runs(), title="Two rules")


@pytest.mark.quick
def test_the_page_asks_for_nothing_from_outside(movie):
    page = re.sub('id="film">[^<]*<', "", movie.page())
    # A digest in base 64 may hold two slashes.
    assert not re.search(r"https?:|//[a-z]|@import|url\(|<link|<img|src=", re.sub(r"'sha256-[^']*'", "", page))
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)[1]
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; ")
    for kind, text in (("script", script), ("style", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"\b(eval|innerHTML|document\.write|fetch)\b", script)


@pytest.mark.parametrize("name", ["movie", "report"])
def test_squeezing_a_script_leaves_its_texts(name):
    source = COMMENT.sub("", _source("common.js") + _source(f"{name}.js"))
    assert not re.search(r"`[^`]*\$\{[^}`]*`", source)  # a text within a text's braces would be squeezed
    script = re.search(r"<script>(.*?)</script>", fill(name, {"title": "", "subtitle": ""}, {}), re.DOTALL)[1]
    texts = re.findall(r'"[^"\n]*"|`[^`]*`', source)
    assert len(texts) > 50
    assert all(text in script for text in texts)
    assert len(script) < 0.95 * len(source)


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (9600.4, "9600"), (-3.24e7, "−3.2e7"), (3e-5, "3e−5"), (0.0343, "0.0343")]
)
def test_losses_are_short(value, text):
    assert _number(value) == text


def test_text_of_a_user_stays_text():
    trace, runs = two_runs()
    page = asim.animate(trace, {EVIL: runs["DOWNPOUR"]}, title=EVIL, subtitle=EVIL).page()
    assert page.count("<script") == 2
    assert "alert(1)<" not in page
    assert page.count("&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;{{film}}&amp;&lt;b&gt;") == 3
    assert film_in(page)["runs"][0]["name"] == EVIL


def test_a_notebook_shows_the_page_in_a_frame(movie):
    frame = movie._repr_html_()
    assert frame.startswith("<iframe")
    assert 'sandbox="allow-scripts"' in frame
    assert frame.count('"') == 12  # that of the attributes: the page's own are escaped
    assert repr(movie) == "Movie(landscape of DOWNPOUR, elastic, 6 workers, 0 to 16.651 s)"


def test_a_minute_of_twenty_workers_takes_less_than_60_kB():
    network = asim.Network(latency=delays.Gamma(mean=0.08, cv=0.3))
    trace = asim.simulate(asim.Cluster(20, delays.Gamma(mean=1.0, cv=0.3), network=network), seconds=60.0)
    run = asim.replay(
        trace, asim.rules.GEM(1e-3), asim.workloads.Surface("beale", noise=1.0), record=("central", "read")
    )
    assert len(asim.animate(trace, run, predicted=np.full(40, 1 / 40)).page().encode()) < 60_000
    assert len(asim.animate(trace, view="gravity").page().encode()) < 60_000


def test_the_film_of_the_page_holds_the_trace():
    trace = trace_of("plain")
    film = film_in(asim.animate(trace, predicted=[0.5, 0.25]).page())
    ends = np.cumsum(film["jobs"]["end"]) / film["per_second"]
    assert np.abs(ends[: len(trace)] - trace.commit_time).max() < 1 / film["per_second"]
    assert film["jobs"]["worker"] == trace.worker.tolist()
    assert film["jobs"]["stale"] == trace.staleness.tolist()
    assert film["jobs"]["serve"] == 0  # a column that never changes
    assert film["law"] == [0.5, 0.25]


def test_workers_of_a_log_have_their_names():
    """In the page, whatever they are, and in its chapters."""
    names = ("node-8", EVIL, "node-10", "node-11")
    trace = replace(trace_of("plain"), names=names)
    movie = asim.animate(trace)
    assert EVIL not in movie.page()
    assert film_in(movie.page())["names"] == [f"{name} ({worker})" for worker, name in enumerate(names)]
    assert "names" not in film_in(asim.animate(trace_of("plain")).page())
    named, numbered = ([chapter.text for chapter in asim.animate(t).chapters] for t in (trace, trace_of("plain")))
    for worker, name in enumerate(names):
        numbered = [re.sub(rf"\b[Ww]orker {worker}\b", lambda _, w=worker, n=name: f"{n} ({w})", t) for t in numbered]
    assert named == numbered
    assert any(f"{name} (" in text for text in named for name in names)


@pytest.mark.parametrize("view", ["landscape", "gravity"])
def test_a_gif_has_its_frames_and_stays_small(view, tmp_path):
    from PIL import Image

    trace, runs = two_runs()
    movie = asim.animate(trace, runs, view=view)
    movie.gif(tmp_path / "movie.gif", seconds=1.0, rate=8.0, size=(400, 260))
    with Image.open(tmp_path / "movie.gif") as gif:
        assert (gif.n_frames, gif.size, gif.info["duration"], gif.info["loop"]) == (8, (400, 260), 120, 0)
        shown = []
        for frame in (0, 7):
            gif.seek(frame)
            shown.append(np.asarray(gif.convert("RGB"), float))
    assert (tmp_path / "movie.gif").stat().st_size < 100_000
    drawn = [*draw_frames(movie, times(movie, 8), (400, 260))]
    for picture, frame in zip(shown, (drawn[0], drawn[-1]), strict=True):
        assert np.abs(picture - frame).mean() < 3  # but for a palette of some colours
    assert np.abs(shown[0] - shown[1]).mean() > 1
    assert times(movie, 8)[[0, -1]].tolist() == list(movie.states.film.seconds)


def test_one_worker_and_one_commit(tmp_path):
    movie = asim.animate(asim.Trace.from_commits([0]))
    assert film_in(movie.page())["peak"] == 1
    movie.gif(tmp_path / "movie.gif", seconds=0.2, rate=10.0, size=(320, 200))
    assert (tmp_path / "movie.gif").is_file()


def test_colours_go_from_fresh_to_stale():
    colors = stale_colors(np.array([0, 5, 10, 99]), 5.0)
    assert colors[2].tolist() == colors[3].tolist()
    assert np.argmax(colors[0]) == 2  # lilac
    assert np.argmax(colors[3]) == 0  # red
    busy = np.array([to_rgb(color) for color in COLORS])  # no colour of a worker's activity
    assert np.abs(busy[:, None] - colors).sum(axis=-1).min() > 0.3


@pytest.mark.quick
def test_pages_pictures_and_films_have_the_same_colours():
    script = _source("common.js")

    def listed(name):
        return re.findall(r"#[0-9a-f]{6}", re.search(rf"const {name} = \[([^\]]*)\]", script)[1])

    assert listed("COLORS") == [color.lower() for color in COLORS]
    assert listed("RUNS") == [color.lower() for color in PALETTE]
    assert len({*listed("RUNS_ON_DARK")}) == len(PALETTE)
    stale = json.loads(re.search(r"const STALENESS = (\[\[.*?\]\])", script)[1])
    assert stale == [[round(255 * part) for part in to_rgb(color)] for color in SCALE]


def test_twelve_runs_have_twelve_colours():
    trace, runs = two_runs()
    movie = asim.animate(trace, {f"gem {number}": runs["DOWNPOUR"] for number in range(12)})
    assert len({run["color"] for run in film_in(movie.page())["runs"]}) == 12


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not on the path")
def test_an_mp4(movie, tmp_path):
    movie.mp4(tmp_path / "movie.mp4", seconds=0.5, rate=8.0, size=(321, 233))
    assert (tmp_path / "movie.mp4").read_bytes()[4:8] == b"ftyp"


@pytest.mark.parametrize(
    ("kind", "name", "options", "message"),
    [
        ("gif", "x.gif", {"seconds": 0}, "`seconds` must be finite and positive; got 0"),
        ("gif", "x.gif", {"rate": float("nan")}, "`rate` must be finite and positive; got nan"),
        ("gif", "x.gif", {"size": (10, 10)}, "`size` must be width and height in pixels, at least 320 by 200; got "),
        ("gif", "x.gif", {"size": 400}, "`size` must be width and height in pixels"),
        ("gif", "x.mp4", {}, r"`path` must end in \.gif .*; got .*x.mp4'\. Call `\.mp4\(…\)` for another"),
        ("gif", "x.HTML", {}, r"`path` must end in \.gif .*; got .*x.HTML'\. Call `\.html\(…\)` for another"),
        ("html", "x.gif", {}, r"`path` must end in \.html .*; got .*x.gif'\. Call `\.gif\(…\)` for another"),
        ("mp4", "x.png", {}, r"`path` must end in \.mp4 .*; got .*\. Call `\.html\(…\)` or `\.gif\(…\)` for another"),
        ("mp4", "x.mp4", {}, "`mp4` needs the program ffmpeg"),
    ],
)
def test_impossible_files_are_refused(kind, name, options, message, movie, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ValueError, match=message):
        getattr(movie, kind)(tmp_path / name, **options)
    assert not [*tmp_path.iterdir()]


def test_a_folder_that_is_missing(movie, tmp_path):
    for write in (movie.html, lambda path: movie.gif(path, seconds=0.2, rate=5.0, size=(320, 200))):
        with pytest.raises(OSError, match="could not be written"):
            write(tmp_path / "missing" / "movie")
