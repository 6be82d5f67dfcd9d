"""The picture of a calibration by simulation."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

import asyncsim as asim
from asyncsim.plots._calibration import draw_fit


@pytest.mark.parametrize("identifiable", [True, False])
@pytest.mark.parametrize("prior", [None, (0.01, 100.0), (0.05, 1.5)])
def test_every_parameter_has_a_panel_with_its_draws_and_interval_whether_or_not_it_has_a_prior(prior, identifiable):
    draws = np.random.default_rng(0).uniform(0.5, 1.4, (200, 1))
    low, high = np.quantile(draws, [0.05, 0.95])
    fit = SimpleNamespace(
        model=SimpleNamespace(stages={}, priors={"compute.mean": prior}, size=lambda commits, workers: ""),
        parameters={"compute.mean": SimpleNamespace(low=low, high=high, identifiable=identifiable)},
        draws=draws,
        hidden=() if identifiable else ("compute.mean",),
        log=SimpleNamespace(commits=200),
        workers=2,
        cluster=asim.Cluster(2, asim.delays.Constant(1.0)),
    )
    figure = Figure()
    draw_fit(figure, fit, None, "log.csv")
    (ax,) = figure.axes
    left, right = ax.get_xlim()
    assert sum(bar.get_height() for bar in ax.patches) == len(draws)
    assert left <= draws.min()
    assert draws.max() <= right
    assert [line.get_xdata()[0] for line in ax.lines] == [low, high]
    assert ax.get_xlabel() == "compute.mean"
    assert ax.get_legend() is not None
