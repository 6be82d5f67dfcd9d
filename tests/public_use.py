"""The public names as a user's typed program has them: pyright reads this file, and `test_public_names.py` runs it."""

import tempfile

import jax
import jax.numpy as jnp
import numpy as np

import asyncsim as asim
from asyncsim import delays, faults, protocols


def clusters() -> list[asim.Cluster]:
    """Every kind of thing that a cluster takes."""
    measured = delays.Empirical([0.9, 1.0, 1.3])
    night = delays.Profile(times=(0.0, 16.0), speeds=(1.0, 0.25), period=24.0)
    return [
        asim.Cluster(2, delays.Gamma(mean=1.0, cv=0.3)),
        asim.Cluster(2, measured),
        asim.Cluster(2, delays.Empirical(np.array([0.9, 1.0, 1.3]))),
        asim.Cluster(2, delays.VariableSpeed(measured, night)),
        asim.Cluster(2, [delays.Constant(1.0), delays.Straggler(delays.Exponential(1.0), probability=0.1, factor=4.0)]),
        asim.Cluster(
            workers=4,
            compute=delays.fleet.two_classes(delays.Exponential(1.0), workers=4, slow=1, factor=3.0),
            network=asim.Network(latency=delays.Exponential(0.01), bandwidth=1e6, message_bytes=1e3),
            server=asim.Server(slots=2, service=delays.Constant(0.02)),
            protocol=protocols.KAsync(2),
            faults=[faults.Crash(worker=3, time=4.0, restart_after=3.0)],
        ),
    ]


def scenario() -> asim.Scenario:
    """A small study."""
    return asim.Scenario(
        cluster=asim.Cluster(workers=4, compute=delays.Gamma(mean=1.0, cv=0.3)),
        rule=asim.rules.GEM(learning_rate=0.05),
        workload=asim.workloads.Quadratic([1.0, 0.5]),
        commits_per_worker=5,
        record={"energy_central": 2, "pi_mean": None},
    )


def final_losses() -> dict[str, float]:
    """Rules on one schedule, by hand and as scenarios."""
    trace = asim.simulate(clusters()[0], commits=20, seed=0)
    recorded = asim.Trace.from_commits([0, 1, 1, 0], commit_time=[1.0, 1.5, 2.0, 2.5])
    workload = asim.workloads.Quadratic([1.0, 0.5], noise=0.1)
    losses = {}
    for rule in (
        asim.rules.Downpour(0.1),
        asim.rules.AGN(0.1, window=2),
        asim.rules.WorkerOptimiser(0.1, optimiser="sgd", window=(1, 2)),
        asim.rules.local(
            asim.rules.Downpour(1.0),
            window=asim.delays.fleet.windows_by_speed(asim.delays.fleet.linear(asim.delays.Constant(1.0), 2), 4),
            learning_rate=0.1,
        ),
    ):
        run = asim.replay(trace, rule, workload, seed=0, record=("energy_central",), progress=show)
        losses[rule.name] = float(run.final_loss())
    several = asim.replay(recorded, asim.rules.Downpour(np.array([0.1, 0.2])), workload, seed=range(2))
    losses["several"] = float(several.loss[:, -1].mean())
    result: asim.Result = asim.run(scenario().override(workers=2))
    losses["scenario"] = result.summary["final_loss"]
    logged = asim.Scenario(recorded, asim.rules.Downpour(0.1), workload, record=())
    losses["recorded"] = asim.run(logged).summary["final_loss"]
    with tempfile.TemporaryDirectory() as folder:
        asim.run(scenario(), folder, picture=False)
        found = asim.load(folder)
        tag: str = asim.tags.add(folder, "typed", move=True).name
        losses["loaded"] = found.summary["final_loss"]
        asim.tags.remove(tag)
    compared = asim.compare(asim.Comparison({"two": scenario(), "one": scenario().override(kappa=2.0)}))
    losses |= {name: one.summary["final_loss"] for name, one in compared.items()}
    curve = asim.loss_against_time(trace, asim.replay(trace, asim.rules.Downpour(0.1), workload), [0.0, 4.0, 8.0])
    record: dict[str, int | None] = {"central": 5}
    recording = asim.replay(trace, asim.rules.Downpour(0.1), workload, record=record)
    losses["distance"] = float(np.abs(asim.central_against_time(trace, recording, "central", [8.0])[1]).max())
    norms = asim.replay(
        trace, asim.rules.HeavyBall(0.1, momentum=[-0.2, 0.2]), workload, (0, 1), record={"norm": (norm, 2)}
    )
    movie: asim.Movie = asim.animate(trace, {"all": recording}, view="gravity", predicted=[0.5, 0.5], title="Typed")
    losses["moved"] = float(movie.at(8.0).version)
    losses["norm"] = float(norms.records["norm"].mean())
    return losses | {"late": float(curve[-1]), "staleness": float(trace.staleness.mean())}


def costs() -> dict[str, float]:
    """The cost of a run, alone and over its commits."""
    trace = asim.simulate(clusters()[0], commits=20, seed=0)
    power, price = asim.Power(busy=300, idle=60.0), asim.Price(per_hour=2, billing_seconds=60.0, spot=True)
    spent = asim.cost(trace, message_bytes=8, parameter_bytes=8, power=power, price=price)
    assert spent.money is not None
    curve = asim.costs.cost_over_time(trace, [1.0, 2.0], message_bytes=8, parameter_bytes=8, power=power)
    known = asim.costs.sizes(scenario())
    found = asim.cost(trace, **known)
    spot = asim.theory.preemption(compute=delays.Gamma(mean=1.0, cv=0.3), preemption_rate=0.1, down=2.0)
    up = spent.seconds["compute"].sum() / spent.duration
    return {"money": spent.money, "joules": float(curve["joules"][-1]), "up": float(up), "spot": spot.useful} | {
        "bytes": found.bytes_up + found.bytes_down
    }


def norm(commit: asim.CommitView) -> jax.Array:
    """A recorded quantity of one's own."""
    return jnp.linalg.norm(commit.gradient["x"])


def show(progress: asim.Progress) -> None:
    """What a progress callback receives."""
    assert progress.done <= progress.total
    assert progress.loss is None or progress.loss >= 0
