"""The scenario scripts whose report is a movie, on small settings."""

import numpy as np
import pytest

from tests.scenarios.run import load, run


@pytest.fixture
def short_gifs(monkeypatch):
    """A GIF of two frames: what frames look like is tested elsewhere."""
    from asyncsim.animation import _movie as movie

    monkeypatch.setattr(movie, "GIF_SECONDS", 0.2)
    monkeypatch.setattr(movie.Movie.gif, "__kwdefaults__", {"seconds": 0.2, "rate": 10.0, "size": (320, 240)})


@pytest.mark.usefixtures("short_gifs")
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("beale", {"seconds": 8.0}),
        ("booth_forty", {"commits": 300, "workers": 20}),
        ("gravity", {"seconds": 6.0, "workers": 6, "slow": 1}),
    ],
)
def test_the_report_is_a_page_beside_a_gif(name, settings, tmp_path):
    experiment = load(name)["experiment"].override(**settings)
    numbers = experiment.run(tmp_path).numbers
    assert {"movie.html", "movie.gif", "report.png", "numbers.npz", "summary.json"} <= {
        path.name for path in tmp_path.iterdir()
    }
    assert (tmp_path / "movie.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    (tmp_path / "movie.html").unlink()
    again = experiment.run(tmp_path)
    assert not again.recomputed
    assert (tmp_path / "movie.html").is_file()
    assert all(
        np.array_equal(again.numbers[key], value, equal_nan=value.dtype.kind == "f") for key, value in numbers.items()
    )


def test_on_beale_downpour_overshoots_and_gem_does_not():
    """DOWNPOUR is beyond the valley, y = 1, and comes back, again and again; GEM stays on this side."""
    numbers = run("beale", seconds=20.0)
    ways = dict(zip(numbers["rule"].tolist(), numbers["ways"], strict=True))
    beyond = {name: way[:, 1] > 1.0 for name, way in ways.items()}
    assert np.count_nonzero(np.diff(ways["DOWNPOUR"][:, 1] > 1.6)) >= 4
    assert beyond["DOWNPOUR"].any()
    assert not beyond["GEM"].any()
