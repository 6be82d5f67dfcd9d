"""The page in a real browser: the same states as in Python, its controls, and that nothing leaves it."""

import itertools

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.animation import _states
from tests.animation.browser import MoviePage
from tests.animation.problems import GRAPH_TRACES, REGION_TRACES, TRACES, trace_of, two_runs


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    movie = asim.animate(*two_runs(), predicted=np.full(12, 1 / 12))
    path = tmp_path_factory.mktemp("page") / "two.html"
    movie.html(path)
    return movie, path


def agree(movie, seconds, found):
    """Whether a page's state is that of Python: whole numbers exactly, places to rounding."""
    state = movie.at(seconds)
    wanted = state.plain()
    places, central = found.pop("places"), found.pop("central")
    drifted = np.array(found.pop("gravity"))
    assert {name: found[name] for name in found if name != "time"} == {
        name: wanted[name] for name in wanted if name not in ("time", "places", "central")
    }
    assert found["time"] == pytest.approx(wanted["time"])
    assert central == {name: point and pytest.approx(point) for name, point in wanted["central"].items()}
    for name, points in places.items():
        assert points == [point and pytest.approx(point) for point in wanted["places"][name]]
    assert drifted == pytest.approx(_states.gravity_places(movie.states, seconds), abs=1e-9)


def moments(movie):
    """Times all over the film, those of commits among them."""
    first, last = movie.states.film.seconds
    ticks = movie.states.commit_ticks[::9] / movie.states.film.per_second
    return [*np.linspace(first, last, 12).tolist(), *ticks.tolist()]


MOVIES = {name: lambda name=name: asim.animate(trace_of(name)) for name in TRACES | GRAPH_TRACES | REGION_TRACES} | {
    "several a step": lambda: asim.animate(*two_runs("several a step")),
    "a window and reads of one's own": lambda: asim.animate(*two_runs(), start=3.0, stop=7.0),
}


@pytest.mark.parametrize("name", MOVIES)
def test_the_page_shows_the_states_of_the_trace(name, browser, tmp_path):
    movie = MOVIES[name]()
    movie.html(tmp_path / "page.html")
    times = moments(movie)
    with MoviePage(browser, tmp_path / "page.html", "?t=0") as watched:
        found = watched.page.evaluate("times => times.map((now) => movie.stateAt(now))", times)
    for now, state in zip(times, found, strict=True):
        agree(movie, now, state)


def test_the_address_gives_the_time_and_the_state_stands_in_the_document(two, browser):
    movie, path = two
    with MoviePage(browser, path, "?t=6.2") as watched:
        watched.wait("document.getElementById('state').textContent !== ''")
        agree(movie, 6.2, watched.state())
        state = movie.at(6.2)
        stalest = f"stalest: worker {state.stalest}, {state.stale[state.stalest]} version"
        now = watched.page.text_content("#now")
        assert now.startswith(f"version {state.version} · {state.commits} commits · {stalest}")


def test_the_controls(two, browser):
    movie, path = two
    last = movie.states.film.seconds[1]
    with MoviePage(browser, path, "?t=5") as watched:
        page = watched.page

        def commits():
            return watched.state()["commits"]

        before = commits()
        page.keyboard.press("ArrowRight")
        page.click("#forth")
        assert commits() == before + 2
        page.keyboard.press("ArrowLeft")
        page.click("#back")
        assert commits() == before
        page.keyboard.press("Shift+ArrowRight")
        assert commits() == before + 10
        page.keyboard.press("End")
        assert (commits(), page.text_content("#play")) == (len(trace_of("network and queue")), "Again")
        page.keyboard.press("Home")
        assert commits() == 0
        page.fill("#slider", "5000")
        assert watched.state()["time"] == pytest.approx(last / 2, rel=1e-3)
        page.click("#play")
        assert page.evaluate("movie.playing")
        page.select_option("#speed", "8")
        page.evaluate("now => movie.seek(now)", 0.98 * last)
        watched.wait("!movie.playing")  # to the end
        assert commits() == movie.at(last).commits


def test_a_worker_tells_its_numbers(two, browser):
    movie, path = two
    with MoviePage(browser, path, "?t=6.2", viewport=(1100, 760)) as watched:
        box = watched.page.locator("#side").bounding_box()
        watched.page.mouse.move(box["x"] + 60, box["y"] + 28)  # the first of the bars
        state = movie.at(6.2)
        text = watched.page.text_content("#tip")
        assert text.startswith("worker 0: ")
        assert f"staleness {state.stale[0]}\n" in text
        assert f"read version {state.read[0]}\n" in text


COLOURS = """(selector) => {
    const canvas = document.querySelector(selector), pen = canvas.getContext("2d");
    return new Set(new Uint32Array(pen.getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size;
}"""


@pytest.mark.parametrize(("width", "height", "scheme"), [(1280, 800, "light"), (390, 844, "dark")])
def test_it_is_not_blank_and_fits_its_width(two, browser, width, height, scheme):
    options = {"viewport": (width, height), "media": {"color_scheme": scheme}}
    with MoviePage(browser, two[1], "?t=6.2", **options) as watched:
        assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
        for canvas in ("#stage", "#side"):
            assert watched.page.is_visible(canvas)
            assert watched.page.evaluate(COLOURS, canvas) > 30
        assert watched.page.evaluate("document.body.classList.contains('dark')") == (scheme == "dark")


WATCH = """() => {
    const draw = CanvasRenderingContext2D.prototype.fillText;
    window.drawn = [];
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        if (this.canvas.id === "side") drawn.push([String(text), this.textAlign, y, /^(700|bold)/.test(this.font)]);
        return draw.call(this, text, x, y);
    };
}"""


@pytest.mark.parametrize("workers", [20, 24, 40])
def test_numbers_of_workers_vanish_only_where_bold_ones_need_their_place(browser, tmp_path, workers):
    trace = asim.simulate(asim.Cluster(workers, asim.delays.Gamma(1.0, 0.5)), commits=10 * workers)
    asim.animate(trace).html(tmp_path / "page.html")
    with MoviePage(browser, tmp_path / "page.html", "?t=6.2", viewport=(1280, 800)) as watched:
        watched.page.evaluate(WATCH)
        for chosen in (3, 7, 8, 15):
            watched.page.evaluate("(w) => { drawn.length = 0; screen.chosen = w; movie.seek(6.2); }", chosen)
            watched.wait("drawn.length > 0")
            drawn = watched.page.evaluate("drawn")
            texts = itertools.takewhile(lambda drawn: drawn[0] != "Staleness of the commits", drawn)
            numbers = [(int(text), y, bold) for text, align, y, bold in texts if align == "right"]
            assert np.diff(sorted(y for _, y, _ in numbers)).min() >= 10  # pixels: no two overlap
            usual = {w: y for w, y, bold in numbers if not bold}
            bold = {w: y for w, y, bold in numbers if bold}
            every = np.diff(sorted(usual)).min()
            row = np.polyfit(list(usual), list(usual.values()), 1)
            for w in range(0, workers, every):
                free = min(abs(np.polyval(row, w) - y) for y in bold.values()) > 11
                assert w in bold or (w in usual) == free


def test_it_plays_by_itself_unless_motion_is_unwanted(two, browser):
    for wanted, playing in (("no-preference", True), ("reduce", False)):
        with MoviePage(browser, two[1], media={"reduced_motion": wanted}) as watched:
            assert watched.page.evaluate("movie.playing") == playing
