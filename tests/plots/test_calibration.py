"""Quantiles of data and law, on axes that show them."""

import numpy as np
import pytest

from asyncsim.plots._calibration import draw_quantiles


@pytest.mark.parametrize("value", [0.02, 3.0])
def test_a_constant_is_drawn_at_its_value_and_not_at_its_rounding_errors(ax, value):
    draw_quantiles(ax, value * (1 + np.array([-1e-15, 0, 2e-15])), np.full(3, value))
    assert ax.get_xlim() == ax.get_ylim() == pytest.approx((0.9 * value, 1.1 * value))


def test_the_diagonal_spans_data_and_law(ax):
    draw_quantiles(ax, np.array([1.0, 2.0, 3.0]), np.array([0.5, 2.0, 2.5]))
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[0.5, 0.5], [3.0, 3.0]])
