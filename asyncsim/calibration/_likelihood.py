"""The exact likelihood of a log's durations under the clusters of a model, and the fit of highest likelihood."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from asyncsim._checks import brief
from asyncsim.calibration._goodness import law_checks, unequal_workers
from asyncsim.calibration._laws import LIKELIHOOD, NOT_OBSERVED
from asyncsim.calibration._maximum import IMPOSSIBLE, Maximum, NoInteriorMaximum, Shape, at_bounds, maximise, shape_of
from asyncsim.calibration._model import Clusters, Evidence, Model, Parameter, require_model
from asyncsim.calibration._stages import Stages, evaluate_laws
from asyncsim.calibration._statistics import COLUMNS, CONSTANT, ROUNDING, Check, recorded_columns
from asyncsim.calibration._terms import (
    Terms,
    find_dependences,
    is_constant,
    laws_of,
    measure_durations,
    pieces,
    solve_constants,
    split_constants,
)
from asyncsim.calibration._transforms import HALF, LEVEL, NORMAL, FloatArray, Frame
from asyncsim.cluster import Cluster
from asyncsim.delays._law import log_outlasted
from asyncsim.delays._per_worker import expand
from asyncsim.trace import Trace
from asyncsim.trace._columns import list_workers

CANDIDATES = 256  # clusters of the prior, among which the search begins
STARTS = 4  # of these, from which it is maximised
DRAWS = 1000
FINE_DRAWS = 20_000  # by which intervals are read where errors are not normal
FLAT_SD = 0.32  # of a uniform prior, in widths of its middle 90 %
OTHER_PEAK = 2.0  # of the log-likelihood: a note names another maximum that is lower by less
SEPARATION = 5.0  # standard errors, from which two maxima are not one
MISFIT = 0.01  # p-value below which a law does not fit
NO_CLUSTER = 1e6 * IMPOSSIBLE  # a cluster that `build` cannot make
BY_SIMULATION = 'Give `method="npe"`, which needs no density.'
LOG_MORE = {
    "compute": ("start_time", "finish_time"),
    "latency": ("start_time", "arrive_time"),
    "service": ("arrive_time", "serve_time"),
}


class Peak(NamedTuple):
    """The maximum and the likelihood around it."""

    frame: Frame  # coordinates in which errors are nearly normal
    shape: Shape  # the log-likelihood there
    others: tuple[dict[str, float], ...]  # values at another maximum that is nearly as high
    failed: int  # number of clusters of the prior that `build` cannot make, among those that were tried


def fit_by_likelihood(
    log: Trace, used: Trace, stages: Stages, model: Model, seed: int
) -> tuple[Clusters, list[str], Evidence]:
    """Fit a model by the likelihood of the durations that a log shows (see `calibrate`), with notes."""
    cycle = log.workers * log.seconds / len(log)
    require_model(log, model)
    typical = model.middle(cycle)
    _require_independent(typical)
    durations, missing = measure_durations(log, typical, stages.compute)
    if not durations:
        raise ValueError(
            f"`log` shows no durations of {' or '.join(missing)} by themselves, which the likelihood is of. "
            f"{_to_record(missing)}"
        )
    constants, terms = split_constants(durations, model, cycle, ROUNDING * log.seconds, log.names)
    _require_densities(terms, typical)
    fixed = solve_constants(model, constants, cycle, log.names)
    affected = find_dependences(model, cycle, lambda cluster: [laws_of(name, cluster) for name in terms])
    free = [name for name in model.names if name not in fixed and affected[name]]
    unobserved = [name for name in model.names if name not in fixed and name not in free]
    if not fixed and not free:
        raise ValueError(
            "`model` has no parameter that affects the stages that the log shows "
            f"({', '.join(durations)}). {BY_SIMULATION}"
        )
    low, middle, high = (model.values_at(share, cycle) for share in ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2))
    others = {name: middle[name] for name in unobserved} | fixed
    peak = _find_peak(model, terms, free, others, cycle, seed, log.names)
    generator = np.random.default_rng([seed, 8])
    values = peak.frame.values(peak.shape.at)
    draws = _draws(model, values, peak, unobserved, cycle, generator)
    of_prior = {name: (low[name], high[name]) for name in unobserved}
    of_constants = {name: (at - CONSTANT * abs(at), at + CONSTANT * abs(at)) for name, at in fixed.items()}
    ends = of_prior | of_constants | _intervals(peak, generator)
    widths = _widths(model, ends, peak, cycle)
    methods = {name: NOT_OBSERVED if name in unobserved else LIKELIHOOD for name in model.names}
    parameters = {
        name: Parameter(values[name], *ends[name], methods[name], widths[name] <= HALF) for name in model.names
    }
    fitted = model.cluster(values.values())
    laws = _laws(model, terms, peak, fitted, seed)
    about_prior = (
        f"Nothing that the log shows depends on {', '.join(unobserved)}: estimates are the middle of the prior, "
        "samples are drawn from it."
    )
    notes = [
        *(note for note in stages.notes if not note.startswith("The log lacks")),
        *(
            f"The log shows no {name} by itself: it is no part of the likelihood. {_to_record([name])}"
            for name in missing
        ),
        *[about_prior] * bool(unobserved),
        *_notes(model, terms, peak, fitted, laws),
    ]
    evidence = Evidence({f"law of {name}": check for name, check in laws.items()}, widths)
    return Clusters.of(model, parameters, draws, recorded_columns(used)), notes, evidence


def log_likelihood(terms: Terms, cluster: Cluster) -> float:
    """Compute Σ log f(duration) + Σ log P(delay > censored) over all workers and stages, each by its own law."""
    logarithms = [
        log_probability(law, times)
        for name, stage in terms.items()
        for law, part in pieces(name, stage, cluster)
        for log_probability, times in ((_density, part.durations), (log_outlasted, part.censored))
        if len(times)
    ]
    impossible = sum(int((~np.isfinite(values)).sum()) for values in logarithms)
    total = -math.inf if impossible else sum((float(values.sum()) for values in logarithms), 0.0)
    return total if math.isfinite(total) else IMPOSSIBLE * (1 + impossible)


def _density(law: Any, durations: FloatArray) -> FloatArray:
    """Compute the logarithm of the density, which is 0 for a law without one."""
    return law.log_density(durations) if hasattr(law, "log_density") else np.full(len(durations), -np.inf)


def _find_peak(
    model: Model,
    terms: Terms,
    free: Sequence[str],
    others: Mapping[str, float],
    cycle: float,
    seed: int,
    names: Sequence[str],
) -> Peak:
    """Maximise from the best of many clusters of the prior."""
    if not free:
        nothing = Shape(np.zeros(0), np.zeros(0), np.zeros((0, 0)), ())
        return Peak(Frame((), model.names, others), nothing, (), 0)
    # The search is in probabilities, because their logits are infinite at the ends, where the maximum may be.
    bounded = [name for name in model.names if model.is_probability(name)]
    search = Frame([model.axis(name, cycle, bounded) for name in free], model.names, others)
    value = _value(model, terms, search)
    shares = np.random.default_rng([seed, 6]).random((CANDIDATES, len(model.names)))
    shares[0] = 0.5
    starts = [search.to(dict(zip(model.names, row, strict=True))) for row in model.at(shares, cycle)]
    heights = np.array([value(x) for x in starts])
    best = np.argsort(-heights)[:STARTS]
    with np.errstate(all="ignore"):
        maxima = [maximise(value, starts[i], search.low, search.high) for i in best]
        highest = max(maxima, key=lambda peak: peak.height)
        if highest.height <= IMPOSSIBLE:
            raise ValueError(_why_impossible(model, terms, search.values(highest.at), names))
        try:
            maximum = at_bounds(value, highest, search.low, search.high)
        except NoInteriorMaximum as error:
            name = search.axes[error.place].name
            raise ValueError(
                f"`model` has its highest likelihood at {name}={search.values(highest.at)[name]:.4g}, where a change "
                "either way makes the log impossible. Give each end of a law a parameter of its own, or "
                '`method="npe"`.'
            ) from error
        natural = [free[bound.place] for bound in maximum.active]
        frame = Frame([model.axis(name, cycle, natural) for name in free], model.names, others)
        moved = maximum._replace(at=np.clip(frame.to(search.values(maximum.at)), frame.low, frame.high))
        scale = np.full(len(free), 0.1 / math.sqrt(sum(len(stage.durations) for stage in terms.values())))
        shape = shape_of(_value(model, terms, frame), moved, scale, FLAT_SD**-2, frame.low, frame.high)
    rivals = _others(search, frame, shape, maximum, maxima)
    return Peak(frame, shape, rivals, int((heights == NO_CLUSTER).sum()))


def _value(model: Model, terms: Terms, frame: Frame) -> Any:
    """Return the log-likelihood as a function of coordinates."""
    workers = model.workers

    def value(x: FloatArray) -> float:
        try:
            cluster = model.cluster(frame.values(x).values())
        except ValueError:  # Only `build` knows where it fails.
            return NO_CLUSTER
        return log_likelihood(terms, cluster) if cluster.workers == workers else NO_CLUSTER

    return value


def _others(
    search: Frame, frame: Frame, shape: Shape, maximum: Maximum, maxima: Sequence[Maximum]
) -> tuple[dict[str, float], ...]:
    """Find another maximum that is nearly as high, and far away in parameters that the log identifies."""
    error = np.full(len(shape.at), np.inf)
    error[shape.inner] = np.sqrt(np.diag(shape.covariance))
    error[error > HALF * FLAT_SD] = np.inf
    for other in sorted(maxima, key=lambda peak: -peak.height):
        values = search.values(other.at)
        distance = np.abs(frame.to(values) - shape.at) / error
        if other.height > maximum.height - OTHER_PEAK and (distance > SEPARATION).any():
            return (values,)
    return ()


def _draws(
    model: Model, values: Mapping[str, float], peak: Peak, unobserved: Sequence[str], cycle: float, generator: Any
) -> FloatArray:
    """Draw (DRAWS, p) values: of the normal approximation, and of the prior where the log shows nothing."""
    of_prior = dict(zip(model.names, model.at(generator.random((DRAWS, len(model.names))), cycle).T, strict=True))
    drawn = peak.shape.draw(generator, DRAWS, peak.frame.low, peak.frame.high)
    fixed = {name: of_prior[name] if name in unobserved else np.full(DRAWS, values[name]) for name in model.names}
    free = {axis.name: axis.back(x) for axis, x in zip(peak.frame.axes, drawn.T, strict=True)}
    return np.stack(list((fixed | free).values()), axis=1)


def _intervals(peak: Peak, generator: np.random.Generator) -> dict[str, tuple[float, float]]:
    """Compute 90 % intervals by name: normal ones, or of draws where a coordinate is at an active bound."""
    shape, frame = peak.shape, peak.frame
    active = {bound.place: bound.side for bound in shape.active}
    if not active:
        half = NORMAL * np.sqrt(np.diag(shape.covariance))
        return {
            axis.name: (axis.back(x - h), axis.back(x + h))
            for axis, x, h in zip(frame.axes, shape.at, half, strict=True)
        }
    drawn = shape.draw(generator, FINE_DRAWS, frame.low, frame.high)
    intervals = {}
    for place, axis in enumerate(frame.axes):
        side = active.get(place, 0)
        shares = {0: ((1 - LEVEL) / 2, (1 + LEVEL) / 2), 1: (1 - LEVEL, 1.0), -1: (0.0, LEVEL)}[side]
        low, high = np.quantile(drawn[:, place], shares).tolist()
        ends = (low if side >= 0 else shape.at[place], high if side <= 0 else shape.at[place])
        intervals[axis.name] = (axis.back(ends[0]), axis.back(ends[1]))
    return intervals


def _widths(model: Model, ends: Mapping[str, tuple[float, float]], peak: Peak, cycle: float) -> dict[str, float]:
    """Compute, by name, the width of the interval over that of the middle 90 % of the prior.

    Normal intervals count as if the prior had no ends.
    """
    axes = {name: model.axis(name, cycle) for name in model.names} | {axis.name: axis for axis in peak.frame.axes}
    widths = {name: float(axes[name].to(high) - axes[name].to(low)) for name, (low, high) in ends.items()}
    normal = 2 * NORMAL * np.sqrt(np.diag(peak.shape.covariance))
    for place, width in zip(peak.shape.inner, normal.tolist(), strict=True):
        name = peak.frame.axes[place].name
        widths[name] = max(widths[name], width)
    return widths


def _laws(model: Model, terms: Terms, peak: Peak, fitted: Cluster, seed: int) -> dict[str, Check]:
    """Measure the distance of each stage from its law, given that the parameters at no active bound were fitted."""
    shape, inner = peak.shape, peak.shape.inner
    scores = [np.zeros((len(stage.durations), len(inner))) for stage in terms.values()]
    for column, (place, step) in enumerate(zip(inner, np.sqrt(np.diag(shape.covariance)) * 0.1, strict=True)):
        ends = []
        for side in (1, -1):
            at = shape.at.copy()
            at[place] += side * step
            cluster = model.cluster(peak.frame.values(at).values())
            ends.append(
                [evaluate_laws(stage, pieces(name, stage, cluster), "log_density") for name, stage in terms.items()]
            )
        for score, high, low in zip(scores, *ends, strict=True):
            slope = (high - low) / (2 * step)
            score[:, column] = np.where(np.isfinite(slope), slope, 0.0)
    return law_checks(terms, fitted, scores, shape.covariance, seed)


def _require_independent(cluster: Cluster) -> None:
    """Refuse clusters whose durations depend on each other or on time."""
    if cluster.faults:
        kind = type(cluster.faults[0]).__name__
        raise ValueError(f"`model` has faults ({kind}), which change durations. Leave them out, or {BY_SIMULATION}")
    network = cluster.network
    if network.shared and (network.download_seconds or network.upload_seconds):
        raise ValueError(f"`model` has a shared link, on which messages wait for each other. {BY_SIMULATION}")
    if network.collective != "none":
        raise ValueError(f"`model` has a ring, in which all wait for the slowest worker. {BY_SIMULATION}")
    for name in ("bandwidth", "upload_bandwidth"):
        if isinstance(getattr(network, name), tuple):
            raise ValueError(
                f"`model` has a `{name}` for each worker, of which no likelihood is known. {BY_SIMULATION}"
            )
    for law in cluster.laws:
        if not hasattr(law, "cdf"):
            raise ValueError(
                f"`model` computes by {brief(law)}: durations that depend on when a job starts. {BY_SIMULATION}"
            )


def _to_record(missing: Sequence[str]) -> str:
    """Advise to record the columns that show these stages, unless nothing takes time between them."""
    names = {column for name in missing for column in LOG_MORE[name]}
    *first, last = [f"`{name}`" for name in COLUMNS if name in names]
    parts = " and ".join(name for name in missing if name != "compute")
    without = f" (where they are recorded and equal, leave {parts} out of `model`)" if parts else ""
    return f'Record {", ".join(first)} and {last}{without}, or give `method="npe"`.'


def _require_densities(terms: Terms, cluster: Cluster) -> None:
    """Refuse laws that have neither a density nor one constant value."""
    for name in terms:
        laws: Any = expand(laws_of(name, cluster)[0], cluster.workers)
        for law in {id(law): law for law in laws if not is_constant(law)}.values():
            try:
                law.log_density(np.array([law.mean]))
            # A law of the user's may have the method, and have no density.
            except (AttributeError, TypeError, NotImplementedError, ValueError) as error:
                raise ValueError(
                    f"`model` gives {name} a law without density, {brief(law)}. Give its parts laws with spread, "
                    'or `method="npe"`.'
                ) from error


def _why_impossible(model: Model, terms: Terms, values: Mapping[str, float], names: Sequence[str]) -> str:
    """Explain which duration, of which worker, no cluster of the prior can produce."""
    try:
        cluster = model.cluster(values.values())
    except ValueError as error:
        return f"`build` fails at every cluster of the prior that was tried: {error}"
    for name, stage in terms.items():
        for law, part in pieces(name, stage, cluster):
            impossible = ~np.isfinite(_density(law, part.durations))
            if impossible.any():
                worker, value = part.worker[impossible][0], float(part.durations[impossible][0])
                of_zero = "Leave such jobs out, or give a law that can, say `Exponential`."
                remedy = "Widen the prior, or give another law." if value else of_zero
                return (
                    f"`model` cannot produce the log: {name} of {list_workers(names, [worker])} took {value:.6g} s, "
                    f"impossible with {brief(law)} and with every other cluster of the prior that was tried. {remedy}"
                )
    return "`model` cannot produce the log. Widen the prior, or give other laws."


def _notes(model: Model, terms: Terms, peak: Peak, fitted: Cluster, laws: Mapping[str, Check]) -> list[str]:
    """Write sentences about maxima at an end of the prior, laws and workers that do not fit, and the search."""
    notes = []
    for bound in peak.shape.active:
        if bound.of_range:
            name = peak.frame.axes[bound.place].name
            prior, end = model.prior[name], "greatest" if bound.side > 0 else "least"
            value = prior.high if bound.side > 0 else prior.low
            remedy = "" if model.is_probability(name) and value in (0, 1) else ": widen it, if there may be others"
            notes.append(f"The likelihood is highest at the {end} value of the prior of {name}, {value:g}{remedy}.")
    notes += [
        f"The model's law does not fit {name}: its distance from the log has a p-value of {check.p_value:.1g}."
        for name, check in laws.items()
        if check.p_value < MISFIT
    ]
    for name, stage in terms.items():
        p_value = unequal_workers(name, stage, fitted) if name != "service" else 1.0
        if p_value < MISFIT / 10:
            notes.append(
                f"Workers differ in {name} from the model (p-value {p_value:.1g}): give them laws of their own."
            )
    if peak.failed:
        notes.append(
            f"`build` fails at {peak.failed} of {CANDIDATES} clusters drawn from the prior, which were left out: "
            "narrow the prior to possible values."
        )
    for other in peak.others:
        values = ", ".join(f"{axis.name}={other[axis.name]:.4g}" for axis in peak.frame.axes)
        notes.append(
            f"The likelihood has another maximum, nearly as high, at {values}: intervals are of the highest alone."
        )
    return notes
