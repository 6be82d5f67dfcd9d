"""Laws of users and lists of laws: without a hash, without a density, other numbers of workers, and what is none."""

from dataclasses import dataclass, field

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from tests.problems import assert_refused

CLASSES = [delays.Constant(1.0), delays.Constant(1.0), delays.Constant(3.0)]


@dataclass(frozen=True)
class Recorded:
    """A law with a list, which makes it a frozen dataclass without a hash."""

    times: list = field(default_factory=lambda: [1.0, 2.0])
    mean = 1.5
    variance = 0.25

    def cdf(self, t):
        return 0.5 * (np.asarray(t) >= 1) + 0.5 * (np.asarray(t) >= 2)

    def sample(self, generator, size):
        return generator.choice(self.times, size)


@pytest.mark.quick
def test_a_law_without_a_hash_equals_itself_alone():
    law = Recorded()
    assert repr(asim.Cluster(2, law)).startswith("Cluster(2 workers, Recorded(")
    assert repr(asim.Cluster(2, [law, Recorded()])) == "Cluster(2 workers, 2 different laws)"


@pytest.mark.parametrize("name", ["compute", "latency"])
def test_an_empty_list_of_laws_is_refused_by_name(name):
    cluster = asim.Cluster(3, CLASSES, network=asim.Network(latency=delays.Constant(0.1)))
    assert_refused(lambda: asim.components.override(cluster, **{name: []}), f"`{name}`")


def test_a_list_of_varying_speeds_takes_the_place_of_laws():
    speeds = [delays.VariableSpeed(law, delays.Profile(times=(0.0,), speeds=(0.5,))) for law in CLASSES]
    assert asim.components.override(asim.Cluster(3, CLASSES), compute=speeds).compute == tuple(speeds)


@pytest.mark.parametrize("workers", ["4", 2.5, None, 0, -1])
def test_numbers_of_workers_that_are_none_are_refused_by_name(workers):
    assert_refused(lambda: asim.components.override(asim.Cluster(3, CLASSES), workers=workers), "`workers` must be")


@pytest.mark.parametrize("text", ["gamma:mean:cv=1", "gamma:mean=one:cv=1", "gamma:mean=1:shape=2"])
def test_a_text_that_is_no_law_is_named(text):
    assert_refused(lambda: asim.components.override(asim.Cluster(3, delays.Constant(1.0)), compute=text), "is no law")


ATOM = delays.Constant(1.0)


@pytest.mark.parametrize(
    "law",
    [ATOM, delays.Scaled(ATOM, 2.0), delays.Mixture((0.5, 0.5), (ATOM, delays.Exponential(1.0))), Recorded()],
    ids=lambda law: type(law).__name__,
)
def test_a_law_with_a_part_that_has_no_density_is_refused(law):
    assert_refused(lambda: delays.log_likelihood(law, [1.0, 2.0]), "`law` must have a density")
    assert_refused(lambda: delays.log_likelihood(delays.Scaled(law, 2.0), [1.0, 2.0]), "`law` must have a density")


@dataclass(frozen=True)
class Rayleigh(delays.Law, named=False):
    """A law that derives from the public base class, first without and then with a fit."""

    mean: float

    @property
    def variance(self):
        return self.mean**2 * (4 / np.pi - 1)

    def cdf(self, t):
        return -np.expm1(-np.pi / 4 * (np.maximum(t, 0.0) / self.mean) ** 2)

    def sample(self, generator, size):
        return generator.rayleigh(self.mean * np.sqrt(2 / np.pi), size)


class FittedRayleigh(Rayleigh, named=False):
    @classmethod
    def _fit(cls, measured, unended):
        return cls(float(np.sqrt(np.pi / 4 * ((measured**2).sum() + (unended**2).sum()) / len(measured))))


def test_a_law_without_a_fit_says_which_method_it_lacks():
    with pytest.raises(NotImplementedError, match=r"Rayleigh does not say how it is fitted\. Write .*`_fit\(measured"):
        Rayleigh.fit([1.0, 2.0])


def test_a_law_with_a_fit_receives_checked_durations_and_censored_ones():
    durations = Rayleigh(2.0).sample(np.random.default_rng(0), 4000)
    cut = np.minimum(durations, 2.0)
    assert FittedRayleigh.fit(cut[cut < 2.0], cut[cut == 2.0]).mean == pytest.approx(2.0, rel=5 / np.sqrt(4000))
    assert_refused(lambda: FittedRayleigh.fit([1.0, -1.0]), "entry 1 is -1.0")
    assert_refused(lambda: FittedRayleigh.fit([1.0]), "must be at least 2 for the law FittedRayleigh; got 1")
