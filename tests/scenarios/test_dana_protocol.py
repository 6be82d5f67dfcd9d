"""The DANA scenario on small settings: its claims hold in its own numbers."""

import numpy as np

from tests.scenarios.run import load, run_loaded


def test_dana_protocol():
    script = load("dana_protocol")
    del script["CLUSTERS"]["equal machines, V = 0.6"]  # the same code as the others
    numbers = run_loaded(script, workers=(1, 16), commits=200, seeds=1, batch_size=4)
    rules = list(numbers["rule"])
    # n - 1, minus what the last commits have in flight: n(n - 1)/2 in 200.
    np.testing.assert_allclose(numbers["staleness"], [[0, 15]] * 2, atol=16 * 15 / 200)
    ends = dict(zip(rules, numbers["last_loss"][..., 0].transpose(1, 0, 2), strict=True))  # (clusters, workers) each
    assert (ends["DANA-Zero"][:, 1] < ends["NAG-ASGD"][:, 1]).all()
    assert ends["DANA-Zero"][0, 1] < ends["Multi-ASGD"][0, 1]
    # With one worker, NAG-ASGD and DANA take their gradients at the same points; large steps only amplify rounding.
    zero, shared = (numbers["losses"][:, rules.index(name), 0, :5] for name in ("DANA-Zero", "NAG-ASGD"))
    np.testing.assert_allclose(zero, shared, rtol=0.02)
    np.testing.assert_array_equal(numbers["last_loss"], numbers["losses"].min(axis=3))  # of one seed
