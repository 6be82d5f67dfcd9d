"""Almost-sure stability by simulation: where there is no closed form, and where a single run really breaks."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from asyncsim import _checks as checks
from asyncsim.components._checked import checked
from asyncsim.delays import FloatArray
from asyncsim.theory._numerics import TURN, require_size
from asyncsim.theory._parameters import Momentum
from asyncsim.theory._phases import IntArray

Commit = Callable[[dict[str, FloatArray], tuple[IntArray, IntArray], FloatArray, float], None]

CLAMP = (0.0, 5.0)  # limits of π in the authors' script
RESCALE_EVERY = 32  # commits: a state grows by less than 1e200 between two rescalings for any ηh below 1e5
WARM_UP_SHARE = 0.2  # share of the commits before the mean growth is taken
SMALLEST = 1e-100
MOST_KAPPA = 1e5
SEARCH_GRID = 48  # values of ηh in one batch, at a cost that is small against the Python loop


def _downpour(state: dict[str, FloatArray], mine: tuple[IntArray, IntArray], kappa: FloatArray, mu: float) -> None:
    del mu  # Plain SGD has none.
    state["x"] = state["x"] - kappa * state["read"][mine]
    state["read"][mine] = state["x"]


def _momentum_sgd(state: dict[str, FloatArray], mine: tuple[IntArray, IntArray], kappa: FloatArray, mu: float) -> None:
    moment = mu * state["moment"][mine] - kappa * state["read"][mine]
    state["x"] = state["x"] + moment
    state["moment"][mine] = moment
    state["read"][mine] = state["x"]


def _gem(state: dict[str, FloatArray], mine: tuple[IntArray, IntArray], kappa: FloatArray, mu: float) -> None:
    update, pulled = -kappa * state["read"][mine], state["x"]
    moment = mu * state["moment"][mine] + update
    room = np.abs(moment) - np.abs(pulled - state["pulled"][mine])
    # π·Δθ = sgn Δθ · clip(room, 0, 5|Δθ|): the script's rule without a division by zero.
    message = np.sign(update) * np.clip(room, CLAMP[0], CLAMP[1] * np.abs(update))
    state["x"] = pulled + message
    state["moment"][mine] = moment
    state["pulled"][mine] = pulled
    state["read"][mine] = state["x"]


RULES: dict[str, tuple[Commit, tuple[str, ...]]] = {  # commits, and the state of a worker besides its moment
    "downpour": (_downpour, ("read",)),
    "gem": (_gem, ("read", "pulled")),
    "momentum_sgd": (_momentum_sgd, ("read",)),
}
_Rule = Annotated[str, partial(checks.require_one_of, choices=tuple(RULES))]


@checked
def lyapunov_exponent(
    kappa: ArrayLike,
    order: ArrayLike,
    *,
    rule: _Rule = "downpour",
    momentum: Momentum = 0.9,
    workers: int | None = None,
) -> FloatArray:
    """Estimate the mean growth of log|x| per commit on a quadratic without noise, by simulation (Monte Carlo).

    Negative where runs with this ηh converge with probability one, positive where they diverge. All rules here commute
    with scaling, so the state can be rescaled on the way, and the exponent does not depend on the size of the start.

    Args:
        kappa: ηh, the step size times the curvature, no unit, any shape: all values share the order of commits.
        order: (commits,) or (seeds, commits) who commits, numbered from 0, such as the column `worker` of a trace.
            Each worker reads just after its own commit. The error falls with the root of commits times seeds.
        rule: "downpour", "momentum_sgd" (moments kept by the workers) or "gem" (variant "script", not amplified).
        momentum: μ in [0, 1), which "downpour" ignores.
        workers: n, by default the largest number in `order` plus one.

    Returns:
        The shape of `kappa`, with a trailing axis of seeds if `order` has one, per commit.

    Raises:
        ValueError: If the rule is unknown, an argument is out of range, or there are fewer than 160 commits.

    Example:
        One worker multiplies x by 1 - ηh:

        >>> exponent = lyapunov_exponent([0.5, 1.9], np.zeros(1000, int))
        >>> np.allclose(exponent, np.log([0.5, 0.9]))
        True
    """
    kappas = np.asarray(checks.require_all_finite("kappa", kappa), float)
    numbers = np.asarray(order)
    if numbers.ndim not in (1, 2) or numbers.dtype.kind not in "iu" or numbers.shape[-1] < 5 * RESCALE_EVERY:
        raise ValueError(
            f"`order` must hold worker numbers of shape (commits,) or (seeds, commits), at least {5 * RESCALE_EVERY} "
            f"commits; got {numbers.dtype} of shape {numbers.shape}."
        )
    least = int(numbers.max()) + 1
    if numbers.min() < 0 or (workers is not None and workers < least):
        raise ValueError(f"`order` must hold numbers from 0 to `workers` - 1; got {numbers.min()} to {least - 1}.")
    if np.abs(kappas).max() > MOST_KAPPA:
        raise ValueError(f"`kappa` must be at most {MOST_KAPPA:g}; got {np.abs(kappas).max():g}. Larger ones diverge.")
    # Workers that never commit do not change x, and get no rows.
    committing, order_of = np.unique(np.atleast_2d(numbers), return_inverse=True)
    rows, count = order_of.reshape(np.atleast_2d(numbers).shape), len(committing)
    together = kappas.size * len(rows)
    operations = numbers.size / len(rows) * (TURN + together * (1 + count / RESCALE_EVERY))
    arguments = f"`order` of shape {numbers.shape} with {kappas.size} values of `kappa`"
    require_size(arguments, 3 * count * together, "Use fewer of them.", operations=operations)
    growth = _growth(kappas.ravel(), rows, count, rule, momentum)
    return growth.T.reshape((*kappas.shape, *np.shape(order)[:-1]))


@checked
def almost_sure_limit(
    order: ArrayLike,
    *,
    low: float,
    high: float,
    rule: _Rule = "downpour",
    momentum: Momentum = 0.9,
    workers: int | None = None,
) -> float:
    """Estimate the ηh in [low, high] at which the Lyapunov exponent becomes positive, by simulation (Monte Carlo).

    About fifty values of ηh share the order of commits. The first change of sign is refined once, and interpolated. The
    resolution is (high - low)/2000. Most of the error is that of the finite order: repeat with other seeds.

    Args:
        order, rule, momentum, workers: As in `lyapunov_exponent`. The exponent is averaged over seeds.
        low, high: Where to look: the exponent must be negative at `low` and positive at some ηh up to `high`.

    Raises:
        ValueError: If there is no change of sign between `low` and `high`.

    Example:
        >>> round(almost_sure_limit(np.zeros(400, int), low=1.0, high=3.0), 2)
        2.0
    """

    if not 0 < low < high:
        raise ValueError(f"`low` must be positive and less than `high`; got {low:g} and {high:g}. Give two step sizes.")

    def first_change(low: float, high: float) -> tuple[FloatArray, FloatArray]:
        kappas = np.linspace(low, high, SEARCH_GRID)
        exponents = lyapunov_exponent(kappas, order, rule=rule, momentum=momentum, workers=workers)
        exponents = exponents.reshape(SEARCH_GRID, -1).mean(axis=1)
        above = np.flatnonzero(exponents >= 0)
        if not len(above) or above[0] == 0:
            what = "positive" if len(above) else "negative"
            raise ValueError(f"`low`, `high` must enclose the limit; the exponent is {what} in [{low}, {high}].")
        return kappas[above[0] - 1 : above[0] + 1], exponents[above[0] - 1 : above[0] + 1]

    (below, beyond), _ = first_change(low, high)
    kappas, exponents = first_change(below, beyond)
    return float(kappas[0] - exponents[0] * (kappas[1] - kappas[0]) / (exponents[1] - exponents[0]))


def _growth(kappas: FloatArray, rows: IntArray, workers: int, rule: str, momentum: float) -> FloatArray:
    """Return the mean growth of the logarithm per commit, shape (seeds, kappas)."""
    (commit, worker_state), (seeds, commits) = RULES[rule], rows.shape
    state = {name: np.ones((workers, seeds, len(kappas))) for name in worker_state}
    state |= {"x": np.ones((seeds, len(kappas))), "moment": np.zeros((workers, seeds, len(kappas)))}
    columns = np.arange(seeds)
    first = RESCALE_EVERY * int(WARM_UP_SHARE * commits / RESCALE_EVERY)
    last = RESCALE_EVERY * (commits // RESCALE_EVERY)
    logarithm = np.zeros((seeds, len(kappas)))
    for step in range(last):
        if step % RESCALE_EVERY == 0:
            size = _size(state)
            state = {name: value / size for name, value in state.items()}
            logarithm += np.log(size) * (step > first)
        commit(state, (rows[:, step], columns), kappas, momentum)
    return (logarithm + np.log(_size(state))) / (last - first)


def _size(state: dict[str, FloatArray]) -> FloatArray:
    """Return the state's largest absolute value, (seeds, kappas), but at least SMALLEST, so that zero stays zero."""
    sizes = [np.abs(value).reshape(-1, *value.shape[-2:]).max(axis=0) for value in state.values()]
    return np.maximum(np.max(sizes, axis=0), SMALLEST)
