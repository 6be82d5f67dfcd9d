"""The list of figures: each is complete, and its runs can be counted without computing them."""

from pathlib import Path

import pytest

import figures
from figures.catalogue import FIGURES, figure_set


def test_every_module_is_listed():
    modules = {path.stem for path in Path(figures.__file__).parent.glob("*.py")}
    assert modules - {"__init__", "catalogue"} == set(FIGURES)


def test_a_run_that_two_figures_share_is_counted_once(tmp_path, tiny):
    ahead = figure_set(tmp_path, seeds=1).estimate(["figure1", "figure3", "figure8"])
    assert (ahead.runs, ahead.commits) == (3 * 4 + 4, 20 * (3 * (5 + 10 + 20 + 30) + 4 * 5))


def test_a_scale_must_exist(tmp_path):
    with pytest.raises(ValueError, match="`scale` must be"):
        figure_set(tmp_path, "large")
