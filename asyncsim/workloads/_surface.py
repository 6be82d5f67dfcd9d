"""Landscapes of two parameters: what can be seen whole, and what asynchronous SGD is shown on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from asyncsim import _checks as checks
from asyncsim._component import static
from asyncsim.workloads._noise import standard_normal
from asyncsim.workloads._workload import Params, Workload

Point = tuple[float, float]
Function = Callable[[Any, Any], Any]  # (x, y) -> height


def beale(x: Any, y: Any) -> Any:
    """Beale's function, a flat valley with steep walls; its minimum is at (3, 0.5)."""
    return (1.5 - x + x * y) ** 2 + (2.25 - x + x * y**2) ** 2 + (2.625 - x + x * y**3) ** 2


def booth(x: Any, y: Any) -> Any:
    """Booth's function, a bowl with curvatures 18 and 2; its minimum is at (1, 3)."""
    return (x + 2 * y - 7) ** 2 + (2 * x + y - 5) ** 2


def rosenbrock(x: Any, y: Any) -> Any:
    """Rosenbrock's banana, a bent valley; its minimum is at (1, 1)."""
    return (1 - x) ** 2 + 100 * (y - x**2) ** 2


def quadratic(x: Any, y: Any) -> Any:
    """A bowl with curvatures 10 and 1; its minimum is at the origin."""
    return 5 * x**2 + y**2 / 2


@dataclass(frozen=True)
class Landscape:
    """A function of two parameters, and what is known of it.

    Attributes:
        function: `(x, y) -> height`, of JAX arrays.
        minima: Where it is lowest; () where that is not known.
        starts: Points to start from, the usual one first.

    Example:
        >>> import asyncsim as asim
        >>> beale = asim.workloads.LANDSCAPES["beale"]
        >>> beale.minima, beale.starts, float(beale.function(3.0, 0.5))
        (((3.0, 0.5),), ((-2.0, -1.0), (-2.5, -2.0), (-5.0, -3.0)), 0.0)
    """

    function: Function
    minima: tuple[Point, ...] = ()
    starts: tuple[Point, ...] = ((0.0, 0.0),)

    def heights(self, x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> np.ndarray:
        """The function on a grid, for contours.

        Args:
            x: (columns,).
            y: (rows,).

        Returns:
            (rows, columns).

        Example:
            >>> LANDSCAPES["booth"].heights([1.0, 0.0], [3.0, 2.0]).tolist()
            [[0.0, 5.0], [5.0, 18.0]]
        """
        grid = np.meshgrid(np.asarray(x, float), np.asarray(y, float))
        return np.asarray(jax.vmap(jax.vmap(self.function))(*map(jnp.asarray, grid)), float)


# The starts of the first two are those of Hermans's thesis.
LANDSCAPES = {
    "beale": Landscape(beale, ((3.0, 0.5),), ((-2.0, -1.0), (-2.5, -2.0), (-5.0, -3.0))),
    "booth": Landscape(booth, ((1.0, 3.0),), ((90.0, 90.0),)),
    "rosenbrock": Landscape(rosenbrock, ((1.0, 1.0),), ((-1.2, 1.0),)),
    "quadratic": Landscape(quadratic, ((0.0, 0.0),), ((1.0, 3.0),)),
}


class Surface(Workload):
    """A landscape of two parameters, with additive gradient noise.

    The loss is f(x, y), and the gradient that a worker takes is ∇f(x, y) + noise·N(0, 1), independent for every commit
    and coordinate. The parameters are ``{"x": array of shape (2,)}``. `asim.workloads.LANDSCAPES` has the minima and
    the usual starts of those with a name.

    Args:
        landscape: Which one: beale, booth, rosenbrock or quadratic; or in Python a function of your own,
            `(x, y) -> height`, at module level and of JAX arrays.
        noise: Standard deviation σ of a coordinate's gradient noise.
        start: First value of the central variable, x and y; by default the first of the landscape's usual starts, or
            the origin for a function of your own.

    Raises:
        ValueError: If there is no such landscape, the noise is negative, or `start` is not two finite numbers.

    Example:
        >>> import asyncsim as asim
        >>> workload = asim.workloads.Surface("booth", start=(2.0, 3.0))
        >>> run = asim.replay(asim.Trace.from_commits([0]), asim.rules.Downpour(0.05), workload)
        >>> run.loss.tolist(), run.central["x"].tolist()
        ([5.0], [1.5, 2.5999999046325684])

    References:
        Beale 1958, "On an iterative method for finding a local minimum of a function of more than one variable";
        Rosenbrock 1960, "An automatic method for finding the greatest or least value of a function"; Hermans 2017, "On
        scalable deep learning and parallelizing gradient descent" (starts and step sizes).
    """

    landscape: str | Function = static(default="beale")
    noise: Any = 0.0
    start: Any = None

    def check(self) -> None:
        """Refuse what is no function of two numbers, and starts that are not finite."""
        found = landscape_named(self.landscape)
        object.__setattr__(self, "noise", float(checks.not_negative("noise", self.noise)))
        if self.start is not None or callable(self.landscape):
            object.__setattr__(self, "start", _point(found.starts[0] if self.start is None else self.start))
        super().check()

    @property
    def known(self) -> Landscape:
        """The landscape, with what is known of it."""
        return Landscape(self.landscape) if callable(self.landscape) else LANDSCAPES[self.landscape]

    def init(self, key: jax.Array) -> Params:
        """The start, of every seed: seeds differ in their noise."""
        del key
        return {"x": jax.device_put(np.array(self.known.starts[0] if self.start is None else self.start))}

    def loss(self, params: Params, batch: Any, key: jax.Array) -> jax.Array:
        """The height of the landscape where the parameters are; the noise is in the gradient only."""
        del batch, key
        return self._height(params)

    def gradient(self, params: Params, batch: Any, key: jax.Array) -> tuple[jax.Array, Params]:
        """The height and its gradient, with the noise that was drawn as the mini-batch."""
        del key
        value, gradient = jax.value_and_grad(self._height)(params)
        return value, gradient if batch is None else {"x": gradient["x"] + batch}

    @property
    def draw(self) -> Callable[[jax.Array], jax.Array] | None:  # type: ignore[override]
        """The noise, if there is any."""
        return self._draw if self.noise else None

    def evaluate(self, params: Params) -> dict[str, jax.Array]:
        """The height, without noise."""
        return {"test_loss": self._height(params)}

    def _height(self, params: Params) -> jax.Array:
        return jnp.asarray(self.known.function(params["x"][0], params["x"][1]))

    def _draw(self, key: jax.Array) -> jax.Array:
        return self.noise * standard_normal(key, 2, jnp.result_type(float))


def landscape_named(landscape: str | Callable[[Any, Any], Any]) -> Landscape:
    """The landscape of this name, or that of a function."""
    if not callable(landscape):
        return LANDSCAPES[checks.one_of("landscape", landscape, LANDSCAPES)]
    try:
        shape = jax.eval_shape(landscape, *[jax.ShapeDtypeStruct((), jnp.result_type(float))] * 2)
    except Exception as error:
        reason = " ".join(str(error).split())[:120]
        raise ValueError(
            f"`landscape` must be a function of x and y that JAX can trace; it raises: {reason}"
        ) from error
    if getattr(shape, "shape", None) != ():
        raise ValueError(f"`landscape` must return one number for x and y; got {shape!r:.80}. Return the height.")
    return Landscape(landscape)


def landscape_of(workload: Workload) -> Landscape | None:
    """The landscape of a `Surface`, with what is known of it; None for any other workload."""
    return workload.known if isinstance(workload, Surface) else None


def _point(start: Any) -> Point:
    point = np.asarray(checks.finite("start", start), float)
    if point.shape != (2,):
        raise ValueError(f"`start` must be two numbers, x and y; got {start!r}. Give (-2, -1), say.")
    return float(point[0]), float(point[1])
