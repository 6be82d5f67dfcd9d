"""Laws made from other laws: slower or faster ones, and that of a mini-batch."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._checks import require_integer, require_not_negative, require_positive
from asyncsim._component import Checked, not_negative, positive
from asyncsim.delays._bounded import Constant
from asyncsim.delays._gamma import Gamma
from asyncsim.delays._law import Delay, FloatArray, require_law
from asyncsim.delays._per_worker import Law


@dataclass(frozen=True)
class Scaled(Checked):
    """shift + scale · (a delay of `law`): mean shift + scale · mean, variance scale² · variance.

    Args:
        law: The law of the delays before scaling.
        scale: Factor of its delays, positive.
        shift: Constant that is added to each, in seconds, at least 0.

    Example:
        >>> from asyncsim.delays import Gamma
        >>> law = Scaled(Gamma(mean=1.0, cv=0.5), scale=2.0, shift=3.0)
        >>> law.mean, law.variance
        (5.0, 1.0)
    """

    law: Annotated[Delay, require_law]
    scale: Annotated[float, positive("Use `Constant` for delays without spread.")]
    shift: Annotated[float, not_negative("Give the seconds that are added to each delay.")] = 0.0
    in_seconds: ClassVar[tuple[str, ...]] = ("scale", "shift")

    @property
    def mean(self) -> float:
        """shift + scale · mean of the law."""
        return self.shift + self.scale * self.law.mean

    @property
    def variance(self) -> float:
        """scale² · variance of the law."""
        return self.scale * self.scale * self.law.variance

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """Return the law's cdf at (t - shift) / scale, with the shape of `t`."""
        return self.law.cdf((np.asarray(t, dtype=np.float64) - self.shift) / self.scale)

    def log_density(self, t: ArrayLike, /) -> FloatArray:
        """Return the law's logarithm of the density at (t - shift) / scale, less log(scale), with the shape of `t`."""
        inner: Any = self.law
        return inner.log_density((np.asarray(t, dtype=np.float64) - self.shift) / self.scale) - np.log(self.scale)

    def quantile(self, p: ArrayLike, /) -> FloatArray:
        """Return shift + scale · quantile of the law, which must have one, with the shape of `p`."""
        inner: Any = self.law
        return self.shift + self.scale * inner.quantile(p)

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw `size` independent delays, shape (size,)."""
        return self.shift + self.scale * np.asarray(self.law.sample(generator, size), dtype=np.float64)


def scaled(law: Law, factor: float) -> Law:
    """Return the law of delays `factor` times as long, of the same family if scaling stays in it.

    It scales the arguments of every law of the library, of `VariableSpeed`, and of any dataclass whose `in_seconds`
    names the arguments that are times. Any other law becomes a `Scaled` one.

    Args:
        law: The law to scale.
        factor: Factor of its delays, positive: 2 is half as fast.

    Returns:
        The scaled law.

    Example:
        >>> from asyncsim.delays import Gamma, Mixture, Uniform
        >>> scaled(Gamma(mean=1.0, cv=0.3), 2.0)
        Gamma(mean=2.0, cv=0.3)
        >>> scaled(Mixture(weights=(0.5, 0.5), laws=(Uniform(0.0, 1.0), Uniform(2.0, 3.0))), 2.0).laws
        (Uniform(low=0.0, high=2.0), Uniform(low=4.0, high=6.0))
    """
    factor = require_positive("factor", factor, remedy="2 makes every delay twice as long.")
    names = getattr(law, "in_seconds", None)
    if names is None:
        return Scaled(require_law("law", law), factor)  # type: ignore[return-value]
    return replace(law, **{name: _times(getattr(law, name), factor) for name in names})  # type: ignore[type-var]


def _times(value: Any, factor: float) -> Any:
    """Multiply a time, a law, or a tuple of either by the factor."""
    if isinstance(value, tuple):
        return tuple(_times(item, factor) for item in value)
    # Numbers are sorted out first: fits scale them often, and the check against a protocol is slow.
    if isinstance(value, float) or not isinstance(value, Delay):
        return factor * value
    return scaled(value, factor)


def for_batch(batch_size: int, per_sample: float, overhead: float = 0.0, cv: float = 0.0) -> Delay:
    """Return the law of the time for one mini-batch: overhead + batch_size · per_sample on average.

    With it you can compare numbers of workers n at a fixed total batch B = n · b, because more workers have smaller
    mini-batches b and so shorter jobs, down to the overhead.

    Args:
        batch_size: Samples in a mini-batch, b.
        per_sample: Mean time for one sample, in seconds, positive.
        overhead: Constant time that every mini-batch takes in addition (a launch, a copy), in seconds.
        cv: Coefficient of variation of the time without the overhead, whatever the batch size: 0 for no spread,
            otherwise this part is gamma.

    Returns:
        A law: `Constant`, `Gamma`, or a shifted `Gamma`.

    Example:
        >>> for_batch(64, per_sample=0.25, overhead=4.0)
        Constant(value=20.0)
        >>> for_batch(64, per_sample=0.25, overhead=4.0, cv=0.5)
        Scaled(law=Gamma(mean=16.0, cv=0.5), scale=1.0, shift=4.0)
    """
    size = require_integer("batch_size", batch_size, least=1, remedy="A mini-batch has one sample or more.")
    computing = size * require_positive("per_sample", per_sample, remedy="Give the time for one sample in seconds.")
    fixed = require_not_negative("overhead", overhead, remedy="Give the time in addition to the samples in seconds.")
    if require_not_negative("cv", cv, remedy="Use 0 for delays without spread.") == 0:
        return Constant(fixed + computing)
    return Scaled(Gamma(computing, cv), 1.0, fixed) if fixed else Gamma(computing, cv)
