"""The DANA scenario on small settings: what it claims holds in its own numbers."""

import runpy
from pathlib import Path

import numpy as np

SCRIPT = Path(__file__).parents[2] / "scenarios" / "dana_protocol.py"


def test_dana_protocol(tmp_path):
    experiment = runpy.run_path(str(SCRIPT))["experiment"]
    numbers = experiment.override(workers=(1, 16), commits=800, seeds=1).run(tmp_path).numbers
    assert (tmp_path / "report.png").stat().st_size > 10_000
    rules = list(numbers["rule"])
    # n - 1, less what the last commits have in flight: n(n - 1)/2 in 800.
    np.testing.assert_allclose(numbers["staleness"], [[0, 15]] * 3, atol=16 * 15 / 800)
    ends = dict(zip(rules, numbers["last_loss"][..., 0].transpose(1, 0, 2), strict=True))  # (clusters, workers) each
    assert (ends["DANA-Zero"][:, 1] < ends["NAG-ASGD"][:, 1]).all()
    assert (ends["DANA-Zero"][:2, 1] < ends["Multi-ASGD"][:2, 1]).all()
    # Alone, NAG-ASGD and DANA take their gradients at the same points; large steps only amplify the rounding.
    zero, shared = (numbers["losses"][:, rules.index(name), 0, :5] for name in ("DANA-Zero", "NAG-ASGD"))
    np.testing.assert_allclose(zero, shared, rtol=0.02)
    np.testing.assert_array_equal(numbers["last_loss"], numbers["losses"].min(axis=3))  # of one seed
