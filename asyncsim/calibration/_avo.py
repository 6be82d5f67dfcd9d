"""Adversarial Variational Optimization: fit a simulator that has no gradient to observed data."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike, NDArray

from asyncsim._checks import require_count, require_integer, require_not_negative, require_one_of, require_positive
from asyncsim.calibration import _critic as critics
from asyncsim.calibration._critic import Layers, Proposal
from asyncsim.components._checked import checked
from asyncsim.delays import FloatArray

Simulator = Callable[[Any, Any], Any]
BACKENDS = ("jax", "numpy")
BASELINES = ("none", "mean", "optimal")
NUMBERS_AHEAD = 1_000_000  # numbers of observed data that are drawn ahead
MOST_AT_A_TIME = 1000  # steps between two reports of progress


VERSION_ARGUMENTS = ("steps", "batch", "penalty", "critic_rate", "proposal_rate", "baseline")  # on the version
VERSION_DEFAULTS = {1: (300, 64, 0.025, 0.01, 0.01, "none"), 2: (20_000, 32, 10.0, 1e-4, 1e-3, "optimal")}


class History(NamedTuple):
    """The proposal and the critic's values at every step."""

    mean: FloatArray  # (steps + 1, p) of the proposal, from the first to the last
    sd: FloatArray  # (steps + 1, p)
    critic: FloatArray  # (steps,)


@dataclass(frozen=True, eq=False, repr=False)
class Avo:
    """The result of `avo`. The proposal is no posterior, because its width depends on the number of steps.

    Attributes:
        mean, sd: (p,) mean and standard deviation of the proposal.
        history: The proposal and the critic's values at every step.
        version: Version of the algorithm, 1 or 2.
        entropy: γ, weight of the proposal's entropy.
    """

    mean: FloatArray
    sd: FloatArray
    history: History
    version: int
    entropy: float

    def __repr__(self) -> str:
        proposal = ", ".join(f"{mean:.4g} ± {sd:.2g}" for mean, sd in zip(self.mean, self.sd, strict=True))
        return f"Avo(version {self.version}, {len(self.history.critic):,} steps: {proposal}; a proposal, no posterior)"

    def average(self, share: float = 0.25) -> FloatArray:
        """Average the proposal's mean over the last steps, the estimate of a run that has settled.

        The critic and the draws keep moving the mean. For example, in the paper's Poisson example of version 2 its sd
        over 20 seeds is 0.016 after 20 000 steps, and that of the average over the last quarter is 0.003. Where the
        mean still drifts, as after 300 epochs of version 1, the last mean is closer, so look at `history.mean`.

        Args:
            share: Share of all steps that is averaged, the last ones, above 0 and at most 1.

        Returns:
            (p,) the average.

        Raises:
            ValueError: If `share` is not above 0 and at most 1.

        Example:
            >>> history = History(np.array([[0.0], [4.0], [2.0], [6.0], [4.0]]), np.ones((5, 1)), np.ones(4))
            >>> Avo(history.mean[-1], history.sd[-1], history, version=2, entropy=0.0).average(0.5)
            array([5.])

        References:
            Polyak and Juditsky 1992, "Acceleration of stochastic approximation by averaging".
        """
        if not 0 < share <= 1:
            raise ValueError(f"`share` must be above 0 and at most 1; got {share}. A quarter, 0.25, is usual.")
        return self.history.mean[-math.ceil(share * len(self.history.critic)) :].mean(axis=0)


class Settings(NamedTuple):
    """The numbers of one version (see `avo`)."""

    version: int
    batch: int
    penalty: float
    critic_steps: int
    baseline: str
    entropy: float
    betas: tuple[float, float]
    critic_rate: float
    proposal_rate: float


class State(NamedTuple):
    """State between two steps."""

    proposal: Proposal
    proposal_memory: Any
    critic: Layers
    critic_memory: Any


@checked
def avo(
    simulate: Simulator,
    data: ArrayLike,
    mean: ArrayLike,
    sd: ArrayLike,
    *,
    version: int = 2,
    steps: Annotated[int, require_count, "Try 300."] | None = None,
    entropy: float = 0.0,
    seed: Annotated[int, require_integer, "Give another one."] = 0,
    batch: Annotated[int, partial(require_integer, least=2), "Try 64."] | None = None,
    penalty: Annotated[float, require_not_negative, "0 is no penalty."] | None = None,
    critic_steps: Annotated[int, require_count, "100 is usual."] = 100,
    pretraining: Annotated[int, require_integer, "100 is usual."] = 100,
    critic_rate: Annotated[float, require_positive, "0.01 is usual in version 1, 1e-4 in version 2."] | None = None,
    proposal_rate: Annotated[float, require_positive, "0.01 is usual in version 1, 1e-3 in version 2."] | None = None,
    betas: tuple[float, float] = (0.5, 0.5),
    baseline: Annotated[str, partial(require_one_of, choices=BASELINES)] | None = None,
    backend: Annotated[str, partial(require_one_of, choices=BACKENDS)] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Avo:
    """Find the parameters with which a simulator makes data that a critic cannot distinguish from the observed ones.

    The simulator need not be differentiable. A critic is trained to distinguish simulated from observed data, and a
    Gaussian proposal q(θ|ψ), ψ = (μ, log σ), is moved to where the critic fails, by ∇_ψ E f = E f ∇_ψ log q.

    *Version 1* (the first preprint): a Wasserstein critic with gradient penalty, Adam. `steps` are epochs of one step
    of the proposal and `critic_steps` of the critic, before which the critic's moments are reset. Half of each batch of
    64 is simulated.
    *Version 2* (as published): a critic with Jensen and Shannon's loss, ½[BCE(D(x), 1) + BCE(D(x̃), 0)] +
    penalty·E‖∇D(x)‖² at the data, RMSprop, one step of each at a time from the same batch, and the baseline of least
    variance.

    **q is no posterior**, because it shrinks for as long as you run. Every seed ends differently, so run several. It
    also helps to set ``baseline="mean"`` in version 1, which halves the spread in the paper's second example, to take
    `Avo.average` where the mean has settled, and to take a smaller `proposal_rate` where entropy has made the proposal
    narrow. No setting identifies parameters that the data do not identify (see `scenarios/avo_weinberg.py`).
    Observations are taken as independent. A trace is one dependent sequence, so give statistics of long blocks of it,
    as `scenarios/avo_log.py` does.

    Args:
        simulate: `(rng, theta)` -> observations: (m, p) parameters to (m, d) or (m,) observations, one each,
            independent. With JAX `rng` is a key, and the whole loop is compiled. With NumPy it is a `Generator`, and
            the simulator is called back.
        data: (N, d) or (N,) observations.
        mean: (p,) or a scalar, where the proposal starts.
        sd: (p,) or a scalar, its standard deviation there.
        version: 1 or 2.
        steps: Steps of the proposal, by default 300 epochs of version 1 and 20 000 steps of version 2.
        entropy: γ, weight of the proposal's entropy in the objective. Above 0, it shrinks the proposal.
        seed: Seed of all random draws, at least 0.
        batch: Batch size, at least 2, by default 64 (version 1) or 32 (version 2).
        penalty: Weight of the penalty on the critic's gradient, by default 0.025 (version 1) or 10 (version 2).
        critic_steps: Steps of the critic for each step of the proposal, in version 1.
        pretraining: Steps of the critic before the first step of the proposal, in version 1.
        critic_rate: Step size of the critic, by default 0.01 (version 1) or 1e-4 (version 2).
        proposal_rate: Step size of the proposal, by default 0.01 (version 1) or 1e-3 (version 2).
        betas: Decay rates of Adam's two moments, in version 1.
        baseline: Subtracted from the costs: "none" (default of version 1), "mean" or "optimal" (of version 2).
        backend: "jax" or "numpy", by default JAX if it can trace the simulator.
        progress: Called with the steps done and all steps.

    Returns:
        An `Avo` with `.mean`, `.sd` and `.history`.

    Raises:
        ValueError: If an argument does not fit, the simulator returns another shape, or its result, or the
            proposal, is not finite.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> data = rng.normal(2.0, 1.0, 500)
        >>> result = avo(lambda rng, theta: rng.normal(theta, 1.0), data, mean=0.0, sd=1.0, version=1, steps=40)
        >>> result.history.mean.shape, bool(result.mean[0] > 0.1)
        ((41, 1), True)

    References:
        Louppe, Hermans and Cranmer 2019, "Adversarial variational optimization of non-differentiable simulators",
        AISTATS. Version 1 is that of arXiv 1707.07113v1.
    """
    if version not in VERSION_DEFAULTS:
        raise ValueError(f"`version` must be 1 or 2; got {version}. 2 is the one that was published.")
    numbers: dict[str, Any] = dict(zip(VERSION_ARGUMENTS, VERSION_DEFAULTS[version], strict=True))
    pairs = zip(VERSION_ARGUMENTS, (steps, batch, penalty, critic_rate, proposal_rate, baseline), strict=True)
    numbers |= {name: value for name, value in pairs if value is not None}
    count: int = numbers.pop("steps")
    decays = (float(betas[0]), float(betas[1]))
    settings = Settings(version=version, critic_steps=critic_steps, entropy=float(entropy), betas=decays, **numbers)
    observed = _parse_observations(data, settings.batch)
    start = _start(mean, sd)
    generator = np.random.default_rng(seed)
    simulator = _simulator(simulate, start, observed.shape[1], backend, generator)
    network = critics.new_critic(generator, observed.shape[1], version)
    proposal_rule, critic_rule = _rules(settings)
    state = State(start, proposal_rule.init(start), network, critic_rule.init(network))
    trail = [(np.asarray(start.mean), np.exp(np.asarray(start.log_sd)))]
    values: list[float] = []
    advance = _Advance(simulator, observed, settings, generator)
    if version == 1 and pretraining:
        state = advance.pretrain(state, pretraining)
    for done, means, log_sds, critic_values in advance.run(state, count):
        trail += zip(means, np.exp(log_sds), strict=True)
        values += critic_values.tolist()
        if not np.isfinite(means[-1]).all() or not np.isfinite(critic_values[-1]):
            remedy = "Standardise the data."
            raise ValueError(f"`simulate` led to a proposal that is not finite after {done} steps. {remedy}")
        if progress is not None:
            progress(done, count)
    means, sds = (np.array(column, np.float64) for column in zip(*trail, strict=True))
    trace = History(means, sds, np.array(values))
    return Avo(trace.mean[-1], trace.sd[-1], trace, version, float(entropy))


class _Simulator(NamedTuple):
    """`run(rng, theta)` -> (m, d) float32, compiled if `traced`."""

    run: Simulator
    traced: bool


class _Advance:
    """Takes steps: all within one program if the simulator is JAX, one program a step if it is not."""

    def __init__(
        self, simulator: _Simulator, data: NDArray[np.float32], settings: Settings, generator: np.random.Generator
    ) -> None:
        self.simulator = simulator
        self.observed = data
        self.data = jnp.asarray(data)
        self.settings = settings
        self.generator = generator
        self.key = jax.random.key(int(generator.integers(2**31)))
        first = settings.version == 1
        # In version 1 the critic takes steps of its own, each with new simulations for half of the batch.
        self.rows = (settings.critic_steps, settings.batch // 2) if first else (settings.batch,)
        self.thetas = settings.batch + (math.prod(self.rows) if first else 0)
        self.step = jax.jit(partial(_epoch if first else _step, settings))
        self.many = jax.jit(self._many)

    def pretrain(self, state: State, steps: int) -> State:
        """Train the critic alone."""
        half = self.settings.batch // 2
        theta = _thetas(self.generator, state.proposal, steps * half)
        fake = self._simulate(theta).reshape(steps, half, -1)
        real = self.data[_batches(self.generator, len(self.data), (steps, half))]
        mix = jnp.asarray(self.generator.random((steps, half, 1), np.float32))
        train = jax.jit(partial(_train, self.settings))
        critic, memory, _ = train(state.critic, state.critic_memory, real, fake, mix)
        return state._replace(critic=critic, critic_memory=memory)

    def run(self, state: State, steps: int) -> Iterator[tuple[int, Any, Any, Any]]:
        """Yield the number of steps done, with the proposals and the critic's values since the last report."""
        chunk = min(max(1, NUMBERS_AHEAD // math.prod(self.rows)), MOST_AT_A_TIME, steps)
        done = 0
        while done < steps:
            count = min(chunk, steps - done)
            rows = _batches(self.generator, len(self.data), (count, *self.rows))
            if self.simulator.traced:
                keys = jax.random.split(jax.random.fold_in(self.key, done), count)
                state, history = self.many(state, (keys, rows))
            else:
                steps_taken = []
                for row in rows:
                    theta = _thetas(self.generator, state.proposal, self.thetas)
                    mix = self.generator.random((*row.shape, 1), np.float32)
                    fake = self._simulate(theta)
                    state, step = self.step(state, theta.astype(np.float32), fake, self.observed[row], mix)
                    steps_taken.append(step)
                history = (np.stack([np.asarray(part) for part in parts]) for parts in zip(*steps_taken, strict=True))
            done += count
            means, log_sds, values = map(np.asarray, history)
            yield done, means, log_sds, values

    def _many(self, state: State, drawn: Any) -> Any:
        """Take one step for each key and batch of rows, within one program."""

        def body(state: State, row: Any) -> Any:
            key, rows = row
            first, second, third = jax.random.split(key, 3)
            normal = jax.random.normal(first, (self.thetas, len(state.proposal.mean)))
            theta = state.proposal.mean + jnp.exp(state.proposal.log_sd) * normal
            fake = self.simulator.run(second, theta)
            mix = jax.random.uniform(third, (*rows.shape, 1))
            return self.step(state, theta, fake, self.data[rows], mix)

        return jax.lax.scan(body, state, drawn)

    def _simulate(self, theta: FloatArray) -> Any:
        """Simulate one observation for each parameter."""
        if self.simulator.traced:
            self.key, now = jax.random.split(self.key)
            return self.simulator.run(now, jnp.asarray(theta, jnp.float32))
        return self.simulator.run(self.generator, theta)


def _train(settings: Settings, network: Layers, memory: Any, real: Any, fake: Any, mix: Any) -> Any:
    """Take the critic's steps of version 1, one for each batch."""
    rule = _rules(settings)[1]

    def body(carry: Any, batch: Any) -> Any:
        network, memory = carry
        gradient, distance = jax.grad(critics.wasserstein_loss, has_aux=True)(network, *batch, settings.penalty)
        return _move(rule, network, memory, gradient), distance

    (network, memory), distances = jax.lax.scan(body, (network, memory), (real, fake, mix))
    return network, memory, distances.mean()


def _epoch(settings: Settings, state: State, theta: Any, fake: Any, real: Any, mix: Any) -> Any:
    """Take the steps of version 1: one of the proposal, then the critic's, its moments reset."""
    size, network = settings.batch, state.critic
    proposal, memory = _nearer(settings, state, theta[:size], -critics.value(network, fake[:size]))
    batches = fake[size:].reshape(real.shape)
    network, critic_memory, value = _train(settings, network, _rules(settings)[1].init(network), real, batches, mix)
    return State(proposal, memory, network, critic_memory), (proposal.mean, proposal.log_sd, value)


def _step(settings: Settings, state: State, theta: Any, fake: Any, real: Any, mix: Any) -> Any:
    """Take the steps of version 2: one of the critic, then one of the proposal, with the same batch."""
    del mix  # Only version 1 needs it.
    gradient, value = jax.grad(critics.cross_entropy_loss, has_aux=True)(state.critic, real, fake, settings.penalty)
    network, critic_memory = _move(_rules(settings)[1], state.critic, state.critic_memory, gradient)
    proposal, memory = _nearer(settings, state, theta, critics.log_doubt(network, fake))
    return State(proposal, memory, network, critic_memory), (proposal.mean, proposal.log_sd, value)


def _nearer(settings: Settings, state: State, theta: Any, cost: Any) -> Any:
    """Step the proposal, and its optimiser's memory, to where simulations cost less."""
    slope = critics.proposal_gradient(state.proposal, theta, cost, settings.entropy, settings.baseline)
    return _move(_rules(settings)[0], state.proposal, state.proposal_memory, slope)


def _move(rule: Any, values: Any, memory: Any, gradient: Any) -> Any:
    """Return the values and the optimiser's memory after a step."""
    moves, memory = rule.update(gradient, memory)
    return optax.apply_updates(values, moves), memory


def _rules(settings: Settings) -> tuple[Any, Any]:
    """Return the optimisers of the proposal and of the critic."""
    rates = (settings.proposal_rate, settings.critic_rate)
    if settings.version == 1:
        first, second = settings.betas
        return tuple(optax.adam(rate, b1=first, b2=second) for rate in rates)  # type: ignore[return-value]
    return tuple(optax.rmsprop(rate, decay=0.99, eps=1e-8, eps_in_sqrt=False) for rate in rates)  # type: ignore[return-value]


def _thetas(generator: np.random.Generator, proposal: Proposal, count: int) -> FloatArray:
    """Draw (count, p) parameters from the proposal."""
    mean, sd = np.asarray(proposal.mean, np.float64), np.exp(np.asarray(proposal.log_sd, np.float64))
    return mean + sd * generator.standard_normal((count, len(mean)))


def _batches(generator: np.random.Generator, size: int, shape: Sequence[int]) -> NDArray[np.int32]:
    """Draw batches of rows without replacement: independent draws, until all rows of a batch differ."""
    *many, batch = shape
    rows = generator.integers(size, size=(math.prod(many), batch), dtype=np.int32)
    if batch * batch > size:  # Independent draws rarely differ all.
        rows = generator.permuted(np.tile(np.arange(size, dtype=np.int32), (len(rows), 1)), axis=1)[:, :batch]
    again = np.arange(len(rows))
    while len(again):
        ordered = np.sort(rows[again], axis=1)
        again = again[(ordered[:, 1:] == ordered[:, :-1]).any(axis=1)]
        rows[again] = generator.integers(size, size=(len(again), batch), dtype=np.int32)
    return rows.reshape(*many, batch)


def _simulator(
    simulate: Simulator, start: Proposal, size: int, backend: str | None, generator: np.random.Generator
) -> _Simulator:
    """Wrap the simulator, after a first call of it, so that it returns (m, d) float32 observations."""
    theta = _thetas(generator, start, 3)
    traced_error: Exception | None = None
    if backend != "numpy":
        try:
            shape = jax.eval_shape(simulate, jax.random.key(0), jnp.asarray(theta, jnp.float32)).shape
        except Exception as error:
            if backend == "jax":
                raise
            traced_error = error
        else:
            _require_shape(shape, 3, size)
            return _Simulator(lambda key, at: simulate(key, at).reshape(len(at), size).astype(jnp.float32), True)

    def call(rng: np.random.Generator, at: FloatArray) -> NDArray[np.float32]:
        observations = np.asarray(simulate(rng, at), np.float32)
        _require_shape(observations.shape, len(at), size)
        if not np.isfinite(observations).all():
            row = int((~np.isfinite(observations).reshape(len(at), -1).all(axis=1)).argmax())
            raise ValueError(f"`simulate` must return finite numbers; it does not for {at[row].tolist()}. Bound it.")
        return observations.reshape(len(at), size)

    try:
        call(np.random.default_rng(0), theta)
    except Exception as error:
        if traced_error is not None and not isinstance(error, ValueError):
            remedy = 'Give `backend="jax"` or `backend="numpy"` to see one of them in full.'
            raise ValueError(
                f"`simulate` fails with NumPy ({error!r}) and with JAX ({str(traced_error).splitlines()[0]}). {remedy}"
            ) from error
        raise
    return _Simulator(call, False)


def _require_shape(shape: tuple[int, ...], rows: int, size: int) -> None:
    """Refuse observations of another shape than one row for each parameter."""
    shapes = [(rows, size)] + [(rows,)] * (size == 1)
    if tuple(shape) not in shapes:
        remedy = "Return one observation, like a row of `data`, for each row of `theta`."
        raise ValueError(f"`simulate` must return shape {shapes[0]} for {rows} parameters; got {shape}. {remedy}")


def _parse_observations(data: ArrayLike, batch: int) -> NDArray[np.float32]:
    """Return the observed data, (N, d), or refuse them."""
    rows = np.asarray(data, np.float32)
    if rows.ndim not in (1, 2) or not np.isfinite(rows).all():
        raise ValueError(f"`data` must be finite numbers, (N, d) or (N,); got shape {rows.shape}. Give observations.")
    if len(rows) < batch:
        raise ValueError(f"`data` must be at least a batch, {batch}; got {len(rows)}. Give a smaller `batch`.")
    return rows.reshape(len(rows), -1)


def _start(mean: ArrayLike, sd: ArrayLike) -> Proposal:
    """Return the first proposal, or refuse its numbers."""
    centre, spread = np.atleast_1d(np.asarray(mean, np.float64)), np.atleast_1d(np.asarray(sd, np.float64))
    if centre.ndim != 1 or centre.shape != spread.shape:
        raise ValueError(f"`mean` and `sd` must be as many; got shapes {centre.shape} and {spread.shape}. One each.")
    if not np.isfinite(centre).all() or not (np.isfinite(spread) & (spread > 0)).all():
        raise ValueError(f"`sd` must be positive and `mean` finite; got {spread.tolist()} and {centre.tolist()}.")
    return Proposal(jnp.asarray(centre, jnp.float32), jnp.asarray(np.log(spread), jnp.float32))
