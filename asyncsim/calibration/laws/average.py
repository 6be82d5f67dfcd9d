"""What the choice of a family leaves open: the laws beside the chosen one, each with its Akaike weight.

A law that is chosen by least AIC is the one that happened to suit these very durations. Intervals that take it for
granted are too narrow: of 300 logs of gamma laws, those of the cv held the truth in 81 to 85 % instead of 90 %. So mean
and cv, which all families have, are drawn from each family as often as its weight says.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim.calibration.coordinates import FloatArray
from asyncsim.calibration.laws.estimate import Estimate
from asyncsim.delays import Delay

LEAST_WEIGHT = 0.005  # below it a family moves no end of a 90 % interval


class Rival(NamedTuple):
    """A family that may have made the durations.

    Attributes:
        weight: How likely it is, from 0 to 1; those of all rivals sum to 1.
        estimates: Its laws, one for each group of workers.
    """

    weight: float
    estimates: tuple[Estimate, ...]


def weights(aic: Mapping[str, float]) -> dict[str, float]:
    """Akaike weights, proportional to exp(-AIC / 2), of the families that have any.

    Example:
        >>> {name: round(weight, 2) for name, weight in weights({"gamma": 7.0, "weibull": 9.0, "pareto": 90.0}).items()}
        {'gamma': 0.73, 'weibull': 0.27}

    References:
        Burnham and Anderson 2002, "Model selection and multimodel inference", section 4.
    """
    least = min(aic.values(), default=0.0)
    odds = {name: math.exp((least - value) / 2) for name, value in aic.items()}
    kept = {name: value for name, value in odds.items() if value >= LEAST_WEIGHT * sum(odds.values())}
    return {name: value / sum(kept.values()) for name, value in kept.items()}


def rivals(found: Mapping[str, Sequence[Estimate]]) -> tuple[Rival, ...]:
    """Those of some families that were fitted: name -> its laws, one for each group of workers."""
    aic = {name: sum(one.aic for one in laws) for name, laws in found.items()}
    shares = weights({name: value for name, value in aic.items() if math.isfinite(value)})
    return tuple(Rival(weight, tuple(found[name])) for name, weight in shares.items())


def draw_laws(
    chosen: Sequence[Estimate], beside: Sequence[Rival], generator: np.random.Generator, count: int
) -> list[list[Delay]]:
    """For each group of workers, laws that its durations speak for as well.

    Args:
        chosen: Laws of the chosen family, one for each group.
        beside: All families with weight; with fewer than two, only the chosen one is drawn from.
        generator: Of the draws.
        count: How many laws of each group; those at one place are of one family.
    """
    found = np.empty((len(chosen), count), object)
    for places, estimates in _shared_out(chosen, beside, generator, count):
        for group, one in enumerate(estimates):
            for place, law in zip(places, one.draw(generator, len(places)), strict=True):
                found[group, place] = law
    return found.tolist()


def draw_moments(
    chosen: Sequence[Estimate], beside: Sequence[Rival], generator: np.random.Generator, count: int
) -> FloatArray:
    """(groups, count, 2) means and cvs of such laws; arguments as in `draw_laws`."""
    found = np.empty((len(chosen), count, 2))
    for places, estimates in _shared_out(chosen, beside, generator, count):
        for group, one in enumerate(estimates):
            found[group, places] = one.draw_moments(generator, len(places))
    return found


def _shared_out(
    chosen: Sequence[Estimate], beside: Sequence[Rival], generator: np.random.Generator, count: int
) -> list[tuple[NDArray[np.intp], Sequence[Estimate]]]:
    """The places of `count` draws that each family gets by its weight, and its laws."""
    if len(beside) < 2:
        return [(np.arange(count), chosen)]
    drawn = generator.choice(len(beside), count, p=[rival.weight for rival in beside])
    return [(np.flatnonzero(drawn == number), rival.estimates) for number, rival in enumerate(beside)]
