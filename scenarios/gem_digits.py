"""Gradient Energy Matching on scikit-learn's digits.

Twenty simulated workers, whose gradients are nineteen versions old on average, train a small network. The
picture shows that the training loss falls nevertheless. The energy of the central variable stays proportional
to its proxy's, but is about 2.6 times as large: summed over the parameters, the stability condition of
equation (12), a ratio of at most 1, is violated throughout.

    asyncsim run scenarios/gem_digits.py
    asyncsim run scenarios/gem_digits.py --workers 30 --kappa 2 --out runs/thirty
    python scenarios/gem_digits.py --help
"""

import asyncsim as asim

scenario = asim.Scenario(
    cluster=asim.Cluster(workers=20, compute=asim.delays.Gamma(mean=1.0, cv=0.3)),
    rule=asim.rules.GEM(learning_rate=0.2),
    workload=asim.workloads.MLP(asim.datasets.Digits(), hidden=(32,), batch_size=32),
    commits_per_worker=400,
)

if __name__ == "__main__":
    asim.main(scenario)
