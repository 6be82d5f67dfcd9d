"""Windows of local steps around any rule: what the rule does with a gradient, it does with their displacement."""

from dataclasses import KW_ONLY
from typing import Self

import jax
import jax.numpy as jnp

from asyncsim._trees import widen
from asyncsim.components._component import static
from asyncsim.rules._common import StepSize, Window
from asyncsim.rules._optimisers import Optimiser, descend, is_elementwise, transformation
from asyncsim.rules._rule import Params, Sent, View, bind_window
from asyncsim.rules._wrappers import WithOwn, WithProxy, Wrapper, layers


class Local(Wrapper, named=False):
    """Local steps around any rule, which receives their displacement where it would receive a gradient.

    A worker makes `window` local steps x ← x + η·T(∇L(x)) from the value s that it read, with T the update of any
    optimiser (for SGD -g), whose state stays on the worker from pull to pull. The rule's `send` then receives
    g = -(x - s), so its own step size is the outer one, and its momentum, compensation or optimiser is the outer
    optimiser. Published algorithms are compositions of this kind:

    - `local(Downpour(1.0), …)` is `WorkerOptimiser`, and with a step size of 1/H, one for all workers, it is `AGN`.
    - `local(AdaptiveStaleness(1.0), …)` is `DynSGD`.
    - `local(Downpour(a), …)` in rounds is `LocalSGD` with `server_learning_rate=a`.
    - `local(SharedNesterov(0.7, momentum=0.9), …, optimiser="adamw")` in rounds is `DiLoCo`.
    - `local(DelayedNesterov(0.7, momentum=0.9), …)` is the delayed Nesterov of Liu et al. 2024.
    - `local(ServerOptimiser(a, optimiser="adam"), …)` has FedOpt's shape, with optax's bias-corrected Adam.
    - `local(GEM(…), …)` is GEM over windows, with the energies of displacements. Nobody has published it.

    A window of 1 is the rule itself with every gradient multiplied by η. If the rule ignores a commit, the worker's
    optimiser has made its steps all the same. On a curvature h a window moves x by c = 1 - (1 - η·h)^H of its distance
    (`theory.window_curvature`), and `theory.outer_limit` gives the largest stable outer step for that and a delay.

    The rule keeps the optimiser's state on the worker, next to the state of the rule.

    Args:
        rule: Any rule whose workers send an update of one gradient. Rules that make local steps themselves are refused:
            those with a window, and the elastic and federated families. So is a proxy next to the rule, inside or
            outside, because equation (23) of Hermans and Louppe 2018 does not cover displacements.
        window: Local steps between two commits, H: one number, or one per worker.
        learning_rate: Step size η of a local step, by which the optimiser's updates are multiplied.
        optimiser, elementwise: As in `WorkerOptimiser`.

    Raises:
        ValueError: If the rule makes local steps itself, or has a proxy next to it.

    Example:
        Two halvings take each of two workers from 1 to 0.25. With an outer step size of 0.5 each moves the server by
        half of its -0.75:

        >>> import asyncsim as asim
        >>> rule = asim.rules.local(asim.rules.Downpour(0.5), window=2, learning_rate=0.5)
        >>> rule.name, rule.window, rule.numbers
        ('downpour_local', 2, {'rule.learning_rate': 0.5, 'learning_rate': 0.5})
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.25]

    References:
        Reddi et al. 2021, "Adaptive federated optimization", ICLR, with an optimiser at the server that receives
        displacements. Douillard et al. 2023, arXiv 2311.08105 (DiLoCo). Liu et al. 2024, arXiv 2401.09135.
    """

    _: KW_ONLY
    window: Window = static()
    learning_rate: StepSize
    optimiser: Optimiser = static(default="sgd")
    elementwise: bool = static(default=False)

    suffix = "_local"

    def check(self) -> None:
        """Refuse rules whose workers make local steps themselves, and proxies."""
        super().check()
        if any(isinstance(layer, WithProxy) for layer in layers(self.rule)):
            raise ValueError(
                f"`rule` must not have a proxy next to it; got {self.rule.name!r}. Workers with local steps send "
                "displacements, which equation (23) does not cover. Give the rule that the proxy wraps."
            )
        if self.rule.steps_locally:
            raise ValueError(
                f"`rule` must send an update of one gradient; got {self.rule.name!r}, whose workers make local "
                "steps themselves. Set `window` and `learning_rate` of that rule, or give a rule without a window."
            )

    def for_workers(self, workers: int) -> Self:
        return bind_window(super().for_workers(workers), workers)

    @property
    def steps_locally(self) -> bool:
        return True

    @property
    def sees_vector(self) -> bool:
        """Whether rule and optimiser may receive all parameters as one vector."""
        return self.rule.sees_vector and is_elementwise(self.optimiser, self.elementwise)

    def start(self, params: Params) -> WithOwn:
        return WithOwn(self.rule.start(params), transformation(self.optimiser).init(widen(params)))

    def local_step(self, params: Params, gradient: Params, state: WithOwn) -> tuple[Params, WithOwn]:
        params, added = descend(transformation(self.optimiser), self.learning_rate, params, gradient, state.added)
        return params, WithOwn(state.own, added)

    def send(self, gradient: Params, state: WithOwn, view: View) -> Sent:
        """Send what the rule makes of the displacement, with the sign of a gradient."""
        sent = self.rule.send(jax.tree.map(jnp.negative, gradient), state.own, view)
        return Sent(sent.message, WithOwn(sent.state, state.added), sent.info)


local = Local  # A wrapped rule reads as an action: `local(rule, …)`.
