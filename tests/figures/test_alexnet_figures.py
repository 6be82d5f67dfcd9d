"""Figures 7, 9 and 10: the network and data of each, the heat maps, and claims that can fail."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from figures import figure7, figure9, figure10
from figures.common.tables import pack, stack


@pytest.fixture(autouse=True)
def no_imagenet(monkeypatch):
    monkeypatch.delenv(figure7.VARIABLE, raising=False)


def test_the_task_depends_on_the_data_that_are_named(monkeypatch):
    assert figure7.training_of("quick") is figure7.QUICK
    assert figure7.training_of("paper") is figure7.SMALL
    assert all("not ImageNet" in module.task("paper") for module in (figure7, figure9, figure10))
    monkeypatch.setenv(figure7.VARIABLE, "somewhere")
    assert figure7.training_of("paper") is figure7.FULL
    assert figure7.training_of("quick") is figure7.QUICK


def test_all_three_share_their_runs():
    runs = figure7.scenarios("quick", 1)
    assert figure9.scenarios("quick", 1) == {8: runs[8]}
    assert figure10.scenarios("quick", 1) == {16: runs[16]}
    assert [runs[n].workload.batch_size * n for n in (8, 16)] == [128, 128]


def losses(eight, sixteen):
    n = np.array(figure7.WORKERS)
    curves = stack(
        {"workers": k, "worker_steps": [5, 10], "training_loss": [2.3, v]} for k, v in ((8, eight), (16, sixteen))
    )
    final = {"workers": n, "training_loss": [eight, sixteen], "test_accuracy": [0.5, 0.5]}
    return pack(curves=curves, final=final, odds={"loss": [np.log(10)]})


def test_figure_7_draws_and_judges_its_numbers():
    seeds = [losses(1.5, 1.2), losses(1.7, 1.4)]
    page = Figure()
    figure7.draw(page, seeds, "quick")
    assert [line.get_ydata().tolist() for line in page.axes[0].get_lines()] == [[2.3, 1.6], [2.3, pytest.approx(1.3)]]
    assert [claim.holds for claim in figure7.claims(seeds, "quick")] == [True, True]
    assert [claim.holds for claim in figure7.claims([*seeds, losses(1.0, 2.29)], "quick")] == [False, False]


def tensors(pi):
    """The numbers of a seed with these medians, (tensors, commits at which they were recorded)."""
    which, updates = np.meshgrid(np.arange(16), 8 * np.arange(1, pi.shape[1] + 1), indexing="ij")
    return pack(pi={"tensor": which.ravel(), "update": updates.ravel(), "median_pi": pi.ravel()})


@pytest.mark.parametrize("module", [figure9, figure10])
def test_the_map_is_drawn_unchanged_and_judged(module):
    pi = np.zeros((16, 20))
    pi[3, 5], pi[14, 10:] = 4.0, 3.0
    page = Figure()
    module.draw(page, [tensors(pi)], "quick")
    image = page.axes[0].get_images()[0]
    np.testing.assert_array_equal(image.get_array(), pi)
    assert image.get_extent() == [0, 160, 15.5, -0.5]  # tensor 0 at the top
    assert page.axes[1].get_lines()[0].get_xdata().tolist() == pi.mean(axis=1).tolist()
    claims = module.claims([tensors(pi)], "quick")
    assert [claim.holds for claim in claims] == [True, True]
    assert f"with {module.WORKERS} workers" in claims[0].says
    assert [claim.holds for claim in module.claims([tensors(pi), tensors(1.0 - pi)], "quick")] == [False, False]
