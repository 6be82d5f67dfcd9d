"""DOWNPOUR on scikit-learn's digits: `gem_digits.py` with another rule, and it fails.

With 20 workers, whose gradients are 19 versions old on average, the step size that suits GEM is too large for
plain asynchronous SGD: the loss stays at log 10 = 2.30, that of a network that has learned nothing. Fewer
workers or smaller steps help.

    asyncsim run scenarios/downpour_digits.py
    asyncsim run scenarios/downpour_digits.py --workers 3 --out runs/few
    asyncsim run scenarios/downpour_digits.py --learning-rate 0.02 --out runs/small
"""

import asyncsim as asim

scenario = asim.Scenario(
    cluster=asim.Cluster(workers=20, compute=asim.delays.Gamma(mean=1.0, cv=0.3)),
    rule=asim.rules.Downpour(learning_rate=0.2),
    workload=asim.workloads.MLP(asim.datasets.Digits(), hidden=(32,), batch_size=32),
    commits_per_worker=400,
)

if __name__ == "__main__":
    asim.main(scenario)
