"""Slots of engines that come and go."""

from typing import Annotated, NamedTuple

import numpy as np

from asyncsim._checks import require_not_negative, require_positive
from asyncsim.components._checked import checked
from asyncsim.delays import Delay
from asyncsim.delays._per_worker import require_mean
from asyncsim.theory.rollouts._admission import Slots
from asyncsim.theory.rollouts._queue import quantiles_of


class FaultySlots(NamedTuple):
    """The prediction of `faulty_slots`.

    Attributes:
        samples_per_second: Samples that are generated to their end.
        length: Mean seconds of generation of such a sample.
        wasted: Share of the generation that is lost.
    """

    samples_per_second: float
    length: float
    wasted: float


@checked
def faulty_slots(
    *,
    generate: Delay,
    slots: Slots,
    online: Annotated[float, require_positive, "Give the mean seconds for which an engine stays."],
    offline: Annotated[float, require_not_negative, "Give the mean seconds for which an engine is away."],
) -> FaultySlots:
    """Predict the samples of engines that come and go: C/(U + D)·g/(1 - g) per second, with g = E exp(-G/U).

    An engine stays for an exponential time of mean U, is away for a time of mean D (any law), and loses the samples
    under way when it goes. A sample of G seconds survives with probability exp(-G/U), so that long ones are lost more
    often: the others take E[G·exp(-G/U)]/g seconds. Exact for S = 1, if slots are never idle while their engine is
    there, for any number of slots of an engine. With an exponential G it is C/E G times the share U/(U + D).

    Args:
        generate: Law of the generation time of a sample, in seconds.
        slots: C, of all engines together.
        online: U.
        offline: D.

    Raises:
        ValueError: If an argument is out of range, or the mean generation time is not finite and positive.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> [round(value, 3) for value in faulty_slots(generate=Exponential(1.0), slots=8, online=3.0, offline=1.0)]
        [6.0, 0.75, 0.25]
    """
    mean = require_mean(generate)
    lengths = quantiles_of(generate)
    survives = np.exp(-lengths / online)
    share, lost = float(survives.mean()), float(-np.expm1(-lengths / online).mean())
    if not share:
        raise ValueError(f"`online` must be long enough for some samples of mean {mean:g}; got {online:g}. Give more.")
    # Samples that end, per second of a slot whose engine is there. Without losses, that is the plain rate.
    rate = share / lost / online if lost else 1 / mean
    length = float((lengths * survives).mean()) / share
    return FaultySlots(slots * rate * (online / (online + offline)), length, max(1 - length * rate, 0.0))
