"""The picture of a pipeline's timetable shows its numbers."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.plots import draw_timetable
from asyncsim.plots._timeline import HEIGHT

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(("schedule", "height"), [("pipedream", HEIGHT), ("concurrent", HEIGHT / 2)])
def test_every_pass_is_a_bar_in_its_lane(ax, schedule, height):
    law = asim.delays.Constant(1.0)
    table = asim.Pipeline(stages=3, forward=law, backward=law, schedule=schedule).timetable(8)
    for artist, starts, ends in zip(
        draw_timetable(ax, table),
        (table.forward_start, table.backward_start),
        (table.forward_end, table.backward_end),
        strict=True,
    ):
        boxes = np.array([path.get_extents().extents for path in artist.get_paths()])  # left, low, right, high
        np.testing.assert_allclose(boxes[:, [0, 2]], np.stack([starts.ravel(), ends.ravel()], axis=1))
        np.testing.assert_allclose(boxes[:, 3] - boxes[:, 1], height)
        assert (np.round(boxes[:, [1, 3]].mean(axis=1)) == np.tile(np.arange(3), 8)).all()
    assert [text.get_text() for text in ax.texts[:4]] == ["0", "0", "0", "1"]
