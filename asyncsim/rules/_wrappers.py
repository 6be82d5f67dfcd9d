"""Rules around other rules: their base, a proxy next to any rule, and messages that take fewer bytes."""

import dataclasses
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from asyncsim._checks import brief
from asyncsim._trees import as_precise, tree_where, tree_zeros_like, widen
from asyncsim.components._component import static
from asyncsim.components._families import is_ours
from asyncsim.components._traced import Structure
from asyncsim.compressors import Compressor, Identity
from asyncsim.rules._common import Fraction, StepSize
from asyncsim.rules._rule import Params, Rule, Sent, State, View, accelerate


class WithOwn(NamedTuple):
    """The state of a wrapped rule's worker: the rule's, and the wrapper's."""

    own: State
    added: Any


class Wrapper(Rule, named=False):
    """A rule that contains another one, and changes the messages of its workers."""

    rule: Rule

    suffix = ""

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The rule's name with a suffix."""
        return f"{self.rule.name}{self.suffix}"

    @property
    def rounds(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the rule is made for rounds."""
        return self.rule.rounds

    @property
    def ignores(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the rule sends nothing for some commits."""
        return self.rule.ignores

    @property
    def draws(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the rule draws."""
        return self.rule.draws

    @property
    def sees_vector(self) -> bool:
        """Whether the rule sees all parameters as one vector."""
        return self.rule.sees_vector

    @property
    def collect(self) -> int | None:
        """Commits that make a step of the server."""
        return self.rule.collect

    @property
    def innermost(self) -> Rule:
        """The rule inside all wrappers."""
        return self.rule.innermost

    @property
    def compression(self) -> Compressor | None:
        """The compressor of the messages, if there is one."""
        return self.rule.compression

    def check(self) -> None:
        if not isinstance(self.rule, Rule):
            raise ValueError(
                f"`rule` must be an asyncsim.Rule; got {brief(self.rule)}. Give rules.Downpour(0.1), for one."
            )

    def for_workers(self, workers: int) -> Self:
        return dataclasses.replace(self, rule=self.rule.for_workers(workers))

    def start_server(self, params: Params) -> State:
        return self.rule.start_server(params)

    def apply(self, central: Params, server: State, message: Params, view: View) -> tuple[Params, State]:
        return self.rule.apply(central, server, message, view)

    def resume(self, central: Params, server: State, state: WithOwn, view: View) -> Params:
        return self.rule.resume(central, server, state.own, view)


class AroundLocalSteps(Wrapper, named=False):
    """A rule around any other one, whose local steps it leaves as they are."""

    @property
    def window(self) -> int | tuple[int, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Local steps of the rule between two commits."""
        return self.rule.window

    @property
    def steps_locally(self) -> bool:
        """Whether workers make local steps."""
        return self.rule.steps_locally

    def local_step(self, params: Params, gradient: Params, state: WithOwn) -> tuple[Params, WithOwn]:
        params, inner = self.rule.local_step(params, gradient, state.own)
        return params, WithOwn(inner, state.added)


class Transparent(AroundLocalSteps, named=False):
    """A rule around any other one, which the workers of that one do not see."""

    def start(self, params: Params) -> State:
        return self.rule.start(params)

    def local_step(self, params: Params, gradient: Params, state: State) -> tuple[Params, State]:
        return self.rule.local_step(params, gradient, state)

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        """Send what the rule sends."""
        return self.rule.send(gradient, state, view)

    def resume(self, central: Params, server: State, state: State, view: View) -> Params:
        return self.rule.resume(central, server, state, view)


def layers(rule: Rule) -> Iterator[Rule]:
    """Yield a rule, the rule that it contains, and so on."""
    yield rule
    if isinstance(rule, Wrapper):
        yield from layers(rule.rule)


class WithProxy(Wrapper, named=False):
    """A rule unchanged, and next to it on each worker the proxy whose energy GEM matches.

    m ← μ·m - η·∇L(s), equations (23) and (24) of Hermans and Louppe 2018: the moment of the worker's own raw updates.
    The parameters do not change. The moment is reported as the rule's proxy, so that you can record "energy_proxy" and
    "compliance" for rules without a proxy, and check condition (12), E_k(central) ≤ E_k(proxy). A rule that has a proxy
    of its own reports this one instead.

    The gradients are those that the rule takes, where it takes them. This is the worker's estimate of the proxy, not
    the proxy itself, which would take its gradients along a path of its own.

    The rule keeps m on the worker next to the state of the rule. Its hyper-parameters are the rule's, `proxy_momentum`,
    and `proxy_learning_rate` if η was given.

    Args:
        rule: Any rule without local steps, and without such a proxy already.
        proxy_learning_rate: Step size η of the proxy. None for the rule's own `learning_rate`, even if that is changed
            later.
        proxy_momentum: Friction parameter μ in [0, 1) of the proxy.

    Example:
        Plain SGD from x = 1 on L = x²/2. The raw updates are -0.5 and -0.25, so m is -0.5 and then -0.5:

        >>> import asyncsim as asim
        >>> rule = asim.rules.WithProxy(asim.rules.Downpour(0.5), proxy_momentum=0.5)
        >>> record = ("energy_central", "energy_proxy")
        >>> trace, quadratic = asim.Trace.from_commits([0, 0]), asim.workloads.Quadratic([1.0])
        >>> run = asim.replay(trace, rule, quadratic, record=record)
        >>> run.central["x"].tolist(), *(run.records[name].tolist() for name in record)
        ([0.25], [0.125, 0.03125], [0.125, 0.125])

    References:
        Hermans and Louppe 2018, equations (12), (23) and (24).
    """

    _: dataclasses.KW_ONLY
    proxy_learning_rate: StepSize | None = None
    proxy_momentum: Fraction = 0.9

    suffix = "_with_proxy"

    def check(self) -> None:
        super().check()
        if self.rule.steps_locally:
            raise ValueError(
                f"`rule` must send an update of one gradient; got {self.rule.name!r}, whose workers make local "
                "steps and send displacements, which equation (23) does not cover. Give a rule without a window."
            )
        if any(isinstance(layer, WithProxy) for layer in layers(self.rule)):
            raise ValueError(
                f"`rule` must not have a proxy next to it already; got {self.rule.name!r}. Give the rule that it wraps."
            )
        if self.proxy_learning_rate is None and "learning_rate" not in self.rule.innermost.numbers:
            raise ValueError(
                f"`proxy_learning_rate` must be given; got None, and the rule {self.rule.name!r} has none. Give the "
                "proxy's step size."
            )

    def start(self, params: Params) -> WithOwn:
        return WithOwn(self.rule.start(params), tree_zeros_like(params))

    def send(self, gradient: Params, state: WithOwn, view: View) -> Sent:
        sent = self.rule.send(gradient, state.own, view)
        proxy_rate = self.proxy_learning_rate
        rate = self.rule.innermost.numbers["learning_rate"] if proxy_rate is None else proxy_rate
        _, moment = accelerate(rate, self.proxy_momentum, state.added, gradient)
        return Sent(sent.message, WithOwn(sent.state, moment), sent.info._replace(proxy=moment))


PATTERN = {"matrix": (3, 2), "vector": (5,)}  # parameters for which no count of a message can be mistaken
WORKERS = 2  # where a rule has to know some number of them


class Memory(NamedTuple):
    """A worker's state for its compressor."""

    # the part of its updates that its messages have left out so far, in single precision at least, or () without error
    # feedback
    error: Params
    compressor: State  # the state of its compressor


class Compressed(AroundLocalSteps, named=False):
    """A rule whose messages are compressed, with error feedback.

    Where the rule would send the update u, the worker sends C(e + u) and keeps e ← e + u - C(e + u), the part left out
    so far. Without error feedback it sends C(u). An update that the rule scales by its staleness is compressed as
    scaled, and counts in a message are sent as they are. Where a rule `ignores` a gradient, nothing is sent, and e
    stays the same. Info is the rule's own: "update" is the raw one.

    Error feedback needs a contraction, so an unbiased C with variance ω is divided by 1 + ω with it (`RandK` is then
    without its factor d/k), and is used as it is without. Without error feedback, rules whose server adds up
    differences (`IA2SGD`, `Malenia`, `CA2FL`) never lose the parts that compression has left out.

    In a scenario with a limited bandwidth, the bytes of the compressor's messages are the bytes of a commit. The
    answer, the central variable, is sent in full. Draws are a function of the seed, the worker and the number of its
    commits.

    The rule keeps e and the compressor's state on the worker, next to the state of the rule. Its hyper-parameters are
    the rule's.

    Args:
        rule: Any rule whose message is one update. Those that send parameters (`FedAsync`), exchange with a spring
            (`EASGD`, `AEASGD`, `EAMSGD`) or have messages of several updates (`Ringleader`, `DANA` with momentum on the
            server, `GEM` with a proxy on the server, `DCASGD` with one mean square for all) are refused.
        compressor: One of `asyncsim.compressors`, or your own.
        error_feedback: Whether a worker remembers the parts that its messages leave out, which are lost with the
            worker's state.

    Example:
        Two workers in turn on L = (x₀² + 0.36·x₁²)/2 from (1, 1), of which only the larger number of an update is sent.
        Each sends -0.5 for x₀ at first. Worker 0 then makes the update (-0.25, -0.18) and sends the part left out of
        x₁, -0.18, together with that:

        >>> import asyncsim as asim
        >>> rule = asim.rules.compressed(asim.rules.Downpour(0.5), asim.compressors.TopK(fraction=0.5))
        >>> rule.name, rule.compressor
        ('downpour_compressed', TopK(fraction=0.5, k=None))
        >>> trace, quadratic = asim.Trace.from_commits([0, 1, 0]), asim.workloads.Quadratic([1.0, 0.36])
        >>> run = asim.replay(trace, rule, quadratic, record=("central",))
        >>> [[round(float(x), 2) for x in row] for row in run.unpacked("central")["x"]]
        [[0.5, 1.0], [0.0, 1.0], [0.0, 0.64]]

    References:
        Karimireddy, Rebjock, Stich and Jaggi 2019, "Error feedback fixes SignSGD and other gradient compression
        schemes", algorithm 2 (EF-SGD). Stich, Cordonnier and Jaggi 2018. Seide et al. 2014. Division by 1 + ω:
        Beznosikov, Horváth, Richtárik and Safaryan 2023, "On biased compression for distributed learning".
    """

    compressor: Compressor = static()
    error_feedback: bool = static(default=True)
    place: int | None = static(init=False)  # of the update in a message, None where only a real message shows it

    suffix = "_compressed"

    def check(self) -> None:
        """Refuse rules that cannot be compressed, and derive where the update lies in a message."""
        super().check()
        name = self.rule.name
        if not isinstance(self.compressor, Compressor):
            raise ValueError(
                f"`compressor` must be one of asyncsim.compressors; got {brief(self.compressor)}. Give "
                "compressors.TopK(0.01), for one."
            )
        if self.rule.compression is not None:
            raise ValueError(f"`rule` must not be compressed already; got {brief(name)}. Give the rule that it wraps.")
        if (why := self.rule.innermost.incompressible) is not None:
            raise ValueError(f"`rule` must send an update; {name!r} {why}. Compress Downpour with a window, say.")
        place = _usual_place(Structure(self.rule)) if is_ours(type(self.rule.innermost)) else None
        object.__setattr__(self, "place", place)

    @property
    def compression(self) -> Compressor:
        return self.compressor

    @property
    def remembers(self) -> bool:
        """Whether a worker keeps the part left out. Without compression, nothing is, bit for bit."""
        return self.error_feedback and not isinstance(self.compressor, Identity)

    @property
    def draws(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the rule or the compressor draws."""
        return self.rule.draws or self.compressor.draws

    @property
    def sees_vector(self) -> bool:
        """Whether rule and compressor may receive all parameters as one vector."""
        return self.rule.sees_vector and self.compressor.whole

    def start(self, params: Params) -> WithOwn:
        error = widen(tree_zeros_like(params)) if self.remembers else ()
        return WithOwn(self.rule.start(params), Memory(error, self.compressor.start(params)))

    def send(self, gradient: Params, state: WithOwn, view: View) -> Sent:
        sent = self.rule.send(gradient, state.own, view)
        before: Memory = state.added
        place = _place_of_update(self.rule, sent.message, gradient) if self.place is None else self.place
        leaves, message = jax.tree.flatten(sent.message)
        shape = jax.tree.structure(gradient)
        part = slice(place, place + shape.num_leaves)
        update = jax.tree.unflatten(shape, leaves[part])
        exact = jax.tree.map(jnp.add, before.error, widen(update)) if self.remembers else update
        approximation, memory = self.compressor.compress(view.key, exact, before.compressor)
        if self.remembers and self.compressor.unbiased:
            share = self.compressor.delta(update)
            approximation = jax.tree.map(lambda leaf: share * leaf, approximation)
        approximation = as_precise(approximation, update)
        error = jax.tree.map(jnp.subtract, exact, widen(approximation)) if self.remembers else ()
        after = Memory(error, memory)
        if self.rule.ignores:
            counts = jnp.stack([(leaf != 0).any() for leaf in leaves]).any()
            approximation, after = tree_where(counts, (approximation, after), (tree_zeros_like(approximation), before))
        leaves[part] = jax.tree.leaves(approximation)
        return Sent(jax.tree.unflatten(message, leaves), WithOwn(sent.state, after), sent.info)


compressed = Compressed  # A wrapped rule reads as an action: `compressed(rule, …)`.


@lru_cache(maxsize=256)
def _usual_place(structure: Structure) -> int | None:
    """Find the one update in the message of a rule of the library, and of all rules of its structure."""
    rule = structure.component
    numbers = {name: np.ravel(value)[0].item() for name, value in rule.numbers.items()}  # those of one seed
    arguments = rule.with_numbers(numbers).innermost.numbers
    windows = len(rule.window) if isinstance(rule.window, tuple) else WORKERS
    workers = arguments.get("workers", arguments.get("concurrency", windows))

    def message_of(params: Params) -> Any:
        bound = rule.with_numbers(numbers).for_workers(int(workers))
        server, key = bound.start_server(params), jax.random.key(0)
        view = View(read=params, pulled=params, staleness=jnp.int32(0), server=server, key=key)
        return bound.send(params, bound.start(params), view).message

    params = {name: jax.ShapeDtypeStruct(shape, jnp.result_type(float)) for name, shape in PATTERN.items()}
    try:
        message = jax.eval_shape(message_of, params)
    except Exception:  # the optimiser is the user's, and may raise anything
        return None
    return _place_of_update(rule, message, params)


def _place_of_update(rule: Rule, message: Any, params: Params) -> int:
    """Count the leaves of a message before the one update, which has the structure and shapes of the parameters."""
    structure, shapes = jax.tree.structure(params), [leaf.shape for leaf in jax.tree.leaves(params)]

    def is_update(part: Any) -> bool:
        return jax.tree.structure(part) == structure and [leaf.shape for leaf in jax.tree.leaves(part)] == shapes

    places = [place for place, part in enumerate(jax.tree.leaves(message, is_leaf=is_update)) if is_update(part)]
    if len(places) != 1:
        several = "no update" if not places else f"{len(places)} updates, which belong together"
        raise ValueError(
            f"`rule` must send one update; a message of {rule.name!r} has {several}. Choose a variant of it that sends "
            "one, or another rule."
        )
    return places[0]
