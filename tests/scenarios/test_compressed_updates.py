"""Compressed updates, on small settings: smaller messages make more commits of the same time."""

import numpy as np

from tests.scenarios.run import load, run_loaded


def test_compressed_updates():
    small = {"workers": 4, "seconds": 30.0, "step_sizes": (0.1, 0.4), "hidden": (8,), "seeds": 1, "target": 2.0}
    script = load("compressed_updates")
    for name in ("natural", "QSGD, 7 levels", "random 10 %", "rank 2", "top 1 %"):  # some parts, and signs, are left
        del script["COMPRESSORS"][name]
    numbers = run_loaded(script, **small)
    size, commits = numbers["bytes"][:, 0], numbers["commits"][:, 0, -1]
    assert size.max() == size[0] == 4 * (64 * 8 + 8 + 8 * 10 + 10)  # the identity
    order = np.argsort(size)
    assert (np.diff(commits[order]) <= 0).all()
    assert commits[order[0]] > 2 * commits[0]
    # With no way for bytes to matter: a message in full takes 4 s, the way down 0.4 s, a job 1 s.
    np.testing.assert_allclose(commits[0], 4 * 30 / 5.4, rtol=0.15)
    np.testing.assert_array_equal(numbers["test_loss"][0, 0], numbers["test_loss"][0, 1])
    assert np.isfinite(numbers["test_loss"][:, 0, :, -1]).all()
