"""Which rule survives many workers: the paper's figure 1d in small, on scikit-learn's digits.

GEM, DOWNPOUR and adaptive staleness at 5, 10, 20 and 30 workers, the same number of gradients from each
worker. GEM's training loss gets better with every worker; its test accuracy does not (98.3, 97.5, 97.2 and
97.8 % at seed 0). DOWNPOUR's is better with 10 workers than with 5 (0.023 against 0.046 at seed 0), fails for
most seeds with 20, and with 30 hardly leaves log 10 = 2.303: seeds 0 to 4 end at 2.304, 2.304, 2.303, 1.998
and 2.278. Adaptive staleness is safe and slow, and gains nothing from more workers.

The step size 0.1 was chosen so that all this can be seen, among 0.05, 0.1 and 0.2 and with seeds 0 to 4:
with 0.05 DOWNPOUR still learns with 30 workers from four seeds of five, with 0.2 it is lost with 10
already. GEM and adaptive staleness behave the same at all three.

    asyncsim run scenarios/compare_digits.py
    asyncsim run scenarios/compare_digits.py --learning-rate 0.05 --seed 1 --out runs/smaller_steps
"""

import asyncsim as asim

WORKERS = (5, 10, 20, 30)
RULES = {
    "gem": asim.rules.gem(learning_rate=0.1),
    "downpour": asim.rules.downpour(learning_rate=0.1),
    "adaptive_staleness": asim.rules.adaptive_staleness(learning_rate=0.1),
}
workload = asim.workloads.mlp(asim.datasets.digits(), hidden=(32,), batch_size=32)
comparison = asim.Comparison(
    {
        f"{name}_{n}": asim.Scenario(
            asim.Cluster(n, asim.delays.Gamma(mean=1.0, cv=0.3)), rule, workload, commits_per_worker=200
        )
        for name, rule in RULES.items()
        for n in WORKERS
    },
    title="Final loss against the number of workers, on digits",
)

if __name__ == "__main__":
    asim.main(comparison)
