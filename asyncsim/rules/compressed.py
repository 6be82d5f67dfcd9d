"""Any rule with messages that take fewer bytes, and the memory of what they leave out."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from asyncsim.compressors import Compressor, Identity, bytes_of
from asyncsim.rules.elastic import ExchangeAtOnce, ExchangeInRound, ExchangeLater
from asyncsim.rules.federated import SendMixture
from asyncsim.rules.proxy import SendBeside
from asyncsim.rules.rule import Hyper, Params, Rule, Send, Sent, State, Structure, View, constructor_of
from asyncsim.trees import as_precise, choose, widen

SUFFIX = "_compressed"  # of the name
PATTERN = {"matrix": (3, 2), "vector": (5,)}  # parameters for which no count of a message can be mistaken
WORKERS = 2  # where a rule has to know some number of them
Path = tuple[Any, ...]  # keys and places on the way into a message

# Sends that do not give an update which could be sent with fewer bytes -> why not.
NO_UPDATE: dict[type, str] = {
    SendMixture: "sends parameters, of which a compressor would keep a few: not an update",
    **dict.fromkeys(
        (ExchangeInRound, ExchangeAtOnce, ExchangeLater),
        "moves worker and server by the same amount, of which only the server's part would be compressed",
    ),
}


class Remembering(NamedTuple):
    """What a worker keeps.

    Attributes:
        own: What its rule keeps.
        error: What its messages have left out so far, in single precision at least; () without error feedback.
        compressor: What its compressor keeps.
    """

    own: State
    error: Params
    compressor: State


class Compression(NamedTuple):
    """A compressed rule taken apart: the arguments of `compressed`."""

    rule: Rule
    compressor: Compressor
    error_feedback: bool


@dataclass(frozen=True)
class Compressing:
    """What the functions of a compressed rule have in common.

    Attributes:
        rule: The rule that is compressed, without its hyper-parameters.
        compressor: C.
        error_feedback: Whether a worker remembers what its messages leave out.
        path: Where the update lies in the rule's message; None for a rule of one's own, whose message shows it.
    """

    rule: Rule
    compressor: Compressor
    error_feedback: bool
    path: Path | None


@dataclass(frozen=True)
class StartCompressed(Compressing):
    """The initial state of a worker, which has left out nothing yet."""

    def __call__(self, hyper: Hyper, params: Params) -> Remembering:
        """What the rule and the compressor start with, and an error of zero."""
        error = widen(jax.tree.map(jnp.zeros_like, params)) if self.error_feedback else ()
        return Remembering(self.rule.start(hyper, params), error, self.compressor.start(params))


@dataclass(frozen=True)
class SendCompressed(Compressing):
    """The rule's message, with its update compressed."""

    def __call__(self, hyper: Hyper, gradient: Params, state: Remembering, view: View) -> Sent:
        """Send C(e + u) for an update u, and keep e ← e + u - C(e + u)."""
        sent = self.rule.send(hyper, gradient, state.own, view)
        path = _only_path(self.rule, sent.message, gradient) if self.path is None else self.path
        update = part_of(sent.message, path)
        exact = jax.tree.map(jnp.add, state.error, widen(update)) if self.error_feedback else update
        given, kept = self.compressor.compress(view.key, exact, state.compressor)
        if self.error_feedback and self.compressor.unbiased:
            share = self.compressor.delta(update)
            given = jax.tree.map(lambda leaf: share * leaf, given)
        given = as_precise(given, update)
        error = jax.tree.map(jnp.subtract, exact, widen(given)) if self.error_feedback else ()
        if self.rule.ignores:
            counts = jnp.stack([(leaf != 0).any() for leaf in jax.tree.leaves(sent.message)]).any()
            given, error, kept = choose(
                counts,
                (given, error, kept),
                (jax.tree.map(jnp.zeros_like, given), state.error, state.compressor),
            )
        return Sent(with_part(sent.message, path, given), Remembering(sent.state, error, kept), sent.info)


@dataclass(frozen=True)
class StepCompressed(Compressing):
    """A local step of the rule."""

    def __call__(self, hyper: Hyper, params: Params, gradient: Params, state: Remembering) -> tuple[Params, State]:
        """The rule's step; nothing is sent."""
        assert self.rule.local_step is not None
        params, own = self.rule.local_step(hyper, params, gradient, state.own)
        return params, Remembering(own, state.error, state.compressor)


@dataclass(frozen=True)
class ResumeCompressed(Compressing):
    """Where the rule continues."""

    def __call__(self, hyper: Hyper, central: Params, server: State, state: Remembering, view: View) -> Params:
        """The rule's answer to its own state."""
        return self.rule.resume(hyper, central, server, state.own, view)


def compressed(rule: Rule, compressor: Compressor, error_feedback: bool = True) -> Rule:
    """A rule whose messages are compressed, with error feedback.

    Where the rule would send the update u, the worker sends C(e + u) and keeps e ← e + u - C(e + u), what it has left
    out so far; without error feedback it sends C(u). What is compressed is what `rule.send` gives, so an update that
    the rule scales by its staleness is compressed as scaled; counts in a message are sent as they are. Where a rule
    `ignores` a gradient, nothing is sent, and e stays what it was. Info is the rule's own: "update" is the raw one.

    Error feedback needs a contraction, so an unbiased C with variance ω is divided by 1 + ω with it (`RandK` is then
    without its factor d/k), and is used as it is without. Without error feedback, rules whose server adds up
    differences (`ia2sgd`, `malenia`, `ca2fl`) never lose what compression has left out of them.

    In a scenario with a limited bandwidth, the bytes of the compressor's messages are the bytes of a commit; the
    answer, the central variable, is sent in full. Draws are a function of the seed, the worker and how often it has
    committed.

    Args:
        rule: Any rule whose message is one update. Those that send parameters (`fedasync`), exchange with a spring
            (`easgd`, `aeasgd`, `eamsgd`) or have messages of several updates (`ringleader`, `dana` with momentum on the
            server, `gem` with a proxy on the server, `dc_asgd` with one mean square for all) are refused.
        compressor: One of `asyncsim.compressors`, or your own.
        error_feedback: Whether a worker remembers what its messages leave out; it is lost with the worker's state.

    Returns:
        A `Rule` that keeps e and what the compressor remembers on the worker, beside what the rule keeps; its
        hyper-parameters are the rule's.

    Raises:
        ValueError: If `rule` is not a rule or cannot be compressed, or `compressor` is not a compressor.

    Example:
        Two workers in turn on L = (x₀² + 0.36·x₁²)/2 from (1, 1), of which only the larger number of an update is sent.
        Each sends -0.5 for x₀ at first. Worker 0 then makes the update (-0.25, -0.18) and sends what it left out of x₁,
        -0.18, together with that:

        >>> import asyncsim as asim
        >>> rule = asim.rules.compressed(asim.rules.downpour(0.5), asim.compressors.TopK(fraction=0.5))
        >>> rule
        downpour_compressed(learning_rate=0.5, compressor=TopK(fraction=0.5, k=None), error_feedback=True)
        >>> trace, quadratic = asim.Trace.from_commits([0, 1, 0]), asim.workloads.quadratic([1.0, 0.36])
        >>> run = asim.replay(trace, rule, quadratic, record=("central",))
        >>> [[round(float(x), 2) for x in row] for row in run.unpacked("central")["x"]]
        [[0.5, 1.0], [0.0, 1.0], [0.0, 0.64]]

    References:
        Karimireddy, Rebjock, Stich and Jaggi 2019, "Error feedback fixes SignSGD and other gradient compression
        schemes", algorithm 2 (EF-SGD); Stich, Cordonnier and Jaggi 2018; Seide et al. 2014. Division by 1 + ω:
        Beznosikov, Horváth, Richtárik and Safaryan 2023, "On biased compression for distributed learning".
    """
    _check(rule, compressor, error_feedback)
    path = None if constructor_of(rule) is None else _path_to_update(Structure(rule))
    return _wrapped(rule, compressor, error_feedback, path)


def taken_apart(rule: Rule) -> Compression | None:
    """The arguments from which `compressed` made a rule; None for any other rule.

    Example:
        >>> import asyncsim as asim
        >>> taken_apart(compressed(asim.rules.downpour(0.1), asim.compressors.Natural())).rule
        downpour(learning_rate=0.1)
    """
    made = rule.seal
    if not isinstance(made, Compressing):
        return None
    inner = dataclasses.replace(made.rule, hyper=rule.hyper)
    inner = inner.sealed() if constructor_of(made.rule) is not None else inner
    again = _wrapped(inner, made.compressor, made.error_feedback, made.path)
    return Compression(inner, made.compressor, made.error_feedback) if again == rule else None


def message_bytes(rule: Rule, params: Params) -> int:
    """Bytes of the update that a commit carries: the compressor's, or those of all parameters.

    Args:
        rule: Any rule.
        params: Parameters, or their shapes and dtypes (`jax.ShapeDtypeStruct`).

    Example:
        >>> import asyncsim as asim
        >>> plain, params = asim.rules.downpour(0.1), jax.ShapeDtypeStruct((1000,), "float32")
        >>> signs = asim.rules.compressed(plain, asim.compressors.ScaledSign())
        >>> asim.rules.message_bytes(plain, params), asim.rules.message_bytes(signs, params)
        (4000, 129)
    """
    found = taken_apart(rule)
    return bytes_of(params) if found is None else found.compressor.bytes(params)


def part_of(message: Any, path: Path) -> Any:
    """What lies in a message at the end of a path.

    Example:
        >>> part_of({"update": 1, "count": 2}, ("update",))
        1
    """
    for step in path:
        message = message[step]
    return message


def with_part(message: Any, path: Path, part: Any) -> Any:
    """The message with something else at the end of a path.

    Example:
        >>> with_part({"update": 1, "count": 2}, ("update",), 3)
        {'update': 3, 'count': 2}
    """
    if not path:
        return part
    step, *rest = path
    changed = with_part(message[step], tuple(rest), part)
    if isinstance(message, dict):
        return {**message, step: changed}
    parts = [*message[:step], changed, *message[step + 1 :]]
    return type(message)(*parts) if hasattr(message, "_fields") else type(message)(parts)


def _wrapped(rule: Rule, compressor: Compressor, error_feedback: bool, path: Path | None) -> Rule:
    bare = dataclasses.replace(rule, hyper={})
    what = (bare.sealed() if constructor_of(rule) is not None else bare, compressor, error_feedback, path)
    made = dataclasses.replace(
        rule,
        name=f"{rule.name}{SUFFIX}",
        options=(*rule.options, ("compressor", compressor), ("error_feedback", error_feedback)),
        seal=Compressing(*what),
    )
    if isinstance(compressor, Identity):  # the rule's own program, which only remembers how it was made
        return made
    return dataclasses.replace(
        made,
        send=SendCompressed(*what),
        start=StartCompressed(*what),
        resume=ResumeCompressed(*what),
        local_step=None if rule.local_step is None else StepCompressed(*what),
        elementwise=rule.elementwise and compressor.whole,
        draws=rule.draws or compressor.draws,
    )


def _check(rule: Any, compressor: Any, error_feedback: Any) -> None:
    if not isinstance(rule, Rule):
        raise ValueError(f"`rule` must be an asyncsim.Rule; got {rule!r:.60}. Give rules.downpour(0.1), for one.")
    if not isinstance(compressor, Compressor):
        raise ValueError(
            f"`compressor` must be one of asyncsim.compressors; got {compressor!r:.60}. Give compressors.TopK(0.01), "
            "for one."
        )
    if not isinstance(error_feedback, bool):
        raise ValueError(f"`error_feedback` must be True or False; got {error_feedback!r}. True is usual.")
    if isinstance(rule.seal, Compressing):
        raise ValueError(f"`rule` must not be compressed already; got {rule.name!r}. Give the rule that it wraps.")
    send: Send = rule.send
    while isinstance(send, SendBeside):
        send = send.send
    if (why := NO_UPDATE.get(type(send))) is not None:
        raise ValueError(f"`rule` must send an update; {rule.name!r} {why}. Compress downpour with a window, say.")


@lru_cache(maxsize=256)
def _path_to_update(structure: Structure) -> Path:
    """Where the one update lies in the message of a rule of the library, and of all rules of its structure.

    Raises:
        ValueError: If there is none, or more than one.
    """
    rule = structure.rule
    params = {name: jax.ShapeDtypeStruct(shape, jnp.result_type(float)) for name, shape in PATTERN.items()}
    message = jax.eval_shape(lambda params: _message(_bound(rule), params), params)
    return _only_path(rule, message, params)


def _only_path(rule: Rule, message: Any, params: Params) -> Path:
    """Where a message holds the one update, which looks like the parameters.

    Raises:
        ValueError: If there is none, or more than one.
    """
    paths = list(_paths(message, params))
    if len(paths) != 1:
        several = "no update" if not paths else f"{len(paths)} updates, which belong together"
        raise ValueError(
            f"`rule` must send one update; a message of {rule.name!r} has {several}. Choose a variant of it that sends "
            "one, or another rule."
        )
    return paths[0]


def _bound(rule: Rule) -> Rule:
    """The rule with some number of workers, and one value of every hyper-parameter."""
    hyper = {name: np.ravel(value)[0].item() for name, value in rule.hyper.items()}
    workers = hyper.get("workers", hyper.get("concurrency", WORKERS))
    return dataclasses.replace(rule, hyper=hyper).for_workers(int(workers))


def _message(rule: Rule, params: Params) -> Any:
    state, server = rule.start(rule.hyper, params), rule.start_server(rule.hyper, params)
    view = View(read=params, pulled=params, staleness=jnp.int32(0), server=server, key=jax.random.key(0))
    return rule.send(rule.hyper, params, state, view).message


def _paths(message: Any, params: Params) -> Iterator[Path]:
    """Paths to everything in a message that has the structure and the shapes of the parameters."""
    if jax.tree.structure(message) == jax.tree.structure(params):
        if all(a.shape == b.shape for a, b in zip(jax.tree.leaves(message), jax.tree.leaves(params), strict=True)):
            yield ()
        return
    parts = message.items() if isinstance(message, dict) else enumerate(message) if isinstance(message, tuple) else ()
    for step, part in parts:
        yield from ((step, *path) for path in _paths(part, params))
