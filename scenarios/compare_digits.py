"""Which rule survives many workers: the paper's figure 1d in small, on scikit-learn's digits.

GEM, DOWNPOUR and adaptive staleness with 5, 10, 20 and 30 workers, each of which contributes the same number
of gradients. GEM's training loss falls with the number of workers; its test accuracy does not rise (98.3,
97.5, 97.2 and 97.8 % at seed 0). DOWNPOUR's loss is lower with 10 workers than with 5 (0.023 against 0.046 at
seed 0), fails for most seeds with 20, and with 30 hardly leaves log 10 = 2.303: seeds 0 to 4 end at 2.304,
2.304, 2.303, 1.998 and 2.278. Adaptive staleness is safe and slow, and gains nothing from more workers.

The step size 0.1 was chosen to show all this, from 0.05, 0.1 and 0.2 with seeds 0 to 4: with 0.05, DOWNPOUR
still learns with 30 workers for four of five seeds; with 0.2, it already fails with 10. GEM and adaptive
staleness behave the same with all three.

    asyncsim run scenarios/compare_digits.py
    asyncsim run scenarios/compare_digits.py --learning-rate 0.05 --seed 1 --out runs/smaller_steps
"""

import asyncsim as asim

base = asim.Scenario(
    cluster=asim.Cluster(workers=5, compute=asim.delays.Gamma(mean=1.0, cv=0.3)),
    rule=asim.rules.GEM(learning_rate=0.1),
    workload=asim.workloads.MLP(asim.datasets.Digits(), hidden=(32,), batch_size=32),
    commits_per_worker=200,
)
comparison = asim.Comparison(
    asim.grid(base, rule=["gem", "downpour", "adaptive_staleness"], workers=[5, 10, 20, 30]),
    title="Final loss against the number of workers, on digits",
)

if __name__ == "__main__":
    asim.main(comparison)
