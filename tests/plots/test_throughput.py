"""The picture of throughput, read off the artists."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from asyncsim import plots
from tests.problems import refusals

pytestmark = pytest.mark.quick

N = np.array([1.0, 2.0, 4.0, 8.0])
MEASURED = np.array([1.0, 1.9, np.nan, 3.9])


def drawn(*arguments, **more):
    ax = Figure().subplots()
    return {artist.get_label(): artist for artist in plots.draw_throughput(ax, *arguments, **more)}, ax


def test_points_and_their_errors():
    artists, ax = drawn(N, MEASURED, standard_error=[0.1, 0.2, np.nan, 0.1])
    assert list(artists) == ["measured", "± 2 standard errors"]
    np.testing.assert_array_equal(artists["measured"].get_xydata(), np.column_stack([N, MEASURED]))
    bars = {segment[0, 0]: segment[:, 1] for segment in artists["± 2 standard errors"].get_segments() if len(segment)}
    np.testing.assert_allclose(bars[2.0], [1.5, 2.3])
    np.testing.assert_allclose(bars[8.0], [3.7, 4.1])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("workers n", "commits per second")


def test_asymptotes_meet_at_the_knee():
    artists, _ = drawn(N, MEASURED, knee=4.0, limit=3.0)
    assert artists["knee n* = 4"].get_xdata() == [4.0, 4.0]
    assert artists["limit of the server"].get_ydata() == [3.0, 3.0]
    ascent = artists["without queueing"]
    assert np.interp(4.0, ascent.get_xdata(), ascent.get_ydata()) == pytest.approx(3.0)
    assert ascent.get_ydata()[0] == 0


def test_the_ascent_ends_with_the_workers():
    artists, ax = drawn(N, MEASURED, knee=100.0, limit=50.0)
    np.testing.assert_allclose(artists["without queueing"].get_xydata(), [[0, 0], [8, 4]])
    assert ax.get_xlim()[1] < 9


@pytest.mark.parametrize(
    ("more", "labels"), [({"knee": 4.0}, {"knee n* = 4"}), ({"limit": 2.0}, {"limit of the server"})]
)
def test_what_is_not_given_is_not_drawn(more, labels):
    artists, ax = drawn(N, MEASURED, **more)
    assert set(artists) == {"measured", *labels}
    assert {text.get_text() for text in ax.get_legend().get_texts()} == set(artists)


test_errors = refusals(
    ({"workers": [], "throughput": []}, r"`workers` must have shape \(points,\); got \(0,\)"),
    ({"predicted": [1.0]}, r"`predicted` must have shape \(4,\); got \(1,\)"),
    ({"standard_error": [[1.0]]}, r"`standard_error` must have shape \(4,\)"),
    ({"knee": 0.0}, "`knee` must be finite and positive; got 0.0"),
    call=lambda more: drawn(**{"workers": N, "throughput": MEASURED} | more),
)
