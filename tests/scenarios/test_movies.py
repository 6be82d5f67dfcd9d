"""The scenario scripts whose report is a movie, on small settings."""

import numpy as np
import pytest

from tests.scenarios.run import load, run, run_loaded


@pytest.fixture
def short_gifs(monkeypatch):
    """A GIF of two frames: what frames look like is tested elsewhere."""
    from asyncsim.animation import _movie as movie

    monkeypatch.setattr(movie, "GIF_SECONDS", 0.2)
    monkeypatch.setattr(movie.Movie.gif, "__kwdefaults__", {"seconds": 0.2, "rate": 10.0, "size": (320, 240)})


@pytest.mark.usefixtures("short_gifs")
def test_the_report_is_a_page_beside_a_gif(tmp_path):
    experiment = load("beale")["experiment"].override(seconds=8.0)
    numbers = experiment.run(tmp_path).numbers
    assert {"movie.html", "movie.gif", "report.png", "numbers.npz", "summary.json"} <= {
        path.name for path in tmp_path.iterdir()
    }
    assert (tmp_path / "movie.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    (tmp_path / "movie.html").unlink()
    again = experiment.run(tmp_path)
    assert not again.recomputed
    assert (tmp_path / "movie.html").is_file()
    for key, value in numbers.items():
        np.testing.assert_array_equal(again.numbers[key], value)


@pytest.mark.parametrize(
    ("name", "settings"),
    [("booth_forty", {"commits": 300, "workers": 20}), ("gravity", {"seconds": 6.0, "workers": 6, "slow": 1})],
)
def test_other_movies_are_made(name, settings):
    script = load(name)
    assert run_loaded(script, **settings)
    experiment = script["experiment"].override(**settings)
    movie = experiment.movie(**{field.name: field.value for field in experiment.fields()})
    assert movie.page().startswith("<!doctype html>")


def test_on_beale_downpour_overshoots_and_gem_does_not():
    """DOWNPOUR is beyond the valley, y = 1, and comes back, again and again; GEM stays on this side."""
    numbers = run("beale", seconds=20.0)
    ways = dict(zip(numbers["rule"].tolist(), numbers["ways"], strict=True))
    beyond = {name: way[:, 1] > 1.0 for name, way in ways.items()}
    assert np.count_nonzero(np.diff(ways["DOWNPOUR"][:, 1] > 1.6)) >= 4
    assert beyond["DOWNPOUR"].any()
    assert not beyond["GEM"].any()
