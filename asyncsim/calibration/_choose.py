"""Choose a law for all workers, for two classes of them, or for each: maximum likelihood, Akaike's criterion, tests.

The law of least AIC is the one that happened to suit these very durations. Intervals that take it for granted are too
narrow. For example, of 300 logs of gamma laws, those of the cv held the truth in 81 to 85 % instead of 90 %. So mean
and cv, which all families have, are drawn from each family as often as its Akaike weight says.

One law for all workers is compared with one law per worker by AIC, each side in the family that suits it best, because
a law with stragglers takes twenty durations and may therefore fit all workers together and none of them alone. If one
law per worker is better, a likelihood ratio within its family gives the significance. If it is not, workers may still
differ in scale, so a rank test (Kruskal and Wallis) decides, whatever the family. Two classes are compared with one law
per worker likewise. If neither is accepted, AIC decides.

A mixture whose components are nearly alike is the law that it contains with two arguments that are not identifiable. It
is chosen only where a likelihood ratio says that it is more than that, and otherwise is one of the alternatives.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import require_one_of
from asyncsim.calibration._maximum import raised
from asyncsim.calibration._stages import Stage, of_laws
from asyncsim.calibration._statistics import CONSTANT, Check
from asyncsim.calibration._transforms import FAMILIES, FIXED, LEAST, MOST, FloatArray, degrees, law_of, values_of
from asyncsim.delays import Delay, log_likelihood, scaled
from asyncsim.delays._law import log_outlasted

LEAST_INFORMATION = 0.04  # per coordinate: a standard error of 5 in a logarithm says that nothing is known
STEP = 0.05  # of a finite difference, in rough standard errors
MOST_STEP = 0.02
SLOPE_STEP = 1e-4  # of a coordinate, for derivatives of mean and cv
EXTREME = 30.0  # a coordinate beyond it is at a bound, as that of a probability of 0
LEAST_WEIGHT = 0.005  # below it a family moves no end of a 90 % interval
DRAWS = 2000  # from which intervals are read: their ends move by 3 % of a standard error
LAWS = tuple(name for name in FAMILIES if name not in ("constant", "erlang"))  # those that are compared
SIGNIFICANT = 0.01  # p-value below which workers differ
LEAST_PER_WORKER = 10  # durations of a worker whose own law is fitted
CONTAINED = {"straggler": "gamma", "hyperexponential": "exponential"}  # mixtures: the law of each if nothing is slow
TRIED = 3  # laws, the best for all workers together, that are also tried worker by worker
ALWAYS_TRIED = ("gamma", "lognormal")  # often hidden in a mixture of unequal workers
Workers = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Estimate:
    """One law of one stage, fitted to some jobs."""

    family: str  # its name in `FAMILIES`
    values: tuple[float, ...]  # its arguments, in the order of the family
    covariance: FloatArray  # (k, k) of the estimated coordinates, from the observed information
    jobs: int  # how many durations it was fitted to
    log_likelihood: float  # of the durations, censored ones included

    @cached_property
    def law(self) -> Delay:
        """The law itself."""
        return law_of(self.family, self.values)

    @property
    def aic(self) -> float:
        """Akaike's criterion, 2 k - 2 log L, with k as `degrees` counts it."""
        return 2 * degrees(self.family) - 2 * self.log_likelihood

    def draw(self, generator: np.random.Generator, count: int) -> list[Delay]:
        """Laws that the durations speak for as well: arguments drawn from the approximation of their likelihood."""
        family = FAMILIES[self.family]
        moved = self._moved(generator, count)
        away = generator.exponential(size=(count, len(family.kinds))) / (self.jobs * family.edge(self.law))
        values, normal = np.tile(np.array(self.values, np.float64), (count, 1)), iter(moved.T)
        for i, (kind, value) in enumerate(zip(family.kinds, self.values, strict=True)):
            if kind is LEAST:
                values[:, i] = np.maximum(value - away[:, i], value / 2 if self.family == "pareto" else 0.0)
            elif kind is MOST:
                values[:, i] += away[:, i]
            elif kind is not FIXED:
                values[:, i] = kind.back(np.minimum(kind.to(value) + next(normal), EXTREME))
        laws = [_admissible(self.family, row, self.law) for row in values.tolist()]
        if not self._has_derived_moments:
            return laws
        means = self._log_linear(moved)[:, 0].tolist()
        return [scaled(law, mean / law.mean) for law, mean in zip(laws, means, strict=True)]

    def draw_moments(self, generator: np.random.Generator, count: int) -> FloatArray:
        """(count, 2) means and cvs of such laws, those of mixtures by the delta method."""
        if self._has_derived_moments:
            return self._log_linear(self._moved(generator, count))
        return np.array([moments(law) for law in self.draw(generator, count)])

    @property
    def _has_derived_moments(self) -> bool:
        """Whether the mean is no argument, but follows from arguments with normal errors."""
        return "mean" not in FAMILIES[self.family].names and LEAST not in FAMILIES[self.family].kinds

    def _moved(self, generator: np.random.Generator, count: int) -> FloatArray:
        """(count, k) normal errors of the coordinates."""
        if not len(self.covariance):
            return np.zeros((count, 0))
        return generator.multivariate_normal(np.zeros(len(self.covariance)), self.covariance, count, method="eigh")

    def _slopes(self, of: Callable[[Any], Any]) -> FloatArray:
        """(k, …) derivatives of a function of the law by each coordinate with a normal error."""
        kinds, slopes = FAMILIES[self.family].kinds, []
        for i in _regular(self.family):
            here, ends = kinds[i].to(self.values[i]), []
            for side in (-1, 1):
                values = [*self.values[:i], kinds[i].back(here + side * SLOPE_STEP), *self.values[i + 1 :]]
                ends.append(of(_admissible(self.family, values, self.law)))
            slopes.append((ends[1] - ends[0]) / (2 * SLOPE_STEP))
        return np.array(slopes)

    def _log_linear(self, moved: FloatArray) -> FloatArray:
        """(count, 2) means and cvs, of which the logarithms are linear in the coordinates."""
        slopes = self._slopes(lambda law: np.log(moments(law)))
        return np.asarray(np.exp(np.log(moments(self.law)) + moved @ slopes), np.float64)

    def scores(self, durations: FloatArray) -> FloatArray:
        """(jobs, k) derivatives of each log-density by the coordinates with normal errors, or 0 where it has none."""
        with np.errstate(all="ignore"):
            slopes = self._slopes(lambda law: law.log_density(durations)).reshape(-1, len(durations))
        return np.where(np.isfinite(slopes), slopes, 0.0).T


def moments(law: Delay) -> tuple[float, float]:
    """Mean and cv."""
    return law.mean, math.sqrt(law.variance) / law.mean if law.mean else 0.0


def observed_moments(durations: FloatArray, censored: FloatArray) -> FloatArray:
    """(2, 2) mean and cv of durations that no law is assumed of, each with its standard error.

    Censored durations give their weight to longer ones (Kaplan and Meier). Errors are those of influence functions.
    """
    values, ended = np.append(durations, censored), np.append(np.ones(len(durations)), np.zeros(len(censored)))
    order = np.lexsort((-ended, values))
    values, ended = values[order], ended[order]
    left = np.arange(len(values), 0, -1)
    weight = ended / left * np.cumprod(np.append(1.0, (1 - ended / left)[:-1]))
    weight /= weight.sum()
    mean = float(weight @ values)
    sd = math.sqrt(float(weight @ (values - mean) ** 2))
    away, cv = (values - mean) / (sd or 1.0), sd / mean
    influences = np.stack([sd * away, cv * (away**2 - 1) / 2 - cv**2 * away])
    return np.stack([[mean, cv], np.sqrt(influences**2 @ weight / len(durations))], axis=1)


def estimate(family: str, durations: FloatArray, censored: Sequence[float] | FloatArray = ()) -> Estimate:
    """A law fitted by maximum likelihood, with the covariance of its coordinates."""
    censored = np.asarray(censored, np.float64)
    law = FAMILIES[family].law.fit(durations, censored)
    values = values_of(family, law)
    if family == "constant":
        return Estimate(family, tuple(values), np.zeros((0, 0)), len(durations), math.inf)
    covariance = np.asarray(np.linalg.inv(_information(family, values, durations, censored)), np.float64)
    likelihood = log_likelihood(law, durations, censored)
    if math.isnan(likelihood):
        raise ValueError(f"`law` {family!r} cannot produce these durations.")
    return Estimate(family, tuple(values), covariance, len(durations), likelihood)


def _regular(family: str) -> list[int]:
    """Places of the arguments whose errors are normal in their coordinates."""
    kinds = FAMILIES[family].kinds
    return [i for i, kind in enumerate(kinds) if kind not in (LEAST, MOST, FIXED)]


def _information(family: str, values: list[float], durations: FloatArray, censored: FloatArray) -> FloatArray:
    """(k, k) second derivatives of -log L, in the coordinates with normal errors, by central differences."""
    kinds, regular, law = FAMILIES[family].kinds, _regular(family), law_of(family, values)
    centre = np.array([kinds[i].to(values[i]) for i in regular])
    step = min(STEP / math.sqrt(max(len(durations), 1)) * 5, MOST_STEP)

    def loss(x: FloatArray) -> float:
        moved = list(values)
        for place, i in enumerate(regular):
            moved[i] = kinds[i].back(float(x[place]))
        return -log_likelihood(_admissible(family, moved, law), durations, censored)

    with np.errstate(all="ignore"):
        found = hessian(loss, centre, step)
    return raised(np.where(np.isfinite(found), found, 0.0), LEAST_INFORMATION)


def hessian(value: Callable[[FloatArray], float], at: FloatArray, step: float) -> FloatArray:
    """(k, k) second derivatives by central differences."""
    unit, found = np.eye(len(at)) * step, np.zeros((len(at), len(at)))
    for i in range(len(at)):
        for j in range(i + 1):
            ends = [value(at + a * unit[i] + b * unit[j]) * a * b for a in (1, -1) for b in (1, -1)]
            found[i, j] = found[j, i] = sum(ends) / (4 * step * step)
    return found


def _admissible(family: str, values: Sequence[float], otherwise: Any) -> Any:
    """The law, or another where it refuses its arguments (a shape below its bound, far from the estimate)."""
    try:
        return law_of(family, values)
    except (ValueError, OverflowError, ZeroDivisionError):
        return otherwise


Fitted = Mapping[str, Sequence[Estimate]]  # family -> its laws, one for each group of workers


class Alternative(NamedTuple):
    """A family that may have made the durations."""

    weight: float  # Akaike's, from 0 to 1, and 1 over all alternatives
    estimates: tuple[Estimate, ...]  # its laws, one for each group of workers


def weights(aic: Mapping[str, float]) -> dict[str, float]:
    """Akaike weights, proportional to exp(-AIC / 2), of the families that have any."""
    least = min(aic.values(), default=0.0)
    odds = {name: math.exp((least - value) / 2) for name, value in aic.items()}
    kept = {name: value for name, value in odds.items() if value >= LEAST_WEIGHT * sum(odds.values())}
    return {name: value / sum(kept.values()) for name, value in kept.items()}


def alternatives(found: Fitted) -> tuple[Alternative, ...]:
    """Those of some families that were fitted."""
    aic = {name: sum(one.aic for one in laws) for name, laws in found.items()}
    shares = weights({name: value for name, value in aic.items() if math.isfinite(value)})
    return tuple(Alternative(weight, tuple(found[name])) for name, weight in shares.items())


class Group(NamedTuple):
    """Workers with one law."""

    label: str  # "" for all workers, "fast" and "slow" for classes, "[3]" for worker 3
    workers: Workers  # their numbers
    estimate: Estimate  # their law


class StageFit(NamedTuple):
    """One stage as it was fitted."""

    groups: tuple[Group, ...]  # workers with one law: all, two classes, or each worker
    aic: dict[str, float]  # family -> Akaike's criterion of one law for all workers, the smaller the better
    refused: dict[str, str]  # family -> the reason why it cannot produce the durations
    p_equal: float = math.nan  # p-value of one law for all against one per worker, or NaN if not tested
    p_classes: float = math.nan  # the same of two classes
    alternatives: tuple[Alternative, ...] = ()  # families that may have made the durations, none if the law was named
    contains: tuple[str, ...] = ()  # other stages that may be in the durations
    observed: FloatArray = np.zeros((0, 2, 2))  # (groups, 2, 2) mean and cv, with errors, of durations that may be sums
    law: Check | None = None  # distance of the durations from the law, or None for a constant
    quantiles: FloatArray = np.zeros((2, 0))  # (2, 199) of the durations and of the fitted laws, at the same shares

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """The law of each group of workers."""
        return tuple(group.estimate for group in self.groups)

    @property
    def families(self) -> list[str]:
        """Names of the laws' families."""
        return sorted({one.family for one in self.estimates})

    def draw(self, generator: np.random.Generator, count: int) -> list[list[Delay]]:
        """For each group, laws that its durations speak for as well, families as often as they weigh."""
        found = np.empty((len(self.groups), count), object)
        for places, estimates in self._shared_out(generator, count):
            for group, one in enumerate(estimates):
                for place, law in zip(places, one.draw(generator, len(places)), strict=True):
                    found[group, place] = law
        return found.tolist()

    def draw_moments(self, generator: np.random.Generator, count: int) -> FloatArray:
        """(groups, count, 2) means and cvs of such laws."""
        found = np.empty((len(self.groups), count, 2))
        for places, estimates in self._shared_out(generator, count):
            for group, one in enumerate(estimates):
                found[group, places] = one.draw_moments(generator, len(places))
        return found

    def _shared_out(
        self, generator: np.random.Generator, count: int
    ) -> list[tuple[NDArray[np.intp], tuple[Estimate, ...]]]:
        """The places of the draws that each family gets by its weight, and its laws."""
        if len(self.alternatives) < 2:
            return [(np.arange(count), self.estimates)]
        drawn = generator.choice(len(self.alternatives), count, p=[one.weight for one in self.alternatives])
        return [(np.flatnonzero(drawn == number), one.estimates) for number, one in enumerate(self.alternatives)]


def choose(stage: Stage, workers: int, law: str | None, *, by_worker: bool = True) -> StageFit:
    """Fit a stage."""
    everyone = tuple(range(workers))
    spread = float(stage.durations.max() - stage.durations.min())
    if law in (None, "constant") and spread <= CONSTANT * float(stage.durations.max()):
        value = np.full(len(stage.durations), np.median(stage.durations))
        return StageFit((Group("", everyone, estimate("constant", value)),), {}, {})
    refused: dict[str, str] = {}
    whole = _of_groups(stage, [everyone], LAWS if law is None else (law,), refused)
    if not whole:
        raise ValueError("; ".join(refused.values()))
    aic = {family: _aic(laws) for family, laws in whole.items()}
    best = _best(whole)

    def chosen(labels: Iterable[str], members: Iterable[Workers], laws: Fitted, **tests: Any) -> StageFit:
        groups = tuple(map(Group, labels, members, laws[_best(laws)]))
        return StageFit(groups, aic, refused, **tests, alternatives=alternatives(laws) if law is None else ())

    alone = chosen([""], [everyone], whole)
    counts = np.bincount(stage.worker, minlength=workers)
    if not by_worker or workers == 1 or counts.min() < LEAST_PER_WORKER:
        return alone
    tried = dict.fromkeys(sorted(aic, key=aic.__getitem__)[:TRIED] + [name for name in ALWAYS_TRIED if name in aic])
    singles = [(w,) for w in everyone]
    each = _of_groups(stage, singles, tried)
    if not each:
        return alone
    p_equal = _p_value(stage, [everyone], whole, each)
    if p_equal >= SIGNIFICANT:
        return alone._replace(p_equal=p_equal)
    members, classes = _classes(stage, workers, _best(each), whole) if workers > 2 else ((), {})
    p_classes = _p_value(stage, members, classes, each) if classes else math.nan
    least = min(aic[best], _aic(each[_best(each)]))
    if classes and (p_classes >= SIGNIFICANT or _aic(classes[_best(classes)]) <= least):
        return chosen(("fast", "slow"), members, classes, p_equal=p_equal, p_classes=p_classes)
    if aic[best] <= least:  # too few jobs for a finer model
        return alone._replace(p_equal=p_equal, p_classes=p_classes)
    return chosen([f"[{w}]" for w in everyone], singles, each, p_equal=p_equal, p_classes=p_classes)


def named_laws(law: Any, stages: Sequence[str]) -> dict[str, str]:
    """Stage -> name of its family, given as such or as a class of `asyncsim.delays`, alone for the first stage."""
    given = {} if law is None else law if isinstance(law, Mapping) else {stages[0]: law}
    found = {}
    for stage, one in given.items():
        name = one if isinstance(one, str) else getattr(one, "__name__", repr(one))
        name = next((family for family, known in FAMILIES.items() if one is known.law), name)
        found[require_one_of("law", stage, known=stages)] = require_one_of("law", name, known=FAMILIES)
    return found


def _of_groups(
    stage: Stage, members: Sequence[Workers], families: Iterable[str], refused: dict[str, str] | None = None
) -> dict[str, list[Estimate]]:
    """The laws of some groups of workers in each family that can have made their durations, else the reason."""
    found, parts = {}, [stage.of(who) for who in members]
    refused = {} if refused is None else refused
    for family in families if members else ():
        try:
            found[family] = [estimate(family, part.durations, part.censored) for part in parts]
        except ValueError as error:
            refused[family] = str(error)
    return found


def _aic(laws: Sequence[Estimate]) -> float:
    return sum(one.aic for one in laws)


def _best(found: Fitted) -> str:
    """The family of least AIC, or a mixture only if it is significantly better than the law that it contains."""
    from scipy.stats import chi2

    best = min(found, key=lambda family: _aic(found[family]))
    inner = CONTAINED.get(best, "")
    if inner not in found:
        return best
    more = (degrees(best) - degrees(inner)) * len(found[best])
    if _gain(found[best], found[inner]) >= float(chi2.isf(SIGNIFICANT, more)):
        return best
    return _best({family: laws for family, laws in found.items() if family != best})


def _classes(
    stage: Stage, workers: int, family: str, families: Iterable[str]
) -> tuple[tuple[Workers, ...], dict[str, list[Estimate]]]:
    """The members of two classes, and their laws in each family. Empty if there are no two classes."""
    members = _two_classes(stage, workers, family)
    found = _of_groups(stage, members, families)
    if found and _best(found) != family:
        again = _two_classes(stage, workers, _best(found))
        if again and again != members:
            return again, _of_groups(stage, again, families)
    return members, found


def _two_classes(stage: Stage, workers: int, family: str) -> tuple[Workers, ...]:
    """A mixture of two classes of workers, each worker in that which explains its durations better."""
    from scipy.stats import rankdata

    counts = np.bincount(stage.worker, minlength=workers)  # no long duration counts more than others by its rank
    slow = _split(np.bincount(stage.worker, rankdata(stage.durations), workers) / counts, counts)
    for _ in range(workers):
        sides = [tuple(np.flatnonzero(slow == side).tolist()) for side in (False, True)]
        laws = _of_groups(stage, sides, [family]).get(family)
        if laws is None:
            return ()
        likelihoods = [_by_worker(stage, one, workers) for one in laws]
        first, second = (one + math.log(len(who) / workers) for one, who in zip(likelihoods, sides, strict=True))
        better = second > first
        if (better == slow).all() or better.all() or not better.any():
            break
        slow = better
    return tuple(np.flatnonzero(~slow).tolist()), tuple(np.flatnonzero(slow).tolist())


def _split(places: FloatArray, jobs: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The split of the sorted places that leaves the least spread within the two parts."""
    order = np.argsort(places)
    losses = []
    for cut in range(1, len(order)):
        parts = (order[:cut], order[cut:])
        losses.append(
            sum(jobs[part] @ (places[part] - np.average(places[part], weights=jobs[part])) ** 2 for part in parts)
        )
    slow = np.zeros(len(order), np.bool_)
    slow[order[int(np.argmin(losses)) + 1 :]] = True
    return slow


def _by_worker(stage: Stage, one: Estimate, workers: int) -> FloatArray:
    """Log-likelihood of each worker's durations."""
    law: object = one.law
    densities = law.log_density(stage.durations)  # type: ignore[attr-defined]
    rest = log_outlasted(law, stage.censored)
    whole = np.bincount(stage.worker, np.maximum(densities, -1e300), workers)
    return np.asarray(whole + np.bincount(stage.censored_worker, rest, workers), np.float64)


def _p_value(stage: Stage, members: Sequence[Workers], together: Fitted, each: Fitted) -> float:
    """p-value of one law for each of some groups of workers, against one for each worker."""
    from scipy.stats import chi2

    whole, apart = _best(together), _best(each)
    if apart not in together or _aic(together[whole]) <= _aic(each[apart]):
        laws = [(one.law, stage.of(who)) for who, one in zip(members, together[whole], strict=True)]
        return alike(of_laws(stage, laws, "cdf"), stage.worker)
    # Wilks, and Hogg for ends: twice the gain is chi-squared, with the degrees of the other laws.
    gain = _gain(each[apart], together[apart])
    return float(chi2.sf(max(gain, 0.0), (len(each[apart]) - len(members)) * degrees(apart)))


def _gain(laws: Sequence[Estimate], others: Sequence[Estimate]) -> float:
    """Twice the logarithm of a likelihood ratio."""
    return 2 * sum(one.log_likelihood for one in laws) - 2 * sum(one.log_likelihood for one in others)


def alike(positions: FloatArray, worker: NDArray[np.int32]) -> float:
    """p-value of Kruskal and Wallis: whether each worker is as slow, in its group's law, as the others in theirs."""
    from scipy.stats import kruskal

    found: Any = kruskal(*[positions[worker == w] for w in np.unique(worker)])
    return float(found.pvalue)
