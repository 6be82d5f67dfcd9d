"""A typed program that uses the public names runs as it stands. (pyright checks its types.)"""

import numpy as np
import pytest

import asyncsim as asim
from tests import public_use


@pytest.mark.parametrize("cluster", public_use.clusters(), ids=repr)
def test_clusters_are_simulated(cluster):
    assert len(asim.simulate(cluster, commits=8)) == 8


def test_losses_are_finite():
    assert np.isfinite(list(public_use.final_losses().values())).all()


def test_costs_are_finite():
    assert np.isfinite(list(public_use.costs().values())).all()
