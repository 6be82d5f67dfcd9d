"""Parameters that a log identifies without error: those of a constant, which every duration equals."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from asyncsim.calibration._model import Model
from asyncsim.calibration._terms import Term, laws_of
from asyncsim.calibration._transforms import FloatArray
from asyncsim.cluster import Cluster
from asyncsim.delays._per_worker import expand

ALIKE = 1e-6  # relative spread of durations that differ by rounding only
BASES = 6  # clusters of the prior, from which the dependences of a law are found
SHARES = (0.2, 0.5, 0.8)  # of the prior, to which a parameter is moved
GRID = 65  # values of a parameter, between which a constant has the right one


class Constant(NamedTuple):
    """Durations of one worker that are all the same."""

    term: str  # name of the term
    worker: int  # whose
    value: float  # seconds
    error: float  # how exactly they are known


def is_constant(law: Any) -> bool:
    """Whether all delays of a law are the same."""
    return getattr(law, "variance", None) == 0


def take_constants(
    terms: tuple[Term, ...], clusters: Sequence[Cluster], rounding: float
) -> tuple[list[Constant], list[Term]]:
    """The durations of which the law is a constant, and the terms without them."""
    found, rest = [], []
    for term in terms:
        laws = [expand(laws_of(term.name, cluster)[0], cluster.workers) for cluster in clusters]
        fixed = {w for w in range(clusters[0].workers) if all(is_constant(one[w]) for one in laws)}
        found += [_constant(term, w, laws[0][w], rounding) for w in sorted(fixed) if len(term.durations[w])]
        kept = [[() if w in fixed else part[w] for w in range(len(part))] for part in (term.durations, term.censored)]
        columns = [tuple(np.asarray(one, np.float64) for one in part) for part in kept]
        if any(map(len, columns[0])):
            rest.append(Term(term.name, *columns))
    return found, rest


def _constant(term: Term, worker: int, law: Any, rounding: float) -> Constant:
    mine = term.durations[worker]
    value, spread = float(np.median(mine)), float(mine.max() - mine.min())
    error = rounding + ALIKE * value
    if spread > error:
        remedy = 'Give it a law with spread, say `Gamma(mean, cv)`, or `method="npe"`.'
        raise ValueError(
            f"`model` cannot produce the log: {term.name} of worker {worker} took from {mine.min():.6g} to "
            f"{mine.max():.6g} s, and {type(law).__name__} is always the same. {remedy}"
        )
    return Constant(term.name, worker, value, error)


def clusters_of(model: Model, cycle: float) -> list[Cluster]:
    """The middle of the prior, and some other clusters of it."""
    rows = np.concatenate([np.full((1, len(model.names)), 0.5), _bases(model)])
    return [cluster for shares in rows if (cluster := _built(model, shares, cycle)) is not None]


def depends(model: Model, cycle: float, parts: Callable[[Cluster], Sequence[Any]], count: int) -> dict[str, list[bool]]:
    """Name -> whether each of some parts of a cluster depends on a parameter."""
    found = {name: [False] * count for name in model.names}
    for shares in _bases(model):
        base = _built(model, shares, cycle)
        for i, name in enumerate(model.names):
            for share in () if base is None else SHARES:
                moved = shares.copy()
                moved[i] = share
                other = _built(model, moved, cycle)
                if base is not None and other is not None:
                    pairs = zip(found[name], parts(base), parts(other), strict=True)
                    found[name] = [so or bool(one != two) for so, one, two in pairs]
    return found


def _bases(model: Model) -> FloatArray:
    return np.random.default_rng(0).random((BASES, len(model.names)))


def _built(model: Model, shares: FloatArray, cycle: float) -> Cluster | None:
    """The cluster below whose parameters these shares of the prior lie; None where `build` fails."""
    with suppress(ValueError):
        return model.cluster(model.at(shares, cycle))
    return None


def solve_constants(model: Model, constants: list[Constant], cycle: float) -> dict[str, float]:
    """Name -> value of the parameters that constants determine, one after another."""
    found: dict[str, float] = {}
    every = depends(model, cycle, lambda cluster: [_value(cluster, one) for one in constants], len(constants))
    on = [{name for name in model.names if every[name][i]} for i in range(len(constants))]
    left = list(range(len(constants)))
    while left:
        i = min(left, key=lambda k: len(on[k] - found.keys()))
        one, unknown = constants[i], sorted(on[i] - found.keys())
        if len(unknown) > 1:
            several = " and ".join(unknown)
            raise ValueError(
                f"`model` makes the constant of {one.term} of several parameters, {several}, which one number does not "
                'identify. Give it one of its own, or `method="npe"`.'
            )
        if unknown:
            found[unknown[0]] = _solved(model, one, unknown[0], found, cycle)
        left.remove(i)
    _require_all(model, constants, found, cycle)
    return found


def _value(cluster: Cluster, one: Constant) -> float:
    laws, shift = laws_of(one.term, cluster)
    return float(expand(laws, cluster.workers)[one.worker].mean) + shift


def _middle(model: Model, known: Mapping[str, float], cycle: float) -> dict[str, float]:
    values = model.at(np.full(len(model.names), 0.5), cycle)
    return {**dict(zip(model.names, values.tolist(), strict=True)), **known}


def _solved(model: Model, one: Constant, name: str, known: Mapping[str, float], cycle: float) -> float:
    """The value of a parameter with which a constant has its value."""
    from scipy.optimize import brentq

    along, others = model.axis(name, cycle), _middle(model, known, cycle)

    def away(x: float) -> float:
        return _value(model.cluster(list({**others, name: along.back(x)}.values())), one) - one.value

    places = np.linspace(along.low, along.high, GRID)
    heights = np.array([away(x) for x in places])
    exact = int(np.abs(heights).argmin())
    change = np.flatnonzero(heights[:-1] * heights[1:] < 0)
    if len(change):
        at = int(change[0])
        root: Any = brentq(away, places[at], places[at + 1], xtol=1e-15)
        return along.back(root)
    if abs(heights[exact]) <= one.error:
        return along.back(places[exact])
    ends = sorted((heights[0] + one.value, heights[-1] + one.value))
    raise ValueError(
        f"`prior` of {name!r} excludes the log: {one.term} takes {one.value:.6g} s, and the prior gives from "
        f"{ends[0]:.4g} to {ends[1]:.4g} s. Widen it."
    )


def _require_all(model: Model, constants: list[Constant], found: Mapping[str, float], cycle: float) -> None:
    cluster = model.cluster(list(_middle(model, found, cycle).values()))
    for one in constants:
        value = _value(cluster, one)
        if abs(value - one.value) > 2 * one.error:
            remedy = 'Give it a law with spread or a parameter of its own, or `method="npe"`.'
            raise ValueError(
                f"`model` cannot produce the log: {one.term} of worker {one.worker} takes {one.value:.6g} s, and the "
                f"constant is {value:.6g} s there. {remedy}"
            )
