"""Asynchronous SGD: updates at full size, or scaled down by their staleness, or dropped."""

from dataclasses import KW_ONLY, replace
from functools import partial
from typing import Annotated, Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from asyncsim._checks import brief
from asyncsim._trees import tree_where
from asyncsim.components._component import static
from asyncsim.rules._common import Elementwise, NotNegative, Window, over_age, refuse_if
from asyncsim.rules._rule import Info, Params, Sent, State, View


class DescendingWorkers(Elementwise, named=False):
    """Rules whose workers make local steps of SGD, without a state of their own."""

    def local_step(self, params: Params, gradient: Params, state: State) -> tuple[Params, State]:
        return jax.tree.map(lambda x, g: x - self.learning_rate * g, params, gradient), state


class Downpour(DescendingWorkers):
    """Asynchronous SGD: the server applies every update as it arrives, at full size.

    θ_{t+1} = θ_t - η·∇L(θ_{t-τ}), equations (1) and (2) of Hermans and Louppe 2018. With a window of H > 1 a worker
    makes H steps x ← x - η·∇L(x) of its own from the value s that it read, and commits their sum: θ ← θ + (x - s).
    `AGN` divides that sum by H.

    Under round robin on a curvature h, with η·h ≤ 1, accumulated updates are stable iff 1 - (1 - η·h)^H <
    2·sin(π/(2(2n - 1))), about π/(2n). So a longer window leaves less room for η·h.

    Args:
        learning_rate: Step size η, per commit.
        window: Local steps between two commits, H (1 in Hermans and Louppe 2018, 5 in Distributed Keras): one number,
            or one per worker.

    Example:
        One worker is plain SGD, x ← (1 - η·h)·x:

        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 0, 0])
        >>> asim.replay(trace, asim.rules.Downpour(0.5), asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.125]

    References:
        Dean et al. 2012, "Large Scale Distributed Deep Networks" (there with local steps between commits).
    """

    _: KW_ONLY
    window: Window = static(default=1)

    publication = "dean2012distbelief"
    purpose = "many machines, none of which waits"

    @property
    def steps_locally(self) -> bool:
        return bool(np.max(self.window) > 1)

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        if self.steps_locally:
            return Sent(gradient, state, Info(update=gradient))  # the displacement x - s
        return super().send(gradient, state, view)


class AdaptiveStaleness(Elementwise):
    """Asynchronous SGD in which every update is divided by its staleness plus one.

    θ_{t+1} = θ_t - η·∇L(θ_{t-τ})/(τ + 1), with τ the server versions between the read and this commit.

    Args:
        learning_rate: Step size η, per commit.

    Example:
        Two workers in turn: the first update is fresh (τ = 0), the second is one version late (τ = 1).

        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1])
        >>> run = asim.replay(trace, asim.rules.AdaptiveStaleness(0.5), asim.workloads.Quadratic([1.0]))
        >>> run.central["x"].tolist()
        [0.25]

    References:
        Hermans and Louppe 2018, section 4 (the baseline "adaptive staleness"). Jiang et al. 2017 (DynSGD).
    """

    publication = "hermans2018gem"
    purpose = "a baseline: stale updates count less"

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        sent = super().send(gradient, state, view)
        return sent._replace(message=over_age(sent.message, view))


class ScaledByAge(Elementwise, named=False):
    """Rules that send Δθ = -η·g times a weight that depends on its own staleness."""

    def weight(self, age: jax.Array) -> Any:
        """Return the weight of an update with this staleness, given as a number of the parameters' dtype."""
        raise NotImplementedError

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        sent = super().send(gradient, state, view)
        message = jax.tree.map(lambda u: u * self.weight(view.staleness.astype(u.dtype)), sent.message)
        return sent._replace(message=message)


class StalenessAware(ScaledByAge):
    """Asynchronous SGD in which every update is divided by its staleness, if that is at least 1.

    θ_{t+1} = θ_t - η/max(τ, 1)·∇L(θ_{t-τ}), so a fresh update (τ = 0) counts as much as one that is one version old.

    Args:
        learning_rate: Step size η, per commit.

    Example:
        Three workers in turn, gradients of x²/2 at 1, staleness 0, 1 and 2: 1 - 0.25·(1 + 1 + 1/2):

        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1, 2])
        >>> asim.replay(trace, asim.rules.StalenessAware(0.25), asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.375]

    References:
        Zhang, Gupta, Lian and Liu 2016, "Staleness-aware Async-SGD for Distributed Deep Learning", arXiv 1511.05950.
    """

    publication = "zhang2016staleness"
    purpose = "stale gradients of n-softsync"

    def weight(self, age: jax.Array) -> Any:
        return 1 / jnp.maximum(age, 1)


class DropStale(Elementwise):
    """Asynchronous SGD that ignores updates older than a given staleness.

    θ_{t+1} = θ_t - η·∇L(θ_{t-τ}) if τ ≤ oldest, else θ_{t+1} = θ_t. The schedule does not depend on it: an ignored
    commit is a version of the server like any other, so it makes the others older. In a step that averages several
    messages it counts as a message of zeros.

    Args:
        learning_rate: Step size η, per commit.
        oldest: Largest staleness that is applied, in server versions, at least 0.

    Example:
        Three workers in turn: the third update is two versions old.

        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1, 2])
        >>> run = asim.replay(trace, asim.rules.DropStale(0.25, oldest=1), asim.workloads.Quadratic([1.0]))
        >>> run.central["x"].tolist()
        [0.5]

    References:
        Xie, Koyejo and Gupta 2019, "Asynchronous Federated Optimization", arXiv 1903.03934, whose server may drop
        models that are too old. Koloskova, Stich and Jaggi 2022, arXiv 2206.08307, who analyse dropped gradients.
    """

    _: KW_ONLY
    oldest: NotNegative

    publication = "chen2016backup"
    purpose = "rare stragglers: too old gradients are lost"
    ignores = True

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        """Send Δθ = -η·g up to a staleness, and zeros beyond it, even where g is not finite."""
        sent = super().send(gradient, state, view)
        return sent._replace(message=tree_where(view.staleness <= self.oldest, sent.message))


_concurrency = partial(
    refuse_if, wrong=lambda numbers: numbers < 1, requirement="at least 1", remedy="Leave it out for all workers."
)


class DelayAdaptive(ScaledByAge):
    """Asynchronous SGD with full steps up to the usual staleness, and smaller ones for older updates.

    θ_{t+1} = θ_t - η_t·∇L(θ_{t-τ}), with n the concurrency and

    - η_t = η·n/max(n, τ) without a smoothness, as in the method's public code, and
    - η_t = η for τ ≤ n and min(η, 1/(4·L·τ)) beyond, with a smoothness L.

    The second form was re-derived from its requirements. It is continuous at τ = n exactly if η = 1/(4·L·n), and the
    first form with η ≤ 1/(4·L·n) never takes a larger step.

    Args:
        learning_rate: Step size η, per commit.
        concurrency: Gradients under way at once, from 1 to the number of workers. None for all of the trace's workers,
            which is right if every worker is always busy. The mean staleness is then n - 1.
        smoothness: Largest curvature L of the loss, positive. None for the first form.

    Example:
        Two workers, the second of which commits last: staleness 0, 0, 0, 3, so that its update counts 2/3:

        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 0, 0, 1])
        >>> run = asim.replay(trace, asim.rules.DelayAdaptive(0.5), asim.workloads.Quadratic([1.0]))
        >>> round(float(run.central["x"][0]) * 24, 5)
        -5.0

    References:
        Mishchenko, Bach, Even and Woodworth 2022, "Asynchronous SGD Beats Minibatch SGD Under Arbitrary Delays",
        arXiv 2206.07638. Koloskova, Stich and Jaggi 2022, "Sharper Convergence Guarantees for Asynchronous SGD for
        Distributed and Federated Learning", arXiv 2206.08307.
    """

    _: KW_ONLY
    concurrency: Annotated[Any, _concurrency] | None = None
    smoothness: NotNegative | None = None

    publication = "mishchenko2022delays"
    purpose = "delays without a bound, such as stragglers'"

    def check(self) -> None:
        """Refuse a step size or a smoothness of 0 where steps are a share of 1/L."""
        if self.smoothness is not None:
            for name in ("learning_rate", "smoothness"):
                if np.any(getattr(self, name) == 0):
                    raise ValueError(f"`{name}` must be positive; got 0. With a smoothness, steps are a share of 1/L.")

    def for_workers(self, workers: int) -> Self:
        """Return the rule with as many gradients under way as there are workers, unless a number was given."""
        concurrency = float(workers) if self.concurrency is None else self.concurrency
        if np.any(np.asarray(concurrency) > workers):
            raise ValueError(
                f"`concurrency` of the rule {self.name!r} must be at most the trace's number of workers, {workers}; "
                f"got {brief(concurrency)}. Leave it out."
            )
        return replace(self, concurrency=concurrency)

    def weight(self, age: jax.Array) -> Any:
        """n/max(n, τ), or with a smoothness 1 up to τ = n and at most 1/(4·η·L·τ) beyond."""
        concurrency: Any = self.concurrency
        if self.smoothness is None:
            return concurrency / jnp.maximum(concurrency, age)
        cap = 1 / (4 * self.smoothness * self.learning_rate * jnp.maximum(age, 1))
        return jnp.where(age <= concurrency, 1, jnp.minimum(1, cap))
