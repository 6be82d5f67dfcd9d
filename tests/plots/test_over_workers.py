"""Pictures over numbers of workers, stability and throughput, read off the artists."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from asyncsim import plots
from tests.problems import refusals

N, K = np.array([1.0, 2.0, 4.0, 8.0]), np.geomspace(0.1, 1.6, 5)
SHARES = np.random.default_rng(3).integers(0, 5, size=(4, 5)) / 4


def drawn(workers=N, kappas=K, shares=SHARES, **more):
    ax = Figure().subplots()
    return plots.draw_stability(ax, workers, kappas, shares, **more), ax


@pytest.mark.parametrize(
    ("workers", "scale", "middle"), [(N, "log", np.exp), (np.arange(2.0, 10.0, 2.0), "linear", None)]
)
def test_cells_are_centred_on_their_values(workers, scale, middle):
    (cells,), ax = drawn(workers=workers)
    corners = cells.get_coordinates()
    edges = corners[0, :, 0] if middle is None else np.log(corners[0, :, 0])
    centres = (edges[1:] + edges[:-1]) / 2
    assert (ax.get_xscale(), ax.get_yscale()) == (scale, "log")
    np.testing.assert_allclose(centres if middle is None else middle(centres), workers)
    np.testing.assert_allclose(np.sqrt(corners[1:, 0, 1] * corners[:-1, 0, 1]), K)


@pytest.mark.parametrize("values", [[1, 2, 3, 4, 6, 8, 12, 16], [1, 5, 6, 100], [3], [2, 7]])
def test_every_value_lies_in_its_own_cell(values):
    (cells,), _ = drawn(workers=values, kappas=values, shares=np.ones((len(values),) * 2))
    corners = cells.get_coordinates()
    for edges in (corners[0, :, 0], corners[:, 0, 1]):
        assert np.all(edges[:-1] < values)
        assert np.all(edges[1:] > values)


def test_limits_are_lines_named_below_the_axes():
    limits = {"mean square": 2 / N, "constant delay": [2.0, 1.0, np.nan, 0.2]}
    artists, ax = drawn(limits=limits)
    assert [line.get_label() for line in artists[1:]] == list(limits)
    for line, row in zip(artists[1:], limits.values(), strict=True):
        np.testing.assert_array_equal(line.get_xydata(), np.column_stack([N, row]))
    assert len({(line.get_color(), str(line.get_linestyle())) for line in artists[1:]}) == 2
    legend = ax.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == list(limits)
    ax.figure.draw_without_rendering()
    assert legend.get_window_extent().y1 < ax.get_window_extent().y0
    assert not ax.get_xlim()[1] > N[-1] * 1.5, "a line must not widen the map"


def test_a_limit_of_one_number_of_workers_is_a_dot_and_others_are_lines():
    one = [2.0, np.nan, np.nan, np.nan]
    artists, _ = drawn(limits={"mean square": one, "round robin": 2 / N})
    assert [line.get_marker() in ("", "None") for line in artists[1:]] == [False, True]


def test_the_colours_are_explained_once():
    (cells,), ax = drawn()
    assert len(ax.figure.axes) == 2
    assert ax.figure.axes[1].get_ylabel() == cells.get_label() == "share of runs that stay bounded"
    assert len(drawn(colorbar=False)[1].figure.axes) == 1


def test_a_printer_without_colours_tells_them_apart():
    (cells,), _ = drawn()
    assert cells.get_clim() == (0, 1)
    grey = cells.get_cmap()([0.0, 0.5, 1.0])[:, :3] @ [0.299, 0.587, 0.114]
    assert np.all(np.diff(grey) < -0.08)


def test_ticks_are_numbers_of_workers():
    many = np.arange(1.0, 65.0)
    _, ax = drawn(workers=many, shares=np.ones((64, 5)))
    ticks = ax.get_xticks()
    assert set(ticks) <= set(many)
    assert 4 <= len(ticks) <= 12


def test_nothing_simulated_is_left_blank():
    shares = SHARES.copy()
    shares[2, 3] = np.nan
    (cells,), _ = drawn(shares=shares)
    assert np.argwhere(np.ma.getmaskarray(np.ma.masked_invalid(cells.get_array()))).tolist() == [[3, 2]]


test_errors = refusals(
    ({"workers": [2, 1, 4, 8]}, "`workers` must be positive and increasing"),
    ({"kappas": [0.0, 1, 2, 3, 4]}, "`kappas` must be positive and increasing"),
    ({"shares": SHARES.T}, r"`outcome` must have shape \(4, 5\); got \(5, 4\)"),
    ({"shares": SHARES * 32}, "`outcome` must hold shares from 0 to 1; got 32"),
    ({"limits": {"mine": [1.0]}}, r"`limits\['mine'\]` must have shape \(4,\); got \(1,\)"),
    call=lambda change: drawn(**change),
)


MEASURED = np.array([1.0, 1.9, np.nan, 3.9])


def throughput(*arguments, **more):
    ax = Figure().subplots()
    return {artist.get_label(): artist for artist in plots.draw_throughput(ax, *arguments, **more)}, ax


def test_points_and_their_errors():
    artists, ax = throughput(N, MEASURED, standard_error=[0.1, 0.2, np.nan, 0.1])
    assert list(artists) == ["measured", "± 2 standard errors"]
    np.testing.assert_array_equal(artists["measured"].get_xydata(), np.column_stack([N, MEASURED]))
    bars = {segment[0, 0]: segment[:, 1] for segment in artists["± 2 standard errors"].get_segments() if len(segment)}
    np.testing.assert_allclose(bars[2.0], [1.5, 2.3])
    np.testing.assert_allclose(bars[8.0], [3.7, 4.1])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("workers n", "commits per second")


def test_asymptotes_meet_at_the_knee():
    artists, _ = throughput(N, MEASURED, knee=4.0, limit=3.0)
    assert artists["knee n* = 4"].get_xdata() == [4.0, 4.0]
    assert artists["limit of the server"].get_ydata() == [3.0, 3.0]
    ascent = artists["without queueing"]
    assert np.interp(4.0, ascent.get_xdata(), ascent.get_ydata()) == pytest.approx(3.0)
    assert ascent.get_ydata()[0] == 0


def test_the_ascent_ends_with_the_workers():
    artists, ax = throughput(N, MEASURED, knee=100.0, limit=50.0)
    np.testing.assert_allclose(artists["without queueing"].get_xydata(), [[0, 0], [8, 4]])
    assert ax.get_xlim()[1] < 9


@pytest.mark.parametrize(
    ("more", "labels"), [({"knee": 4.0}, {"knee n* = 4"}), ({"limit": 2.0}, {"limit of the server"})]
)
def test_only_given_curves_are_drawn(more, labels):
    artists, ax = throughput(N, MEASURED, **more)
    assert set(artists) == {"measured", *labels}
    assert {text.get_text() for text in ax.get_legend().get_texts()} == set(artists)


test_errors_of_throughput = refusals(
    ({"workers": [], "throughput": []}, r"`workers` must have shape \(points,\); got \(0,\)"),
    ({"predicted": [1.0]}, r"`predicted` must have shape \(4,\); got \(1,\)"),
    ({"standard_error": [[1.0]]}, r"`standard_error` must have shape \(4,\)"),
    ({"knee": 0.0}, "`knee` must be finite and positive; got 0.0"),
    call=lambda more: throughput(**{"workers": N, "throughput": MEASURED} | more),
)
