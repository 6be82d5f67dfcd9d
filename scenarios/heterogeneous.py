"""Fast and slow workers whose data differ: who is biased towards the data of the fast ones?

Twenty workers learn the digits. Each has as many images as any other, but of few digits (its mix of labels is drawn
from Dirichlet(0.1)), and the last ten take eight times as long for a gradient. The objective is the mean of the
workers' losses, every worker's images alike. All rules get the same simulated seconds, each its own best step size of
one grid, by that mean. `gap` is the loss on the slow workers' images minus that on the fast ones': the debt of a rule
to those who seldom commit. `without` is the loss of the same rule at its own best step size where every worker has all
images.

Medians of ten seeds after 200 s, about 200 gradients of a fast worker and 25 of a slow one; and the mean and the gap of
three seeds after 1500 s:

| rule | mean | fast | slow | gap | without | 1500 s: mean | gap |
|---|---|---|---|---|---|---|---|
| downpour | .073 | .030 | .114 | .082 | .041 | .0000003 | -.0000001 |
| delay_adaptive | .102 | .029 | .178 | .140 | .043 | .030 | .057 |
| fedbuff | .096 | .047 | .149 | .103 | .044 | .012 | .021 |
| gem | .092 | .024 | .159 | .135 | .035 | .0000002 | .0000003 |
| rennala | .161 | .059 | .258 | .198 | .078 | .132 | .183 |
| ringmaster | .140 | .054 | .224 | .169 | .046 | .130 | .190 |
| ca2fl | .074 | .087 | .065 | -.027 | .088 | .00007 | -.00009 |
| ia2sgd | .070 | .076 | .061 | -.016 | .104 | .0000001 | -.00000005 |
| ringleader | .188 | .232 | .132 | -.096 | .183 | .033 | -.019 |
| malenia | .153 | .188 | .119 | -.067 | .162 | .022 | -.016 |
| synchronous | .177 | .206 | .132 | -.072 | .201 | .037 | -.024 |

What to take from it: a rule that adds up commits as they come leaves the slow workers' images behind, at three to seven
times the loss of the fast ones'. With equal data it is the other way round, by .03 to .11, because in this draw the
slow workers have the easier digits. The rules that use fresh gradients and drop the rest (`rennala`, `ringmaster`) are
the worst: a slow worker's gradient hardly ever counts, and time does not heal it. One entry per worker takes the gap
away (`ca2fl`, `ia2sgd`, `ringleader`, `malenia`), as waiting does (`synchronous`). For `ca2fl` and `ia2sgd` it costs
nothing here: after 200 s their mean is that of asynchronous SGD. The other three have more than twice the loss, because
they make fewer or smaller steps. After 1500 s asynchronous SGD, `gem`, `ca2fl` and `ia2sgd` have fitted all images:
this model can fit all digits, so that the workers' minima nearly agree, and then a bias fades by itself. Where minima
differ it stays for good: `theory.weighted_minimum` says where. Look at the gap before you take a rule for data that
differ.

    asyncsim run scenarios/heterogeneous.py
    asyncsim run scenarios/heterogeneous.py --alpha 100 --out runs/nearly_alike
    asyncsim run scenarios/heterogeneous.py --factor 1 --out runs/equally_fast
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

import asyncsim as asim
from asyncsim import delays, protocols, rules
from asyncsim.engine import Replayer
from asyncsim.plots import draw_label_counts
from asyncsim.plots.style import BLUE, GREY, VERMILION
from asyncsim.reports.replicates import batched

ALL = "all"
STEP_SIZES = tuple(2.0**k for k in range(-8, 4))
# Row -> constructor, arguments, protocol. The last four and the synchronous rule count workers alike.
ROWS: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "downpour": (rules.Downpour, {}, protocols.Asynchronous()),
    "delay_adaptive": (rules.DelayAdaptive, {}, protocols.Asynchronous()),
    "fedbuff": (rules.FedBuff, {"buffer": 10}, protocols.Asynchronous()),
    "gem": (rules.GEM, {}, protocols.Asynchronous()),
    "rennala": (rules.Rennala, {"batch": 10}, protocols.Asynchronous()),
    "ringmaster": (rules.Ringmaster, {"limit": 20}, protocols.Asynchronous()),
    "ca2fl": (rules.CA2FL, {"buffer": 10}, protocols.Asynchronous()),
    "ia2sgd": (rules.IA2SGD, {}, protocols.Asynchronous()),
    "ringleader": (rules.Ringleader, {}, protocols.Asynchronous()),
    "malenia": (rules.Malenia, {"steps": "trace"}, protocols.Malenia()),
    "synchronous": (rules.Downpour, {}, protocols.Synchronous()),
}
ALIKE = ("ca2fl", "ia2sgd", "ringleader", "malenia", "synchronous")


def rows(only: str) -> dict[str, tuple[Any, dict[str, Any], Any]]:
    """The rows with these names."""
    names = list(ROWS) if only == ALL else [name.strip() for name in only.split(",")]
    for unknown in (name for name in names if name not in ROWS):
        raise ValueError(f"`only` must name rows, of {', '.join(ROWS)}; got {unknown!r}.")
    return {name: ROWS[name] for name in names}


class Scores(NamedTuple):
    """(seeds, step sizes) of a rule: mean loss of the slow workers' parts, of the fast ones', and of all."""

    slow: np.ndarray
    fast: np.ndarray
    mean: np.ndarray


def compute(
    workers=20,
    slow=10,
    factor=8.0,
    alpha=0.1,
    seconds=200.0,
    seeds=10,
    step_sizes=STEP_SIZES,
    batch_size=8,
    cv=0.3,
    only=ALL,
) -> dict[str, np.ndarray]:
    """Losses of fast and slow workers at every rule's best step size, with data that differ and with equal data.

    Args:
        workers: Number of workers.
        slow: How many of them are slow: the last ones.
        factor: How many times as long they take.
        alpha: Concentration of the labels: the smaller, the fewer labels a worker has.
        seconds: Simulated seconds; a fast worker makes about one commit in each.
        seeds: Seeds of the mini-batches, each with all step sizes.
        step_sizes: The grid.
        batch_size: Images in a mini-batch.
        cv: Coefficient of variation of the gamma compute times.
        only: Rules to compare, separated by commas, or "all".
    """
    shared = asim.datasets.partition(asim.datasets.Digits(), workers, by="mixture", alpha=alpha, least=batch_size)
    own, same = (asim.workloads.Softmax(data, batch_size) for data in (shared, shared.data))
    laws = delays.fleet.two_classes(delays.Gamma(mean=1.0, cv=cv), workers, slow, factor)
    grid, lanes = np.asarray(step_sizes, float), batched(step_sizes, seeds)
    assert own.evaluate_workers is not None
    judge = jax.jit(jax.vmap(own.evaluate_workers))  # compiled once for all rules
    traces: dict[Any, asim.Trace] = {}
    table: dict[str, list[Any]] = {}
    for name, (make, arguments, protocol) in rows(only).items():
        if protocol not in traces:
            traces[protocol] = asim.simulate(asim.Cluster(workers, laws, protocol=protocol), seconds=seconds)
        rule, trace = make(lanes.values, **arguments), traces[protocol]
        scores, equal = (final_scores(rule, trace, workload, judge, lanes.seeds, slow) for workload in (own, same))
        best, best_equal = (int(np.median(one.mean, axis=0).argmin()) for one in (scores, equal))
        row = {
            "rule": name,
            "mean": np.median(scores.mean[:, best]),
            "fast": np.median(scores.fast[:, best]),
            "slow": np.median(scores.slow[:, best]),
            "gap": np.median((scores.slow - scores.fast)[:, best]),
            "without": np.median(equal.mean[:, best_equal]),
            "without_gap": np.median((equal.slow - equal.fast)[:, best_equal]),
            "step_size": grid[best],
            "at_the_edge": best in (0, len(grid) - 1),
            "commits": len(trace),
            "slow_share": np.mean(trace.worker >= workers - slow),
            "seeds_slow": scores.slow[:, best],
            "seeds_fast": scores.fast[:, best],
        }
        for key, value in row.items():
            table.setdefault(key, []).append(value)
    return {**{key: np.array(values) for key, values in table.items()}, "label_counts": shared.label_counts}


def final_scores(
    rule: asim.Rule, trace: asim.Trace, workload: asim.Workload, judge: Callable[..., Any], seeds: list[int], slow: int
) -> Scores:
    """What a rule ends with, by the losses of the parts that `judge` gives; infinite where it is not finite."""
    replayer = Replayer(trace, rule, workload, seeds)
    while not replayer.finished():
        replayer.advance()
    found = judge(replayer.central())["worker_loss"]
    lanes = len(set(seeds))
    losses = np.asarray(found).reshape(lanes, -1, trace.workers)
    losses = np.where(np.isfinite(losses), losses, 1e30)  # worse than any, and a difference of two is a number
    edge = trace.workers - slow
    return Scores(losses[..., edge:].mean(axis=-1), losses[..., :edge].mean(axis=-1), losses.mean(axis=-1))


def draw(figure, numbers) -> None:
    """Losses of fast and of slow workers for every rule, all seeds; next to them, who has which labels."""
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    place = np.arange(len(numbers["rule"]))[::-1]
    for name, color, shift in (("fast", BLUE, 0.16), ("slow", VERMILION, -0.16)):
        seeds = numbers[f"seeds_{name}"]
        left.plot(seeds, np.repeat(place[:, None] + shift, seeds.shape[1], axis=1), "o", color=color, alpha=0.3, ms=3)
        left.plot(
            numbers[name], place + shift, "|", color=color, markersize=11, markeredgewidth=2, label=f"{name} workers"
        )
    left.plot(numbers["without"], place, "D", color=GREY, markersize=3.5, label="equal data, all workers")
    alike = np.isin(numbers["rule"], ALIKE).sum()
    left.axhline(alike - 0.5, color=GREY, linewidth=0.9, linestyle=(0, (4, 3)))
    left.set(xscale="log", xlabel="loss on the workers' own images after the same seconds")
    left.tick_params(axis="x", which="minor", labelbottom=False)  # whose labels would overlap
    left.set_yticks(place, numbers["rule"])
    left.legend(loc="upper right", fontsize=8)
    draw_label_counts(right, numbers["label_counts"])
    right.set_title("who has which digits")


experiment = asim.Experiment(compute, draw, title="Fast and slow workers whose data differ", size=(11.0, 5.2))

if __name__ == "__main__":
    asim.main(experiment)
