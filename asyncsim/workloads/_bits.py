"""Policy gradients on bits: reinforcement learning with stale data for which almost everything is known exactly."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from asyncsim import _checks as checks
from asyncsim.components._component import static
from asyncsim.workloads._batches import commit_key
from asyncsim.workloads._workload import JOBS, Batch, Params, Workload

MOST_BITS = 16  # of which all 2^H sequences are enumerated
ASCENT = 2000  # steps towards the optimum before Newton's method
CONTEXT = 1  # stream of a commit's key: which context it has
Estimator = Literal["none", "token", "sequence", "truncated", "masked", "ppo", "decoupled", "gspo"]


class Bits(Workload):
    """A tabular policy writes H bits and is rewarded for enough ones, with data from an older policy.

    In context c the t-th bit is 1 with probability p_t = σ(θ_{c,t}), independently of the others, and a sequence of
    bits a has the reward R(a) = 1 if at least k_c of its bits are 1, else 0. Hence J(θ) = E R is a tail of a
    Poisson-binomial distribution, known exactly with all its derivatives. A commit is a group of S sequences of one
    random context, drawn by the behaviour parameters q (which the worker read), but its gradient is taken at the newest
    parameters. With the log-ratio ℓ_t = log π_θ(a_t) - log π_q(a_t), r_t = exp ℓ_t, w = exp Σ_t ℓ_t and the advantage A
    (reward minus baseline), the loss is minus the mean over the group of one of these:

    - none: A·Σ_t log π_θ(a_t). With a baseline that makes the mean advantage 0, its gradient does not depend on θ: it
      is that of J at the *old* parameters, so that the replay is asynchronous SGD.
    - token: A·Σ_t r_t, which corrects each bit for itself, not for those before and after it.
    - sequence: A·w, whose gradient is that of J at θ in expectation, with a variance that grows with Σ_t ℓ_t².
    - truncated: A·min(w, cap)·Σ_t log π_θ(a_t), with constant weights.
    - masked: the same with the weight w where 1/cap ≤ w ≤ cap and 0 elsewhere.
    - ppo: Σ_t min(r_t·A, clip(r_t, 1 - ε, 1 + ε)·A).
    - decoupled: the same for the ratio to the newest policy, weighted by the constant r_t. With one gradient for a
      group, as here, its gradient is that of "token".
    - gspo: min(g·A, clip(g, 1 - ε, 1 + ε)·A) with g = exp(Σ_t ℓ_t/H), whose gradient is smaller by 1/H.

    Where θ = q, all of them have the gradient of J (gspo: J/H), except that a baseline from the group's own mean reward
    makes it smaller by 1 - 1/S.

    The parameters are ``{"theta": (contexts, bits)}``. The recorded loss is the share of the group's sequences without
    reward, an unbiased estimate of 1 - J(q). The test loss is 1 - J(θ), and `evaluate` also measures J as "reward" and
    J minus the penalty as "objective". "effective_sample_size" and "clipped_share" can be recorded, too: both are
    expectations over the sequences that the behaviour parameters draw, not estimates from a group.

    Args:
        least: k, ones that are rewarded: one number, or one per context, from 0 to `bits`.
        bits: H, bits of a sequence, at most 16.
        samples: S, sequences of a group, or None for all 2^H sequences, each with its probability: gradients are then
            exact expectations over the policy that drew the data.
        estimator: Which loss.
        baseline: "mean": the group's own mean, "exact": J of the behaviour parameters, minus the penalty, or "none".
        penalty: β of a penalty in the reward, β·log(π_q(a)/2^-H) with the rollout's own log-probabilities: its mean is
            β times the Kullback-Leibler divergence of the behaviour policy from uniform bits.
        cap: Largest weight of "truncated" and "masked", at least 1.
        clip: ε of "ppo", "decoupled" and "gspo".
        lengths: Mean generation time of a context's samples, one number per context, in units of the law of
            `Rollouts.generate`, by default all 1. See `prompts`.
        start: First θ, a number, or an array that broadcasts to (contexts, bits), by default 0 for uniform bits.

    Example:
        The exact gradient of J at θ = 0 with two bits, one of which must be 1 (J = 3/4, ∂J/∂θ_t = 1/8):

        >>> import asyncsim as asim
        >>> workload = asim.workloads.Bits(least=1, bits=2)
        >>> run = asim.replay(asim.Trace.from_commits([0]), asim.rules.Downpour(0.8), workload)
        >>> [round(float(theta), 6) for theta in run.central["theta"][0]], run.loss.tolist()
        ([0.1, 0.1], [0.25])

    References:
        Williams 1992, "Simple statistical gradient-following algorithms for connectionist reinforcement learning".
        Schulman et al. 2017, "Proximal policy optimization algorithms". Fu et al. 2025, "AReaL: A large-scale
        asynchronous reinforcement learning system for language reasoning" (decoupled). Zheng et al. 2025, "Group
        sequence policy optimization" (gspo).
    """

    least: Any = 6
    bits: int = static(default=8)
    samples: int | None = static(default=None)
    estimator: Estimator = static(default="none")
    baseline: Literal["mean", "exact", "none"] = static(default="mean")
    penalty: Any = 0.0
    cap: Any = 2.0
    clip: Any = 0.2
    lengths: Any = None
    start: Any = 0.0

    def check(self) -> None:
        """Refuse numbers out of range and shapes that do not match, and keep numbers as arrays."""
        bits = checks.require_count("bits", self.bits, remedy="8 bits are usual.")
        if bits > MOST_BITS:
            raise ValueError(
                f"`bits` must be at most {MOST_BITS}, as all sequences are enumerated; got {checks.brief(bits)}."
            )
        if self.samples is not None:
            checks.require_count("samples", self.samples, remedy="None for exact expectations.")
        least = np.atleast_1d(np.asarray(checks.require_all_not_negative("least", self.least), float))
        if least.ndim > 1 or not least.size or least.max() > bits:
            raise ValueError(
                f"`least` must be from 0 to {bits}, a number or one per context; got {checks.brief(self.least)}."
            )
        lengths = np.ones(len(least)) if self.lengths is None else checks.require_all_finite("lengths", self.lengths)
        lengths = np.atleast_1d(np.asarray(lengths, float))
        if lengths.shape != least.shape or not (lengths > 0).all():
            remedy = f"Give {len(least)}, one per context."
            raise ValueError(f"`lengths` must be positive, one per context; got {checks.brief(self.lengths)}. {remedy}")
        try:
            start = np.broadcast_to(
                np.asarray(checks.require_all_finite("start", self.start), float), (len(least), bits)
            )
        except ValueError:
            remedy = f"Give a number, or shape {(len(least), bits)}."
            raise ValueError(
                f"`start` must be finite θ of all bits; got {checks.brief(self.start)}. {remedy}"
            ) from None
        penalty, clip = (
            float(checks.require_all_not_negative(name, getattr(self, name))) for name in ("penalty", "clip")
        )
        if not float(checks.require_all_finite("cap", self.cap)) >= 1:
            raise ValueError(f"`cap` must be at least 1; got {self.cap}. 2 is usual.")
        vars(self).update(least=least, lengths=lengths, start=start, penalty=penalty, cap=float(self.cap), clip=clip)
        super().check()

    @property
    def contexts(self) -> int:
        return len(self.least)

    @property
    def quantities(self) -> dict[str, Callable[[Any], jax.Array]]:  # type: ignore[override]
        """Quantities of a commit that can be recorded, in addition to those of every workload."""
        return {"effective_sample_size": self.effective_sample_size, "clipped_share": self.clipped_share}

    def init(self, key: jax.Array) -> Params:
        """Return the start, of every seed: seeds differ in the contexts and sequences that are drawn."""
        return {"theta": jax.device_put(np.array(self.start))}

    @property
    def draw(self) -> Callable[[jax.Array], Batch] | None:  # type: ignore[override]
        """The context and the uniform numbers from which the loss makes sequences, unless nothing is random."""
        return None if self.samples is None and self.contexts == 1 else self._draw

    def _draw(self, key: jax.Array) -> Batch:
        context = self._context(key)
        if self.samples is None:
            return context, None
        return context, jax.random.uniform(key, (self.samples, self.bits))

    def _context(self, key: jax.Array) -> jax.Array:
        return jax.random.randint(jax.random.fold_in(key, CONTEXT), (), 0, self.contexts)

    def loss(self, params: Params, batch: Batch, key: jax.Array, behaviour: Params) -> jax.Array:
        """Return the surrogate whose gradient is taken, although its value does not measure the policy."""
        return self._both(params, batch, behaviour)[0]

    def gradient(self, params: Params, batch: Batch, key: jax.Array, behaviour: Params) -> tuple[jax.Array, Params]:
        """Return the share of sequences without reward, and the gradient of the surrogate."""
        slope, failed = jax.grad(self._both, has_aux=True)(params, batch, behaviour)
        return failed, slope

    def evaluate(self, params: Params) -> dict[str, jax.Array]:
        """Return 1 - J, J and J minus the penalty, means over contexts, and J of each context if there are several."""
        theta = params["theta"]
        rewards = jax.vmap(_reward)(theta, jnp.asarray(self.least, theta.dtype))
        objective = jnp.mean(rewards - self.penalty * jax.vmap(_divergence)(theta))
        measures = {"test_loss": 1 - jnp.mean(rewards), "reward": jnp.mean(rewards), "objective": objective}
        several = range(self.contexts) if self.contexts > 1 else ()
        return measures | {f"reward_{context}": rewards[context] for context in several}

    def optimum(self) -> tuple[NDArray[np.floating], float]:
        """Return θ of shape (1, bits) at which J minus the penalty is largest, and its largest curvature λ there.

        Raises:
            ValueError: If there are several contexts, or no penalty, without which θ grows for ever.

        Example:
            >>> theta, curvature = Bits(least=6, penalty=0.1).optimum()
            >>> round(float(theta[0, 0]), 3), round(curvature, 5)
            (1.856, 0.03455)
        """
        if self.contexts > 1 or not self.penalty:
            received = f"{self.contexts} contexts and penalty {self.penalty:g}"
            raise ValueError(f"`least`, `penalty` must be one number and positive; got {received}. Use penalty=0.1.")

        def loss(theta: jax.Array) -> jax.Array:
            return -self.evaluate({"theta": theta[None]})["objective"]

        slope, bend = jax.jit(jax.grad(loss)), jax.jit(jax.hessian(loss))
        theta = jnp.ones(self.bits)
        for _ in range(ASCENT):
            theta = theta - slope(theta) / self.penalty
        for _ in range(5):  # Newton's method
            theta = theta - jnp.linalg.solve(bend(theta), slope(theta))
        return np.asarray(theta)[None], float(np.linalg.eigvalsh(bend(theta)).max())

    def effective_sample_size(self, commit: Any) -> jax.Array:
        """Return (E w)²/E w² = 1/Π_t(p_t²/q_t + (1 - p_t)²/(1 - q_t)) of a commit's weights, mean over contexts."""
        new, old = commit.view.pulled["theta"], commit.view.read["theta"]
        signs = jnp.array([-1.0, 1.0], new.dtype)[:, None, None]  # of a bit that is 0, and of one that is 1
        terms = 2 * jax.nn.log_sigmoid(signs * new[None]) - jax.nn.log_sigmoid(signs * old[None])
        return jnp.mean(jnp.exp(-jnp.sum(jax.nn.logsumexp(terms, axis=0), axis=-1)))

    def clipped_share(self, commit: Any) -> jax.Array:
        """Return the expected share of ratios beyond the clip range (ppo: bits, gspo: sequences) or the cap, else 0."""
        new, old = commit.view.pulled["theta"], commit.view.read["theta"]
        if self.estimator not in ("ppo", "gspo", "truncated", "masked"):
            return jnp.zeros((), new.dtype)

        def of_context(new: jax.Array, old: jax.Array) -> jax.Array:
            bits = jnp.asarray(_all_sequences(self.bits), new.dtype)
            before = _log_probabilities(old, bits)
            ratio = _log_probabilities(new, bits) - before
            if self.estimator != "ppo":
                whole = ratio.sum(-1, keepdims=True)
                ratio = whole / self.bits if self.estimator == "gspo" else whole
            ratio = jnp.exp(ratio)
            if self.estimator == "masked":
                beyond = self._masks(ratio)
            else:
                beyond = ratio > self.cap if self.estimator == "truncated" else jnp.abs(ratio - 1) > self.clip
            outside = beyond.astype(new.dtype).mean(-1)
            return jnp.sum(jnp.exp(before.sum(-1)) * outside)

        return jnp.mean(jax.vmap(of_context)(new, old))

    def prompts(self, seed: int = 0) -> "PromptLengths":
        """Return the mean generation time of every group for `Rollouts(prompt=…)`: that of its context.

        Which context the j-th group of a ticket has is a function of (seed, ticket, j) alone, so that event times are
        known before anything is learned. Replay with the same seed, whose contexts these are, and with a rule without
        local steps. Contexts of groups that were dropped are left out, therefore the workload must count jobs.

        Args:
            seed: Seed of the replay.

        Raises:
            ValueError: If the workload counts commits, or the seed is not a whole number of at least 0.

        Example:
            >>> workload = Bits(least=[1, 2], bits=2, samples=4, lengths=[1.0, 3.0], counts="jobs")
            >>> sorted(set(workload.prompts(seed=0)(0, np.arange(20)).tolist()))
            [1.0, 3.0]
        """
        if self.counts != JOBS:
            raise ValueError(
                f"`counts` must be 'jobs' for contexts with their own lengths, as groups may be dropped; got "
                f"{self.counts!r}. Give Bits(…, counts='jobs')."
            )
        return PromptLengths(self, checks.require_integer("seed", seed, remedy="Give that of the replay."))

    def _both(self, params: Params, batch: Batch, behaviour: Params) -> tuple[jax.Array, jax.Array]:
        context, uniform = (0, None) if batch is None else batch
        theta, old, least = params["theta"][context], behaviour["theta"][context], jnp.asarray(self.least)[context]
        if uniform is None:
            bits = jnp.asarray(_all_sequences(self.bits), theta.dtype)
            shares = jnp.exp(_log_probabilities(old, bits).sum(-1))
        else:
            bits = (uniform < jax.nn.sigmoid(old)[None]).astype(theta.dtype)
            shares = jnp.full(len(bits), 1 / len(bits), theta.dtype)
        before = _log_probabilities(old, bits)
        rewards = (bits.sum(-1) >= least).astype(theta.dtype)
        advantages = rewards - self.penalty * (before.sum(-1) + self.bits * np.log(2.0))
        if self.baseline == "mean":
            advantages -= jnp.sum(shares * advantages)
        elif self.baseline == "exact":
            advantages -= _reward(old, least.astype(theta.dtype)) - self.penalty * _divergence(old)
        gains = self._gains(_log_probabilities(theta, bits), before, advantages)
        return -jnp.sum(shares * gains), 1 - jnp.sum(shares * rewards)

    def _gains(self, after: jax.Array, before: jax.Array, advantages: jax.Array) -> jax.Array:
        """Return (sequences,) gains from (sequences, bits) log-probabilities by the newest and the behaviour policy."""
        by_bit = advantages[:, None]
        if self.estimator == "none":
            return advantages * after.sum(-1)
        if self.estimator == "token":
            return advantages * jnp.exp(after - before).sum(-1)
        if self.estimator == "ppo":
            return self._clipped(jnp.exp(after - before), by_bit).sum(-1)
        if self.estimator == "decoupled":
            newest = lax.stop_gradient(after)
            return (jnp.exp(newest - before) * self._clipped(jnp.exp(after - newest), by_bit)).sum(-1)
        if self.estimator == "gspo":
            return self._clipped(jnp.exp((after - before).mean(-1)), advantages)
        weight = jnp.exp((after - before).sum(-1))
        if self.estimator == "sequence":
            return advantages * weight
        factor = jnp.minimum(weight, self.cap) if self.estimator == "truncated" else weight * ~self._masks(weight)
        return advantages * lax.stop_gradient(factor) * after.sum(-1)

    def _clipped(self, ratio: jax.Array, advantages: jax.Array) -> jax.Array:
        return jnp.minimum(ratio * advantages, jnp.clip(ratio, 1 - self.clip, 1 + self.clip) * advantages)

    def _masks(self, weight: jax.Array) -> jax.Array:
        return (weight > self.cap) | (weight * self.cap < 1)


@dataclass(frozen=True)
class PromptLengths:
    """Mean generation times of the groups of every ticket, as in `Bits.prompts`."""

    workload: Bits
    seed: int

    def contexts(self, tickets: NDArray[Any], jobs: NDArray[Any]) -> NDArray[np.int64]:
        """Return the contexts of groups, from `Trace.worker` and `Trace.started_before`."""
        contexts = _contexts(self.workload.seen, self.seed, tickets.astype(np.int32), jobs.astype(np.int32))
        return np.asarray(contexts, np.int64)

    def __call__(self, ticket: int, jobs: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the mean generation times of these groups of a ticket."""
        return self.workload.lengths[self.contexts(np.full(len(jobs), ticket), jobs)]


@jax.jit
def _contexts(workload: Bits, seed: int, tickets: jax.Array, jobs: jax.Array) -> jax.Array:
    return jax.vmap(lambda ticket, job: workload._context(commit_key(jax.random.key(seed), ticket, job)))(tickets, jobs)


@cache
def _all_sequences(bits: int) -> np.ndarray:
    """Enumerate all sequences, (2^bits, bits)."""
    return np.array(list(itertools.product((0, 1), repeat=bits)), np.int8)


def _log_probabilities(theta: jax.Array, bits: jax.Array) -> jax.Array:
    """Return the (sequences, bits) log-probability of each bit, for θ of shape (bits,)."""
    return jax.nn.log_sigmoid((2 * bits - 1) * theta[None])


def _reward(theta: jax.Array, least: jax.Array) -> jax.Array:
    """Return J of one context, the probability of at least k ones, by the recursion over bits."""

    def one_more(shares: jax.Array, p: jax.Array) -> tuple[jax.Array, None]:
        return (1 - p) * shares + p * jnp.roll(shares, 1).at[0].set(0), None

    none_yet = jnp.zeros(len(theta) + 1, theta.dtype).at[0].set(1)
    shares = lax.scan(one_more, none_yet, jax.nn.sigmoid(theta))[0]
    return jnp.sum(jnp.where(jnp.arange(len(shares)) >= least, shares, 0))


def _divergence(theta: jax.Array) -> jax.Array:
    """Return Σ_t p·log 2p + (1 - p)·log 2(1 - p), the divergence of one context's policy from uniform bits."""
    p = jax.nn.sigmoid(theta)
    logs = p * jax.nn.log_sigmoid(theta) + (1 - p) * jax.nn.log_sigmoid(-theta)
    return cast(jax.Array, jnp.sum(logs) + len(theta) * np.log(2.0))
