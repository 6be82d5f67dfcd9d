"""Coordinates of a model's parameters in which a likelihood is searched: values in widths of the prior, and back."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from asyncsim.calibration.coordinates import FloatArray
from asyncsim.calibration.model import Model, transforms
from asyncsim.calibration.result import LEVEL

FAR = np.exp(20.0)  # how many times beyond its prior a time may be of which only ratios count


@dataclass(frozen=True)
class Axis:
    """One coordinate, (transform(value / unit) - centre) / span.

    Attributes:
        name: Of the parameter.
        kind: Of the transform: "log", "logit" or "identity".
        unit: Seconds, of a model's `times`; 1 of others.
        centre, span: Median and width of the middle 90 % of the prior, as transformed.
        ends: Least and greatest value, in units.
    """

    name: str
    kind: str
    unit: float
    centre: float
    span: float
    ends: tuple[float, float]

    def to(self, value: float) -> float:
        """From a value."""
        return (float(transforms(self.kind)[0](np.float64(value / self.unit))) - self.centre) / self.span

    def back(self, x: float) -> float:
        """To a value, within the ends."""
        if x <= self.low or x >= self.high:  # not to be missed by rounding
            return self.unit * self.ends[int(x >= self.high)]
        value = float(transforms(self.kind)[1](np.float64(self.centre + self.span * x)))
        return self.unit * min(max(value, self.ends[0]), self.ends[1])

    @cached_property
    def low(self) -> float:
        """Coordinate of the least value."""
        return self.to(self.ends[0] * self.unit)

    @cached_property
    def high(self) -> float:
        """Coordinate of the greatest value."""
        return self.to(self.ends[1] * self.unit)


def units(model: Model, cycle: float) -> FloatArray:
    """(p,) what the prior's values are in: a cycle, in seconds, for a model's `times`, and 1 for others."""
    return np.array([cycle if name in model.times else 1.0 for name in model.names])


def axis(model: Model, name: str, cycle: float, natural: Collection[str] = ()) -> Axis:
    """The axis of a parameter.

    Args:
        model: The model.
        name: Of the parameter.
        cycle: The unit of a model's `times`, in seconds.
        natural: Names whose values are taken as they are, neither logarithms nor logits.

    Example:
        >>> from asyncsim.calibration.model import default_model
        >>> one = axis(default_model(4), "compute.cv", 1.0)
        >>> one.kind, one.back(one.to(0.5)), one.back(9.0)
        ('log', 0.5, 1.5)
    """
    prior = model.prior[name]
    kind = "identity" if name in natural else model.kind(name)
    centre, low, high = (
        float(transforms(kind)[0](prior.quantile(share))) for share in (0.5, (1 - LEVEL) / 2, (1 + LEVEL) / 2)
    )
    is_time = name in model.times
    ends = (prior.low / FAR, prior.high * FAR) if is_time else (prior.low, prior.high)
    return Axis(name, kind, cycle if is_time else 1.0, centre, high - low, ends)


class Frame:
    """Axes of some parameters, and the values of the others.

    Args:
        axes: Of those that are sought.
        names: Of all parameters, in the model's order.
        others: Name -> value of the rest.
    """

    def __init__(self, axes: Sequence[Axis], names: Sequence[str], others: Mapping[str, float]) -> None:
        self.axes = tuple(axes)
        self.names = tuple(names)
        self.others = dict(others)
        self.low = np.array([one.low for one in axes])
        self.high = np.array([one.high for one in axes])

    def to(self, values: Mapping[str, float]) -> FloatArray:
        """(axes,) coordinates of some values."""
        return np.array([one.to(values[one.name]) for one in self.axes])

    def values(self, x: FloatArray) -> dict[str, float]:
        """Name -> value, of all parameters."""
        sought = {one.name: one.back(place) for one, place in zip(self.axes, x, strict=True)}
        return {name: sought[name] if name in sought else self.others[name] for name in self.names}
