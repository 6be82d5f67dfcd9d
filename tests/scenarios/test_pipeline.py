"""The pipeline scenario on small settings: its claims hold in its own numbers."""

import numpy as np
import pytest

from asyncsim import theory
from tests.scenarios.run import load, run

pytestmark = pytest.mark.networks


def test_pipeline():
    numbers = run("pipeline", stages=(1, 2), layers=2, commits=60, seeds=1, batch_size=4)
    for column, stages in zip(numbers["staleness"][1:], (1, 2), strict=True):
        assert (column == np.repeat(theory.pipeline_staleness(stages, "concurrent"), 2 // stages)).all()
    assert (numbers["staleness"][0] == 0).all()
    np.testing.assert_allclose(numbers["throughput"], numbers["predicted_throughput"], rtol=1e-12)
    ends = dict(zip(numbers["rule"], numbers["last_loss"][..., 0], strict=True))  # no pipeline, 1 stage, 2 stages
    # Without staleness nothing is predicted, compensated or slowed down.
    assert ends["asynchronous SGD"][0] == pytest.approx(ends["DC-ASGD"][0], rel=1e-4)
    assert ends["asynchronous SGD"][0] == pytest.approx(ends["PipeMare's step sizes"][0], rel=1e-4)
    assert ends["momentum"][0] == pytest.approx(ends["SpecTrain, each stage its own"][0], rel=1e-4)


def test_more_stages_than_layers_are_refused():
    with pytest.raises(ValueError, match="`stages` must be at most the 8 layers of the model; got 9"):
        load("pipeline")["schedule"](9, 8, 10, 9)
