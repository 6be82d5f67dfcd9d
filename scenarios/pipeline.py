"""Pipelines: the costs of staleness, by the number of stages, and of the bubbles of a synchronous pipeline.

The model is a perceptron of eight layers on digits, cut into 1, 2, 4 or 8 stages that compute forward and backward
passes at the same time, PipeMare's schedule: stage s of S takes its gradients 2(S - 1 - s) + 1 updates too early, up to
15 with 8 stages. "no pipeline" is the same model without any staleness. Every rule is shown at its own best step size
of a grid, with all seeds; all of these are batched in one replay. The last panel shows the gain of an asynchronous
pipeline: the share of its throughput that a synchronous one (1F1B) reaches, measured on its timetable and
predicted.

Conclusions, as measured with 3 seeds (a factor of 1.3 between two curves means nothing: in single precision
rounding alone makes that much between rules that are equal without staleness). A delay of one update costs nothing.
From there each doubling of the stages about doubles the loss that plain asynchronous SGD reaches after 1000
micro-batches, from 0.06 to 0.29 with 8 stages; compensation (DC-ASGD, 0.25) and PipeMare's smaller first steps (0.32)
change little of that. Momentum loses most, from 0.05 to 0.57, with a best step size of a fifth. Looking ahead by one
horizon for all stages, their mean staleness, wins half of it back (0.31). SpecTrain's own horizon for each stage does
not improve on that here (0.50); its first stage looks 15 velocities ahead. Muon loses least by far (0.02, and 0.04 with
8 stages, at one step size for all), which is not for its steps of a fixed size alone: Adam loses as much as the others
(0.41; 0.33 at half the smallest step size of the grid). And a synchronous pipeline, which has no staleness at all,
keeps 82 % of the throughput with 32 micro-batches in a mini-batch.

    asyncsim run scenarios/pipeline.py
    asyncsim run scenarios/pipeline.py --commits 2000 --momentum 0.8 --out runs/pipeline_longer
"""

import numpy as np

import asyncsim as asim
from asyncsim import delays, rules, theory
from asyncsim.plots import draw_seeds
from asyncsim.reports.replicates import batched

WIDTH = 32
STEP_SIZES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
LAST = 0.1  # share of the commits over which the last loss is averaged
GAIN = 6**0.5  # turns PyTorch's uniform weights into He's, with which a signal passes many layers
BATCHES = (2, 4, 8, 16, 32)  # micro-batches in a mini-batch of the synchronous pipeline


def contestants(rate: np.ndarray, momentum: float, anneal: float, horizon: float) -> dict[str, asim.Rule]:
    """The rules by the names in the picture; step sizes mean the same with and without prediction."""
    return {
        "asynchronous SGD": rules.Downpour(rate),
        "DC-ASGD": rules.DCASGD(rate),
        "PipeMare's step sizes": rules.PipeMare(rate, anneal=anneal),
        "momentum": rules.WeightPrediction(rate, momentum=momentum, horizon=0.0),
        "weight prediction, one horizon": rules.WeightPrediction(rate, momentum=momentum, horizon=horizon),
        "SpecTrain, each stage its own": rules.SpecTrain(rate / (1 - momentum), momentum=momentum),
        "Adam": rules.ServerOptimiser(rate, optimiser="adam", elementwise=True),
        "Muon": rules.Muon(rate, momentum=momentum),
    }


def compute(
    stages=(1, 2, 4, 8), layers=8, commits=1000, momentum=0.9, anneal=0.25, seeds=3, batch_size=16
) -> dict[str, np.ndarray]:
    """Training loss at the end, by rule and number of stages, and the throughput of synchronous pipelines.

    Args:
        stages: Numbers of stages, each at most that of the layers.
        layers: Layers of the perceptron.
        commits: Micro-batches of a run, each one update of every stage.
        momentum: Of the rules that have it.
        anneal: Share of the commits after which PipeMare's steps are full.
        seeds: Seeds of initial parameters and mini-batches, each with all step sizes.
        batch_size: Examples in a micro-batch.
    """
    lanes = batched(STEP_SIZES, seeds)
    traces = [schedule(s, layers, commits, max(stages)) for s in (0, *stages)]
    workload = deep_perceptron(layers, batch_size)
    losses, competing = [], {}
    for trace in traces:
        horizon = float(trace.group_staleness[-1].mean())
        competing = contestants(lanes.values, momentum, anneal * commits, horizon)
        runs = [asim.replay(trace, rule, workload, seed=lanes.seeds) for rule in competing.values()]
        losses.append([last_loss(run, commits).reshape(seeds, -1) for run in runs])
    losses = np.swapaxes(losses, 0, 1)
    best = losses.mean(axis=2).argmin(axis=2)  # a step size at which a seed diverges is not the best
    chosen = np.take_along_axis(losses, best[..., None, None], axis=3)[..., 0]
    bubbles = [synchronous_share(max(stages), batches) for batches in BATCHES]
    return {
        "rule": np.array(list(competing)),
        **{f"loss, {name}": np.median(chosen[:, k], axis=1) for k, name in enumerate(names(stages))},
        "stages": np.array([0, *stages]),
        "staleness": np.array([trace.group_staleness[-1] for trace in traces]),
        "step_size": np.array(STEP_SIZES)[best],
        "last_loss": chosen,
        "micro_batches": np.array(BATCHES),
        "throughput": np.array(bubbles),
        "predicted_throughput": 1 - np.array([theory.pipeline_bubble(max(stages), batches) for batches in BATCHES]),
    }


def names(stages) -> list[str]:
    """What the numbers of stages are called."""
    return ["no pipeline", *(f"{s} stage{'s' * (s > 1)}" for s in stages)]


def schedule(stages: int, layers: int, commits: int, most: int) -> asim.Trace:
    """The schedule of a pipeline, or for 0 stages one without any staleness, with a group for every layer.

    Layers of one stage are read at one version. All schedules have the same groups and the same number of workers, of
    whom some never commit, so that one compiled program replays them all.
    """
    workers = 2 * most
    if stages == 0:
        reads = np.tile(np.arange(commits), (layers, 1))
        return asim.Trace.from_commits(
            np.zeros(commits, int), groups=dict(zip(layer_names(layers), reads, strict=True)), workers=workers
        )
    if stages > layers:
        raise ValueError(f"`stages` must be at most the {layers} layers of the model; got {stages}. Use fewer.")
    law = delays.Constant(1.0)
    pipeline = asim.Pipeline(stages=stages, forward=law, backward=law, schedule="concurrent")
    trace = asim.simulate(pipeline, commits=commits)
    stage_of_layer = np.repeat(np.arange(stages), [len(part) for part in np.array_split(np.arange(layers), stages)])
    reads = trace.group_read_version.T[stage_of_layer]
    return asim.Trace.from_commits(
        trace.worker, trace.commit_time, groups=dict(zip(layer_names(layers), reads, strict=True)), workers=workers
    )


def layer_names(layers: int) -> list[str]:
    """Names of the groups, one for each layer."""
    return [f"layer{layer}" for layer in range(layers)]


def deep_perceptron(layers: int, batch_size: int) -> asim.Workload:
    """Layers of equal width on digits, with He's first weights and biases of 0."""
    return DeepPerceptron(asim.datasets.Digits(), hidden=(WIDTH,) * (layers - 1), batch_size=batch_size)


class DeepPerceptron(asim.workloads.MLP):
    """A multilayer perceptron whose first parameters are He's."""

    def init(self, key):
        """First parameters from those of PyTorch."""
        return [{"bias": 0.0 * layer["bias"], "weight": GAIN * layer["weight"]} for layer in super().init(key)]


def last_loss(run: asim.Run, commits: int) -> np.ndarray:
    """(lanes,) mean training loss over the last commits; infinite for lanes that diverged."""
    lost = np.array([commit is not None for commit in run.divergences])
    losses = np.where(lost[:, None], np.inf, run.loss)
    return losses[:, -int(LAST * commits) :].mean(axis=1)


def synchronous_share(stages: int, micro_batches: int) -> float:
    """Throughput of a synchronous pipeline over that of a full one: the share of the time in which stages compute."""
    law = delays.Constant(1.0)
    pipeline = asim.Pipeline(stages=stages, forward=law, schedule="1f1b", micro_batches=micro_batches)
    return 1 - pipeline.timetable(4 * micro_batches).idle


def draw(figure, numbers) -> None:
    """Median and range over the seeds: loss by stages, without and with momentum; throughput of the synchronous one."""
    left, middle, right = figure.subplots(1, 3)
    place = np.arange(len(numbers["stages"]))
    labels = ["none", *map(str, numbers["stages"][1:])]
    for ax, chosen, title in ((left, slice(0, 3), "without momentum"), (middle, slice(3, None), "with momentum")):
        for rule, losses in zip(numbers["rule"][chosen], numbers["last_loss"][chosen], strict=True):
            draw_seeds(ax, place, losses.T, marker="o", markersize=3, label=rule)
        ax.set(yscale="log", xlabel="stages", ylabel="training loss at the end", title=title)
        ax.set_xticks(place, labels)
        ax.legend()
    both = [axis.get_ylim() for axis in (left, middle)]
    for ax in (left, middle):
        ax.set_ylim(min(low for low, _ in both), max(high for _, high in both))
    batches = np.arange(len(numbers["micro_batches"]))
    right.plot(batches, numbers["predicted_throughput"], label="M/(M + S - 1)")
    right.plot(batches, numbers["throughput"], "o", markersize=4, label="timetable")
    right.axhline(1.0, linestyle=":", color="0.5", label="asynchronous")
    right.set_xticks(batches, [str(m) for m in numbers["micro_batches"]])
    right.set(
        xlabel="micro-batches in a mini-batch M",
        ylabel="throughput, share of a full pipeline",
        title=f"synchronous, {numbers['stages'].max()} stages",
        ylim=(0, 1.05),
    )
    right.legend()


experiment = asim.Experiment(compute, draw, title="Staleness by stage", size=(12.0, 4.2))

if __name__ == "__main__":
    asim.main(experiment)
