"""Choose a law for all workers, for two classes of them, or for each: maximum likelihood, Akaike's criterion, tests.

The law of least AIC is the one that happened to suit these very durations. Intervals that take it for granted are too
narrow. For example, of 300 logs of gamma laws, those of the cv held the truth in 81 to 85 % instead of 90 %. So mean
and cv, which all families have, are drawn from each family as often as its Akaike weight says.

One law for all workers is compared with one law per worker by AIC, each side in the family that suits it best, because
a law with stragglers needs twenty durations and may therefore fit all workers together and none of them alone. If one
law per worker is better, a likelihood ratio within its family gives the significance. If it is not, workers may still
differ in scale, so a rank test (Kruskal and Wallis) decides, whatever the family. Two classes are compared with one law
per worker likewise. If neither is accepted, AIC decides.

A mixture whose components are nearly alike is the law that it contains with two arguments that are not identifiable. It
is chosen only where a likelihood ratio says that it is more than that, and otherwise is one of the alternatives.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import require_one_of
from asyncsim.calibration._maximum import raise_eigenvalues
from asyncsim.calibration._stages import Stage, evaluate_laws
from asyncsim.calibration._statistics import CONSTANT, Check
from asyncsim.calibration._transforms import FAMILIES, FIXED, LEAST, MOST, FloatArray, build_law, degrees, values_of
from asyncsim.components import Component
from asyncsim.delays import Delay, log_likelihood, scaled
from asyncsim.delays._law import log_outlasted

LEAST_INFORMATION = 0.04  # per coordinate: a standard error of 5 in a logarithm says that nothing is known
STEP = 0.05  # of a finite difference, in rough standard errors
MOST_STEP = 0.02
SLOPE_STEP = 1e-4  # of a coordinate, for derivatives of mean and cv
EXTREME = 30.0  # a coordinate beyond it is at a bound, such as the logit of a probability of 0
LEAST_WEIGHT = 0.005  # below it a family moves no end of a 90 % interval
DRAWS = 2000  # from which intervals are read: their ends move by 3 % of a standard error
LAWS = tuple(name for name in FAMILIES if name not in ("constant", "erlang"))  # families that are compared
SIGNIFICANT = 0.01  # p-value below which workers differ
LEAST_PER_WORKER = 10  # durations of a worker whose own law is fitted
INNER_LAWS = {"straggler": "gamma", "hyperexponential": "exponential"}  # mixtures: the law of each if nothing is slow
MOST_LIKELY = 3  # laws, the best for all workers together, that are also fitted worker by worker
OFTEN_HIDDEN = ("gamma", "lognormal")  # in a mixture of unequal workers, so that these are fitted as well
NO_DURATIONS = np.zeros(0)
Workers = tuple[int, ...]


class Estimate(Component):
    """One law of one stage, fitted to some jobs."""

    family: str  # its name in `FAMILIES`
    values: tuple[float, ...]  # its arguments, in the order of the family
    covariance: FloatArray  # (k, k) of the estimated coordinates, from the observed information
    jobs: int  # number of durations to which it was fitted
    log_likelihood: float  # of the durations, censored ones included, 0 for a constant, which has no density

    @cached_property
    def law(self) -> Delay:
        """The law itself."""
        return build_law(self.family, self.values)

    @property
    def aic(self) -> float:
        """Akaike's criterion, 2 k - 2 log L, with k as `degrees` counts it."""
        return 2 * degrees(self.family) - 2 * self.log_likelihood

    def draw(self, generator: np.random.Generator, count: int) -> list[Delay]:
        """Draw plausible laws: their arguments come from the normal approximation of the likelihood."""
        family = FAMILIES[self.family]
        errors = self._errors(generator, count)
        beyond = generator.exponential(size=(count, len(family.kinds))) / (self.jobs * family.edge(self.law))
        values, normal = np.tile(np.array(self.values, np.float64), (count, 1)), iter(errors.T)
        for i, (kind, value) in enumerate(zip(family.kinds, self.values, strict=True)):
            if kind is LEAST:
                values[:, i] = np.maximum(value - beyond[:, i], value / 2 if self.family == "pareto" else 0.0)
            elif kind is MOST:
                values[:, i] += beyond[:, i]
            elif kind is not FIXED:
                values[:, i] = kind.back(np.minimum(kind.to(value) + next(normal), EXTREME))
        laws = [_admissible(self.family, row, self.law) for row in values.tolist()]
        if not self._has_derived_moments:
            return laws
        means = self._log_linear(errors)[:, 0].tolist()
        return [scaled(law, mean / law.mean) for law, mean in zip(laws, means, strict=True)]

    def draw_moments(self, generator: np.random.Generator, count: int) -> FloatArray:
        """Draw (count, 2) means and cvs of such laws, those of mixtures by the delta method."""
        if self._has_derived_moments:
            return self._log_linear(self._errors(generator, count))
        return np.array([moments(law) for law in self.draw(generator, count)])

    @property
    def _has_derived_moments(self) -> bool:
        """Whether the mean is no argument, but follows from arguments with normal errors."""
        return "mean" not in FAMILIES[self.family].names and LEAST not in FAMILIES[self.family].kinds

    def _errors(self, generator: np.random.Generator, count: int) -> FloatArray:
        """Draw (count, k) normal errors of the coordinates."""
        if not len(self.covariance):
            return np.zeros((count, 0))
        return generator.multivariate_normal(np.zeros(len(self.covariance)), self.covariance, count, method="eigh")

    def _slopes(self, of: Callable[[Any], Any]) -> FloatArray:
        """Differentiate a function of the law by each coordinate with a normal error: (k, …) central differences."""
        kinds, slopes = FAMILIES[self.family].kinds, []
        for i in _regular(self.family):
            place, ends = kinds[i].to(self.values[i]), []
            for side in (-1, 1):
                values = [*self.values[:i], kinds[i].back(place + side * SLOPE_STEP), *self.values[i + 1 :]]
                ends.append(of(_admissible(self.family, values, self.law)))
            slopes.append((ends[1] - ends[0]) / (2 * SLOPE_STEP))
        return np.array(slopes)

    def _log_linear(self, errors: FloatArray) -> FloatArray:
        """Compute (count, 2) means and cvs, of which the logarithms are taken as linear in the coordinates."""
        slopes = self._slopes(lambda law: np.log(moments(law)))
        return np.asarray(np.exp(np.log(moments(self.law)) + errors @ slopes), np.float64)

    def scores(self, durations: FloatArray) -> FloatArray:
        """Differentiate each log-density by the coordinates with normal errors: (jobs, k), 0 where it has no slope."""
        with np.errstate(all="ignore"):
            slopes = self._slopes(lambda law: law.log_density(durations)).reshape(-1, len(durations))
        return np.where(np.isfinite(slopes), slopes, 0.0).T


def moments(law: Delay) -> tuple[float, float]:
    """Return mean and cv."""
    return law.mean, math.sqrt(law.variance) / law.mean if law.mean else 0.0


def observed_moments(durations: FloatArray, censored: FloatArray) -> FloatArray:
    """Estimate (2, 2) mean and cv of durations, each with its standard error, without the assumption of a law.

    Censored durations give their weight to longer ones (Kaplan and Meier). Errors are those of influence functions.
    """
    every, has_ended = np.append(durations, censored), np.repeat([1.0, 0.0], [len(durations), len(censored)])
    order = np.lexsort((-has_ended, every))
    values, ended = every[order], has_ended[order]
    at_risk = np.arange(len(values), 0, -1)
    steps = ended / at_risk * np.cumprod(np.append(1.0, (1 - ended / at_risk)[:-1]))
    weight = steps / steps.sum()
    mean = float(weight @ values)
    sd = math.sqrt(float(weight @ (values - mean) ** 2))
    deviations, cv = (values - mean) / (sd or 1.0), sd / mean
    influences = np.stack([sd * deviations, cv * (deviations**2 - 1) / 2 - cv**2 * deviations])
    return np.stack([[mean, cv], np.sqrt(influences**2 @ weight / len(durations))], axis=1)


def estimate(family: str, durations: FloatArray, censored: FloatArray = NO_DURATIONS) -> Estimate:
    """Fit a law by maximum likelihood, with the covariance of its coordinates."""
    law = FAMILIES[family].law.fit(durations, censored)
    values = values_of(family, law)
    if family == "constant":
        return Estimate(family, tuple(values), np.zeros((0, 0)), len(durations), 0.0)
    covariance = np.asarray(np.linalg.inv(_information(family, values, durations, censored)), np.float64)
    likelihood = log_likelihood(law, durations, censored)
    if math.isnan(likelihood):
        raise ValueError(f"`law` {family!r} cannot produce these durations.")
    return Estimate(family, tuple(values), covariance, len(durations), likelihood)


def _regular(family: str) -> list[int]:
    """Return the places of the arguments whose errors are normal in their coordinates."""
    kinds = FAMILIES[family].kinds
    return [i for i, kind in enumerate(kinds) if kind not in (LEAST, MOST, FIXED)]


def _information(family: str, values: list[float], durations: FloatArray, censored: FloatArray) -> FloatArray:
    """Compute the (k, k) second derivatives of -log L in the coordinates with normal errors."""
    kinds, regular, law = FAMILIES[family].kinds, _regular(family), build_law(family, values)
    centre = np.array([kinds[i].to(values[i]) for i in regular])
    step = min(STEP / math.sqrt(max(len(durations), 1)) * 5, MOST_STEP)

    def loss(x: FloatArray) -> float:
        moved = list(values)
        for place, i in enumerate(regular):
            moved[i] = kinds[i].back(float(x[place]))
        return -log_likelihood(_admissible(family, moved, law), durations, censored)

    with np.errstate(all="ignore"):
        information = hessian(loss, centre, step)
    return raise_eigenvalues(np.where(np.isfinite(information), information, 0.0), LEAST_INFORMATION)


def hessian(value: Callable[[FloatArray], float], at: FloatArray, step: float) -> FloatArray:
    """Compute (k, k) second derivatives by central differences."""
    unit, derivatives = np.eye(len(at)) * step, np.zeros((len(at), len(at)))
    for i in range(len(at)):
        for j in range(i + 1):
            ends = [value(at + a * unit[i] + b * unit[j]) * a * b for a in (1, -1) for b in (1, -1)]
            derivatives[i, j] = derivatives[j, i] = sum(ends) / (4 * step * step)
    return derivatives


def _admissible(family: str, values: Sequence[float], otherwise: Any) -> Any:
    """Build a law, or return `otherwise` where the law refuses these arguments, such as a shape below its bound."""
    try:
        return build_law(family, values)
    except (ValueError, OverflowError, ZeroDivisionError):  # A law has no other way to say which arguments it takes.
        return otherwise


LawsByFamily = Mapping[str, Sequence[Estimate]]  # family -> its laws, one for each group of workers


class Alternative(Component):
    """A family that may have made the durations."""

    weight: float  # Akaike's, from 0 to 1, and 1 over all alternatives
    estimates: tuple[Estimate, ...]  # its laws, one for each group of workers


def weights(aic: Mapping[str, float]) -> dict[str, float]:
    """Compute Akaike weights, proportional to exp(-AIC / 2), of the families whose weight counts."""
    least = min(aic.values(), default=0.0)
    odds = {name: math.exp((least - value) / 2) for name, value in aic.items()}
    likely = {name: value for name, value in odds.items() if value >= LEAST_WEIGHT * sum(odds.values())}
    return {name: value / sum(likely.values()) for name, value in likely.items()}


def alternatives(fitted: LawsByFamily) -> tuple[Alternative, ...]:
    """Return the fitted families whose Akaike weight counts."""
    aic = {name: _aic(laws) for name, laws in fitted.items()}
    shares = weights({name: value for name, value in aic.items() if math.isfinite(value)})
    return tuple(Alternative(weight, tuple(fitted[name])) for name, weight in shares.items())


class Group(Component):
    """Workers with one law."""

    label: str  # "" for all workers, "fast" and "slow" for classes, "[3]" or "[name]" for one worker
    workers: Workers  # their numbers
    estimate: Estimate  # their law


class StageFit(Component):
    """One stage as it was fitted."""

    groups: tuple[Group, ...]  # workers with one law: all, two classes, or each worker
    aic: dict[str, float]  # family -> Akaike's criterion of one law for all workers, the smaller the better
    refused: dict[str, str]  # family -> the reason why it cannot produce the durations
    p_equal: float | None = None  # p-value of one law for all against one per worker, or None if not tested
    p_classes: float | None = None  # the same of two classes
    alternatives: tuple[Alternative, ...] = ()  # families that may have made the durations, none if the law was named
    contains: tuple[str, ...] = ()  # other stages that may be in the durations
    observed: tuple[FloatArray, ...] = ()  # (2, 2) mean and cv, with errors, of each group's durations, if maybe sums
    law: Check | None = None  # distance of the durations from the law, or None for a constant
    rounding: tuple[float, ...] = ()  # relative error of each group's mean by a coarse clock, none for a fine one
    quantiles: FloatArray | None = None  # (2, 199) of the durations and of the fitted laws, at the same shares

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """The law of each group of workers."""
        return tuple(group.estimate for group in self.groups)

    @property
    def families(self) -> list[str]:
        """Names of the laws' families."""
        return sorted({estimate.family for estimate in self.estimates})

    def draw(self, generator: np.random.Generator, count: int) -> list[list[Delay]]:
        """Draw plausible laws for each group, each family as often as its weight says."""
        laws = np.empty((len(self.groups), count), object)
        for places, estimates in self._share_out(generator, count):
            for group, estimate in enumerate(estimates):
                for place, law in zip(places, estimate.draw(generator, len(places)), strict=True):
                    laws[group, place] = law
        for group, error in enumerate(self.rounding):
            laws[group] = scaled_at_random(laws[group], error, generator)
        return laws.tolist()

    def draw_moments(self, generator: np.random.Generator, count: int) -> FloatArray:
        """Draw (groups, count, 2) means and cvs of such laws."""
        both = np.empty((len(self.groups), count, 2))
        for places, estimates in self._share_out(generator, count):
            for group, estimate in enumerate(estimates):
                both[group, places] = estimate.draw_moments(generator, len(places))
        for group, error in enumerate(self.rounding):
            both[group, :, 0] *= np.exp(error * generator.standard_normal(count))
        return both

    def _share_out(
        self, generator: np.random.Generator, count: int
    ) -> list[tuple[NDArray[np.intp], tuple[Estimate, ...]]]:
        """Give each family its places among the draws, by its weight."""
        if len(self.alternatives) < 2:
            return [(np.arange(count), self.estimates)]
        drawn = generator.choice(len(self.alternatives), count, p=[family.weight for family in self.alternatives])
        return [(np.flatnonzero(drawn == i), family.estimates) for i, family in enumerate(self.alternatives)]


def scaled_at_random(laws: Sequence[Delay], error: float, generator: np.random.Generator) -> list[Delay]:
    """Scale laws by factors whose logarithms have some standard error."""
    factors = np.exp(error * generator.standard_normal(len(laws))).tolist()
    return [scaled(law, factor) for law, factor in zip(laws, factors, strict=True)]


def choose(stage: Stage, workers: int, law: str | None, *, by_worker: bool = True) -> StageFit:
    """Choose laws for a stage: one for all workers, for each of two classes, or for each worker."""
    everyone = tuple(range(workers))
    spread = float(stage.durations.max() - stage.durations.min())
    if law in (None, "constant") and spread <= CONSTANT * float(stage.durations.max()):
        value = np.full(len(stage.durations), np.median(stage.durations))
        return StageFit((Group("", everyone, estimate("constant", value)),), {}, {})
    joint, reasons = _fit_groups(stage, [everyone], LAWS if law is None else (law,))
    if not joint:
        raise ValueError("; ".join(reasons.values()))
    aic = {family: _aic(laws) for family, laws in joint.items()}
    best = _best(joint)

    def fit_of(labels: Iterable[str], members: Iterable[Workers], laws: LawsByFamily, **tests: Any) -> StageFit:
        groups = tuple(map(Group, labels, members, laws[_best(laws)]))
        return StageFit(groups, aic, reasons, **tests, alternatives=alternatives(laws) if law is None else ())

    of_all = fit_of([""], [everyone], joint)
    counts = np.bincount(stage.worker, minlength=workers)
    if not by_worker or workers == 1 or counts.min() < LEAST_PER_WORKER:
        return of_all
    likely = sorted(aic, key=aic.__getitem__)[:MOST_LIKELY] + [name for name in OFTEN_HIDDEN if name in aic]
    singles = [(w,) for w in everyone]
    separate, _ = _fit_groups(stage, singles, dict.fromkeys(likely))
    if not separate:
        return of_all
    p_equal = _p_value(stage, [everyone], joint, separate)
    if p_equal >= SIGNIFICANT:
        return replace(of_all, p_equal=p_equal)
    members, classes = _classes(stage, workers, _best(separate), joint) if workers > 2 else ((), {})
    p_classes = _p_value(stage, members, classes, separate) if classes else None
    least = min(aic[best], _aic(separate[_best(separate)]))
    if p_classes is not None and (p_classes >= SIGNIFICANT or _aic(classes[_best(classes)]) <= least):
        return fit_of(("fast", "slow"), members, classes, p_equal=p_equal, p_classes=p_classes)
    if aic[best] <= least:  # There are too few jobs for a finer model.
        return replace(of_all, p_equal=p_equal, p_classes=p_classes)
    return fit_of([f"[{w}]" for w in everyone], singles, separate, p_equal=p_equal, p_classes=p_classes)


def named_laws(law: Any, stages: Sequence[str]) -> dict[str, str]:
    """Return the name of each stage's family. A name or a class that is in no mapping is for the first stage."""
    by_stage = {} if law is None else law if isinstance(law, Mapping) else {stages[0]: law}
    families = {}
    for stage, choice in by_stage.items():
        name = choice if isinstance(choice, str) else getattr(choice, "__name__", repr(choice))
        family = next((family for family, entry in FAMILIES.items() if choice is entry.law), name)
        families[require_one_of("law", stage, choices=stages)] = require_one_of("law", family, choices=FAMILIES)
    return families


def _fit_groups(
    stage: Stage, members: Sequence[Workers], families: Iterable[str]
) -> tuple[dict[str, list[Estimate]], dict[str, str]]:
    """Fit each family to some groups of workers, and say of the others why they cannot have made the durations."""
    parts = [stage.of(workers) for workers in members]
    fitted, reasons = {}, {}
    for family in families if members else ():
        try:
            fitted[family] = [estimate(family, part.durations, part.censored) for part in parts]
        except ValueError as error:  # By its message, a law says why it cannot have made durations.
            reasons[family] = str(error)
    return fitted, reasons


def _aic(laws: Sequence[Estimate]) -> float:
    """Sum Akaike's criteria."""
    return sum(law.aic for law in laws)


def _best(fitted: LawsByFamily) -> str:
    """Return the family of least AIC, or a mixture only if it is significantly better than the law that it contains."""
    from scipy.stats import chi2

    best = min(fitted, key=lambda family: _aic(fitted[family]))
    inner = INNER_LAWS.get(best, "")
    if inner not in fitted:
        return best
    freedom = (degrees(best) - degrees(inner)) * len(fitted[best])
    if _gain(fitted[best], fitted[inner]) >= float(chi2.isf(SIGNIFICANT, freedom)):
        return best
    return _best({family: laws for family, laws in fitted.items() if family != best})


def _classes(
    stage: Stage, workers: int, family: str, families: Iterable[str]
) -> tuple[tuple[Workers, ...], dict[str, list[Estimate]]]:
    """Split the workers into two classes, and fit each family to them. Empty if there are no two classes."""
    members = _two_classes(stage, workers, family)
    fitted, _ = _fit_groups(stage, members, families)
    if fitted and _best(fitted) != family:  # Another family may split the workers otherwise.
        others = _two_classes(stage, workers, _best(fitted))
        if others and others != members:
            return others, _fit_groups(stage, others, families)[0]
    return members, fitted


def _two_classes(stage: Stage, workers: int, family: str) -> tuple[Workers, ...]:
    """Split the workers into two classes, each worker in the one that explains its durations better."""
    from scipy.stats import rankdata

    # The first split is one of mean ranks, because a few very long durations would decide one of means.
    counts = np.bincount(stage.worker, minlength=workers)
    slow = _split(np.bincount(stage.worker, rankdata(stage.durations), workers) / counts, counts)
    for _ in range(workers):
        sides = [tuple(np.flatnonzero(slow == side).tolist()) for side in (False, True)]
        laws = _fit_groups(stage, sides, [family])[0].get(family)
        if laws is None:
            return ()
        # Each worker's likelihood in a class counts with the share of the class.
        first, second = (
            _by_worker(stage, law, workers) + math.log(len(side) / workers)
            for law, side in zip(laws, sides, strict=True)
        )
        better = second > first
        if (better == slow).all() or better.all() or not better.any():
            break
        slow = better
    return tuple(np.flatnonzero(~slow).tolist()), tuple(np.flatnonzero(slow).tolist())


def _split(places: FloatArray, jobs: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Split the sorted places where the least spread is left within the two parts."""
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


def _by_worker(stage: Stage, estimate: Estimate, workers: int) -> FloatArray:
    """Compute the log-likelihood of each worker's durations."""
    law: object = estimate.law
    densities = law.log_density(stage.durations)  # type: ignore[attr-defined]
    unfinished = np.maximum(log_outlasted(law, stage.censored), -1e300)
    finished = np.bincount(stage.worker, np.maximum(densities, -1e300), workers)
    return np.asarray(finished + np.bincount(stage.censored_worker, unfinished, workers), np.float64)


def _p_value(stage: Stage, members: Sequence[Workers], joint: LawsByFamily, separate: LawsByFamily) -> float:
    """Compute the p-value of one law for each of some groups of workers, against one for each worker."""
    from scipy.stats import chi2

    of_joint, of_separate = _best(joint), _best(separate)
    if of_separate not in joint or _aic(joint[of_joint]) <= _aic(separate[of_separate]):
        laws = [(estimate.law, stage.of(group)) for group, estimate in zip(members, joint[of_joint], strict=True)]
        return test_equality(evaluate_laws(stage, laws, "cdf"), stage.worker)
    # By Wilks, and by Hogg for ends, twice the gain is chi-squared, with the degrees of freedom of the additional laws.
    gain = _gain(separate[of_separate], joint[of_separate])
    return float(chi2.sf(max(gain, 0.0), (len(separate[of_separate]) - len(members)) * degrees(of_separate)))


def _gain(laws: Sequence[Estimate], others: Sequence[Estimate]) -> float:
    """Return twice the logarithm of a likelihood ratio."""
    return 2 * sum(law.log_likelihood for law in laws) - 2 * sum(law.log_likelihood for law in others)


def test_equality(positions: FloatArray, worker: NDArray[np.int32]) -> float:
    """Test by Kruskal and Wallis whether all workers are equally slow, given their laws, and return the p-value."""
    from scipy.stats import kruskal

    test: Any = kruskal(*[positions[worker == w] for w in np.unique(worker)])
    return float(test.pvalue)
