"""The quantities that a replay can record: each a function of one commit, with the default interval between records."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from asyncsim import _checks as checks
from asyncsim import energy
from asyncsim._metrics import metric
from asyncsim._trees import median
from asyncsim.engine._layout import Packing
from asyncsim.rules import Info, View

Params = Any


class CommitView(NamedTuple):
    """One commit as a recorded quantity sees it. Parameters are pytrees like those of the workload.

    Attributes:
        central: θ_{t+1}, the central variable just after the commit.
        view: The rule's view: `read`, s, where the gradient was taken (or, for a workload with `behaviour`, the values
            that drew its data, while the gradient is taken at `pulled`), `pulled`, `staleness`, τ, and `server`, the
            server's state before the commit, as the rule's functions receive it. An elementwise rule keeps all
            parameters in one vector there.
        info: The rule's report: `update`, `proxy` and `pi`, each None where the rule does not have it.
        loss: Mini-batch loss where the gradient was taken.
        gradient: The worker's result, which the rule's `send` received: the mini-batch gradient there, or, if the rule
            has local steps, their displacement from there.

    Example:
        The norm of every gradient, recorded under a name of your own:

        >>> import asyncsim as asim, jax.numpy as jnp
        >>> def gradient_norm(commit: asim.CommitView):
        ...     return jnp.linalg.norm(commit.gradient["x"])
        >>> trace, workload = asim.Trace.from_commits([0, 1, 0]), asim.workloads.Quadratic([1.0])
        >>> run = asim.replay(trace, asim.rules.Downpour(0.5), workload, record={"gradient_norm": gradient_norm})
        >>> run.records["gradient_norm"].tolist()
        [1.0, 1.0, 0.5]
    """

    central: Params
    view: View
    info: Info
    loss: jax.Array
    gradient: Params


Measure = Callable[[CommitView], Any]  # a function of a commit that returns an array
# Records: names, or name -> every how many commits, or a function of your own, or both.
Record = str | Iterable[str] | Mapping[str, int | Measure | tuple[Measure, int | None] | None]


class Quantity(NamedTuple):
    measure: Callable[[CommitView], jax.Array]  # `CommitView -> array`
    needs: str | None = None  # the field of `Info` that the rule must report for it, or None
    expensive: bool = False
    by_tensor: bool = False  # whether it needs to know which parameters form a tensor


def all_values(tree: Params) -> jax.Array:
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def energy_central(commit: CommitView) -> jax.Array:
    """Compute Σ ½(θ_{t+1} - s)², equations (11) and (16): displacement since the gradient's point s was read."""
    return energy.total(energy.central(commit.central, commit.view.read))


def energy_proxy(commit: CommitView) -> jax.Array:
    """Compute Σ ½(κm)², equations (15), (23) and (27), of the moment m after this gradient."""
    return energy.total(energy.proxy(commit.info.proxy))


QUANTITIES: dict[str, Quantity] = {
    "energy_central": Quantity(energy_central),
    "energy_proxy": Quantity(energy_proxy, needs="proxy"),
    # Above 1 where the sums violate the stability condition (12).
    "compliance": Quantity(lambda commit: energy_central(commit) / energy_proxy(commit), needs="proxy"),
    "pi_mean": Quantity(lambda commit: jnp.mean(all_values(commit.info.pi)), needs="pi"),
    # As in the paper's figure 3.
    "pi_median": Quantity(lambda commit: median(all_values(commit.info.pi)), needs="pi", expensive=True),
    # In the order of the pytree's leaves, as in figures 9 and 10.
    "pi_median_by_tensor": Quantity(
        lambda commit: jnp.stack([median(leaf) for leaf in jax.tree.leaves(commit.info.pi)]),
        needs="pi",
        expensive=True,
        by_tensor=True,
    ),
    "central": Quantity(lambda commit: all_values(commit.central)),
    "read": Quantity(lambda commit: all_values(commit.view.read)),
}
FINITE = "finite"  # recorded by the engine itself, to find the commit at which a replay diverged
POINTS = ("central", "read")  # quantities that are points of the parameters' space
EVALUATIONS = ("test_loss", "test_accuracy")  # of the library's own workloads, others may measure more
CONSENSUS, OUTPUTS = "consensus_distance", "output_distance"  # of several variables, evaluated on the host
WORST = "worst_"  # before the name of a measure of several variables: that of the worst one
EVALUATE_EVERY = 50  # commits of each worker: one evaluation costs as much as hundreds of gradients


def strides(record: Record, workers: int, metrics: Iterable[str] = EVALUATIONS) -> dict[str, int]:
    """Return the quantities to record, and the commits from one record of each to the next."""
    intervals = {}
    for name, (measure, every) in _entries(record).items():
        names = dict.fromkeys((*QUANTITIES, *EVALUATIONS, *metrics))
        if measure is None:
            checks.require_one_of("record", name, choices=names)
        elif name in names:
            raise ValueError(f"`record` must not give a function the name {name!r}, which is taken. Give it another.")
        if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
            raise ValueError(
                f"`record[{name!r}]` must be a whole number of commits, at least 1; got {checks.brief(every)}."
            )
        # A quantity that is expensive or evaluates the test data is recorded less often by default.
        usual = EVALUATE_EVERY * workers if name not in QUANTITIES else workers if QUANTITIES[name].expensive else 1
        intervals[name] = every or (usual if measure is None else 1)
    return intervals


def of_variables(metrics: Iterable[str], has_outputs: bool) -> tuple[str, ...]:
    """Return the names of what is measured of several variables, for these measures of one.

    Of measures whose better direction their name does not say, such as a number of symbols, none is the worst.
    """
    ordered = [name for name in metrics if metric(name).larger_is_better is not None]
    return (CONSENSUS, *([OUTPUTS] if has_outputs else []), *(WORST + name for name in ordered))


def own_measures(record: Record) -> dict[str, Measure]:
    """Return name -> function, of the user's functions that are to be recorded."""
    return {name: measure for name, (measure, _) in _entries(record).items() if measure is not None}


def as_mapping(record: Record) -> Mapping[str, Any]:
    """Return the argument `record` as a mapping from names, where None stands for the default."""
    if isinstance(record, str):
        record = (record,)
    names = list(record) if isinstance(record, Iterable) else [None]
    if not all(isinstance(name, str) for name in names):
        raise ValueError(
            "`record` must be names, or a mapping from names to numbers of commits or functions; got "
            f"{checks.brief(record)}. Give ('energy_central',), say, or leave it out."
        )
    return record if isinstance(record, Mapping) else dict.fromkeys(map(str, names))


def with_functions(record: Mapping[str, Any], functions: Mapping[str, Measure]) -> dict[str, Any]:
    """Return the argument `record`, where the names of a workload's own quantities have their functions."""
    named = {name for name, value in record.items() if name in functions and _entry(value)[0] is None}
    return {name: (functions[name], value) if name in named else value for name, value in record.items()}


def _entries(record: Record) -> dict[str, tuple[Measure | None, Any]]:
    """Return name -> the user's function or None, and the commits from one record to the next or None."""
    return {name: _entry(value) for name, value in as_mapping(record).items()}


def _entry(value: Any) -> tuple[Measure | None, Any]:
    if callable(value):
        return value, None
    if isinstance(value, tuple) and len(value) > 1 and callable(value[0]):
        return value[0], value[1] if len(value) == 2 else value[1:]
    return None, value


def by_stride(strides: Mapping[str, int]) -> dict[int, tuple[str, ...]]:
    """Return stride -> names of the quantities that are recorded with it, the most frequent first."""
    groups: dict[int, tuple[str, ...]] = {}
    for name, every in sorted(strides.items(), key=lambda item: item[1]):
        groups[every] = (*groups.get(every, ()), name)
    return groups


def measure(params: Packing, name: str, commit: CommitView, functions: Mapping[str, Measure]) -> jax.Array:
    """Return the value of a recorded quantity of a commit as the rule sees it, also of the user's functions."""
    if name == FINITE:
        leaves = jax.tree.leaves((commit.central, commit.loss))
        return jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves]).all()
    if name in functions:
        return jnp.asarray(functions[name](as_trees(params, commit)))
    return QUANTITIES[name].measure(as_trees(params, commit) if QUANTITIES[name].by_tensor else commit)


def as_trees(params: Packing, commit: CommitView) -> CommitView:
    """Return the commit with the user's pytrees where the rule sees vectors."""
    if not params.whole:
        return commit
    central, read, pulled, info, gradient = jax.tree.map(
        params.unpack, (commit.central, commit.view.read, commit.view.pulled, commit.info, commit.gradient)
    )
    ages = commit.view.staleness_by_parameter
    if not isinstance(ages, tuple):  # The trace has parameter groups.
        ages = replace(params, dtypes=(jnp.int32,) * len(params.sizes)).unpack(ages)
    view = commit.view._replace(read=read, pulled=pulled, staleness_by_parameter=ages)
    return CommitView(central=central, view=view, info=info, loss=commit.loss, gradient=gradient)
