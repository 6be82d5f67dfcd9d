"""Why a rule moves the parameters as it does, and the chapters of a movie."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.animation import mechanism
from asyncsim.animation._paths import UNITS
from asyncsim.plots.style import BLUE, VERMILION, rule_colors
from tests.animation.browser import MoviePage
from tests.animation.problems import explained, trace_of


def test_the_mechanism_satisfies_the_rules_equation():
    """π|Δθ| = κ|m| - |θ - s| wherever π is not clamped, with θ - s between two own pulls."""
    trace, runs = explained()
    movie = asim.animate(trace, runs)
    one, film = movie.states.paths["GEM"].mechanism, movie.states.film
    way = runs["GEM"].unpacked("central")["x"]
    before = np.concatenate([[(8.0, 6.0)], way])[: film.commits]  # what the worker pulls just before its commit
    done = slice(0, film.commits)
    wanted = np.clip((np.abs(one.proxy[done]) - np.abs(before - one.since[done])) / np.abs(one.update[done]), 0, 5)
    assert one.clamped
    assert one.pi[done] == pytest.approx(wanted, abs=1e-3)
    assert way - before == pytest.approx(one.pi[done] * one.update[done], abs=1e-4)
    assert movie.states.paths["DOWNPOUR"].mechanism.pi is None


@pytest.mark.parametrize("variant", ["paper", "signed"])
def test_other_variants_count_from_where_their_equation_says(variant):
    trace = trace_of("plain")
    rule, workload = asim.rules.GEM(0.001, variant=variant), asim.workloads.Surface("booth", start=(8.0, 6.0))
    run = asim.replay(trace, rule, workload, record={"central": 1, "read": 1, "mechanism": mechanism})
    one = asim.animate(trace, run).states.paths["gem"].mechanism
    before = np.concatenate([[(8.0, 6.0)], run.unpacked("central")["x"]])[: len(trace)]
    moved = before - one.since[: len(trace)]
    if variant == "paper":
        assert one.pi * np.abs(one.update) == pytest.approx(np.abs(one.proxy) - np.abs(moved), abs=1e-3)
    else:
        assert one.pi * one.update == pytest.approx(one.proxy - moved, abs=1e-3)


def test_a_run_without_it_or_of_a_larger_model_has_no_mechanism():
    trace, runs = explained()
    plain = asim.replay(trace, asim.rules.GEM(0.01), asim.workloads.Surface("booth"), record=("central", "read"))
    assert asim.animate(trace, plain).states.paths["gem"].mechanism is None
    turned = asim.animate(trace, runs["GEM"], view="landscape", directions=[[1, 1], [1, -1]])
    assert turned.states.paths["gem"].mechanism is None  # π is of the parameters, not of these directions


def test_chapters_are_in_order_and_speak_of_what_happens():
    trace, runs = explained()
    chapters = asim.animate(trace, runs).chapters
    times = [chapter.seconds for chapter in chapters]
    assert times == sorted(times)
    assert (times[0], times[-1]) == (0.0, pytest.approx(trace.seconds, abs=0.01))
    text = " ".join(chapter.text for chapter in chapters)
    stalest = int(trace.staleness.argmax())
    assert f"Worker {trace.worker[0]} commits first." in text
    assert f"Worker {trace.worker[stalest]} is about to commit the oldest gradient: {trace.staleness.max()} " in text
    assert f"mean staleness is {trace.staleness.mean():.3g}, and n − 1 is 3." in text
    for name, words in (("crashes", "fails"), ("network and queue", "updates wait at the server")):
        assert any(words in chapter.text for chapter in asim.animate(trace_of(name)).chapters)


def test_chapters_of_the_user_are_in_order():
    trace, _ = explained()
    movie = asim.animate(trace, chapters={5.0: "Later.", 1.0: "Sooner."})
    assert [(chapter.seconds, chapter.text) for chapter in movie.chapters] == [(1.0, "Sooner."), (5.0, "Later.")]
    with pytest.raises(ValueError, match=r"`chapters` must be between 0 and .* s; got 1000"):
        asim.animate(trace, chapters={1000.0: "Too late."})
    with pytest.raises(ValueError, match="`chapters` must be at most 12; got 13"):
        asim.animate(trace, chapters={second / 10: "Many." for second in range(13)})


def test_a_rule_has_one_colour():
    assert rule_colors(["DOWNPOUR", "GEM"]) == rule_colors(["GEM", "DOWNPOUR"])[::-1] == [VERMILION, BLUE]
    three = rule_colors(["gem, η = 1", "gem, η = 2", "a new rule"])
    assert three[0] == BLUE
    assert len(set(three)) == 3


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    movie = asim.animate(*explained())
    path = tmp_path_factory.mktemp("mechanism") / "page.html"
    movie.html(path)
    return movie, path


def before_commit(movie, row):
    """Just before a commit, in seconds."""
    return (float(movie.states.commit_ticks[row]) - 1) / movie.states.film.per_second


def test_the_page_shows_what_the_rule_makes_of_the_chosen_workers_gradient(page, browser):
    movie, path = page
    trace, runs = explained()
    one = movie.states.paths["GEM"].mechanism
    fine = 3 * (movie.plane.high - movie.plane.low).max() / UNITS
    with MoviePage(browser, path, "?t=0", viewport=(1100, 800)) as watched:
        for row in (0, 9, 25):
            worker = int(trace.worker[row])
            watched.page.select_option("#worker", str(worker))
            shown = watched.page.evaluate("now => movie.stateAt(now)", before_commit(movie, row))
            gem, downpour = shown["mechanism"]["GEM"], shown["mechanism"]["DOWNPOUR"]
            for key in ("update", "proxy"):
                assert gem[key] == pytest.approx(getattr(one, key)[row], abs=fine)
            assert gem["recorded"] == pytest.approx(one.pi[row], rel=0.01)
            assert np.multiply(gem["pi"], gem["update"]) == pytest.approx(one.pi[row] * one.update[row], abs=3 * fine)
            way = runs["DOWNPOUR"].unpacked("central")["x"]
            before = way[row - 1] if row else (8.0, 6.0)
            assert downpour["commit"] == pytest.approx(way[row] - before, abs=fine)
            assert (downpour["proxy"], downpour["pi"]) == (None, None)


def test_a_worker_is_chosen_by_mouse_touch_and_keyboard(page, browser):
    movie, path = page
    with MoviePage(browser, path, "?t=5", viewport=(1100, 800), has_touch=True) as watched:
        side = watched.page.locator("#side").bounding_box()

        def chosen():
            return watched.page.evaluate("movie.chosen")

        assert chosen() == -1
        watched.page.keyboard.press("ArrowDown")
        watched.page.keyboard.press("ArrowDown")
        assert chosen() == 1
        text = watched.page.text_content("#why")
        state = movie.at(5.0)
        assert text.startswith(f"Worker 1 computes on version {state.read[1]}, {state.stale[1]} behind.")
        assert "GEM: the parameters moved by " in text
        assert "so π = (" in text
        watched.page.keyboard.press("Escape")
        assert (chosen(), watched.page.text_content("#why")) == (-1, "")
        watched.page.keyboard.press("ArrowUp")
        assert chosen() == movie.states.film.workers - 1
        watched.page.mouse.click(side["x"] + 40, side["y"] + 28)  # the first of the bars
        assert chosen() == 0
        watched.page.touchscreen.tap(side["x"] + 40, side["y"] + 28)
        assert chosen() == -1


def test_chapters_and_the_loss_curve_go_to_their_times(page, browser):
    movie, path = page
    last = movie.states.film.seconds[1]
    with MoviePage(browser, path, "?t=0", viewport=(1100, 800)) as watched:

        def now():
            return watched.state()["time"]

        buttons = watched.page.locator("#chapters button")
        assert buttons.count() == len(movie.chapters)
        for i, chapter in enumerate(movie.chapters):
            buttons.nth(i).click()
            assert now() == pytest.approx(chapter.seconds, abs=2 / movie.states.film.per_second)
            assert watched.page.text_content("#chapter") == chapter.text
            assert watched.page.evaluate("movie.chosen") == chapter.worker
        watched.page.keyboard.press("Home")
        watched.page.keyboard.press("PageDown")
        assert now() == pytest.approx(movie.chapters[1].seconds, abs=0.01)
        watched.page.keyboard.press("PageUp")
        assert now() == 0
        side = watched.page.locator("#side").bounding_box()
        watched.page.mouse.click(side["x"] + side["width"] / 2, side["y"] + side["height"] - 40)
        assert now() == pytest.approx(last / 2, rel=0.02)


def test_the_address_gives_a_worker_or_a_chapter(page, browser):
    movie, path = page
    with MoviePage(browser, path, "?t=5&worker=2") as watched:
        assert watched.page.evaluate("movie.chosen") == 2
        assert watched.page.text_content("#why").startswith("Worker 2 ")
    with MoviePage(browser, path, "?chapter=2") as watched:
        assert watched.page.text_content("#chapter") == movie.chapters[1].text
        assert watched.page.evaluate("movie.chosen") == movie.chapters[1].worker
        assert not watched.page.evaluate("movie.playing")
