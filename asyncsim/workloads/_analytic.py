"""Losses in closed form, with normal gradient noise: quadratics, and landscapes of two parameters.

The normals are those of Threefry with its rounds written out. `jax.random.normal` runs the same generator's rounds in a
loop on CPUs, to compile faster. Between two rounds the words then go through memory: 14 ns per normal, against 1.5 ns
with all rounds in one fused kernel. A noisy quadratic of 1729 parameters draws as many normals at every commit, and
computes little else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from asyncsim import _checks as checks
from asyncsim.components._checked import checked
from asyncsim.components._component import static
from asyncsim.workloads._batches import to_device
from asyncsim.workloads._programs import programs
from asyncsim.workloads._workload import Params, Workload

ROUNDS = 20
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # bits, of four rounds each, in turn, from the reference
PARITY = np.uint32(0x1BD11BDA)  # the key schedule's constant, from Skein


def threefry(key: jax.Array, high: jax.Array, low: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Encrypt counters by Threefry-2x32 with 20 rounds, the generator behind `jax.random.key`."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ PARITY)
    high, low = high + schedule[0], low + schedule[1]
    for turn in range(ROUNDS):
        rotation = ROTATIONS[turn // 4 % 2][turn % 4]
        high = high + low
        low = ((low << rotation) | (low >> (32 - rotation))) ^ high
        if turn % 4 == 3:
            block = turn // 4 + 1
            high, low = high + schedule[block % 3], low + schedule[(block + 1) % 3] + np.uint32(block)
    return high, low


def standard_normal(key: jax.Array, size: int, dtype: jnp.dtype) -> jax.Array:
    """Draw independent N(0, 1), by inversion of the distribution function."""
    words = jax.random.key_data(key)
    if words.shape != (2,):  # JAX may be configured to use another generator than Threefry.
        return jax.random.normal(key, (size,), dtype)
    if jnp.dtype(dtype).itemsize > 4:
        counter = jnp.arange(size, dtype=jnp.uint32)
        high, low = threefry(words, counter, jnp.zeros_like(counter))
        bits = (high.astype(jnp.uint64) << 32) | low
    else:
        counter = jnp.arange(-(-size // 2), dtype=jnp.uint32)
        bits = jnp.concatenate(threefry(words, counter, jnp.zeros_like(counter)))[:size]
    # The middle of one of 2**23 or 2**52 equal cells of (-1, 1), exact in this dtype: symmetric, and never ±1.
    keep = jnp.finfo(dtype).nmant
    cell = (bits >> (8 * bits.dtype.itemsize - keep)).astype(dtype)
    return np.sqrt(2).astype(dtype) * jax.lax.erf_inv((cell + 0.5) * 2.0 ** (1 - keep) - 1)


_square, _subtract, _multiply = programs()(jnp.square), programs()(jnp.subtract), programs()(jnp.multiply)
_sum = programs("axis")(jnp.sum)


class Quadratic(Workload):
    """A quadratic in its eigenbasis, with additive gradient noise.

    L(x) = ½ Σ hᵢxᵢ², and the gradient that a worker takes is hᵢxᵢ + noise·N(0, 1), independent for every commit and
    coordinate. The parameters are ``{"x": array of shape (d,)}``, and the loss is L, without noise. With `minima` it is
    that of the worker that takes the gradient, while L is the test loss. Working in the eigenbasis loses nothing: every
    rule here that treats each parameter on its own acts on each eigenvalue on its own.

    With `minima` every worker w has a quadratic of its own, L_w(x) = ½ Σ hᵢ(xᵢ - m_{w,i})², and L is their mean, least
    at the mean of the minima. By how much the workers differ is the same everywhere: ζ², the mean over workers of
    ‖∇L_w - ∇L‖², is `theory.heterogeneity(eigenvalues, minima)`. A rule that lets fast workers count more than slow
    ones ends at another mean of the minima (`theory.weighted_minimum`).

    Args:
        eigenvalues: h, shape (d,).
        noise: Standard deviation σ of a coordinate's gradient noise.
        start: First value of the central variable, a scalar or shape (d,).
        minima: m, where each worker's own quadratic is least, shape (workers, d), or (workers,) with one eigenvalue.
            By default all are least at 0.

    Example:
        >>> import asyncsim as asim
        >>> workload = asim.workloads.Quadratic([1.0, 10.0], start=2.0)
        >>> trace = asim.Trace.from_commits([0])
        >>> run = asim.replay(trace, asim.rules.Downpour(0.05), workload)
        >>> run.loss.tolist(), [round(float(x), 2) for x in run.central["x"]]
        ([22.0], [1.9, 1.0])
    """

    eigenvalues: Any
    noise: Any = 0.0
    start: Any = 1.0
    minima: Any = None

    def check(self) -> None:
        """Refuse numbers that are not finite, and shapes that do not match, and keep them as arrays."""
        eigenvalues, noise, start = self.eigenvalues, self.noise, self.start
        if not np.size(eigenvalues) or np.ndim(eigenvalues) > 1:
            shape = np.shape(eigenvalues)
            raise ValueError(f"`eigenvalues` must be a sequence of at least one number; got shape {shape}.")
        values = np.atleast_1d(np.asarray(checks.require_all_finite("eigenvalues", eigenvalues), float))
        checks.require_all_not_negative("noise", noise)
        first = np.asarray(checks.require_all_finite("start", start), float)
        if first.shape not in ((), values.shape):
            raise ValueError(f"`start` must be a scalar, or one value per eigenvalue; got shape {first.shape}.")
        minima = self.minima
        if minima is not None:
            shape, minima = np.shape(minima), np.asarray(checks.require_all_finite("minima", minima), float)
            if minima.ndim == 1 and values.size == 1:
                minima = minima[:, None]
            if minima.ndim != 2 or minima.shape[1] != values.size or not len(minima):
                raise ValueError(
                    f"`minima` must have a row of {values.size} number{'s' * (values.size > 1)} per worker; got shape "
                    f"{shape}. Give one value per worker and eigenvalue."
                )
        arrays = {"eigenvalues": eigenvalues, "noise": noise, "start": start, "minima": minima}
        for name, value in arrays.items():
            if value is not None:
                checks.require_representable(name, value, precision=jnp.finfo(jnp.result_type(float)))
        vars(self).update(eigenvalues=values, noise=float(noise), start=first, minima=minima)
        super().check()

    @property
    def workers(self) -> int | None:  # type: ignore[override]
        """One for each of the `minima`."""
        return None if self.minima is None else len(self.minima)

    def init(self, key: jax.Array) -> Params:
        # NumPy makes it on the host, because `jnp` would compile a program for each operation and shape.
        return {"x": jax.device_put(np.broadcast_to(self.start, np.shape(self.eigenvalues)))}

    @property
    def loss(self) -> Callable[..., jax.Array]:  # type: ignore[override]
        """`(params, batch, key) -> L`, or with `minima` that of a worker. The noise is in the gradient only."""
        return self._loss if self.minima is None else self._loss_of_worker

    @property
    def gradient(self) -> Callable[..., tuple[jax.Array, Params]]:  # type: ignore[override]
        """The loss and its gradient, with the noise that was drawn as the mini-batch."""
        return self._gradient if self.minima is None else self._gradient_of_worker

    @property
    def draw(self) -> Callable[[jax.Array], jax.Array] | None:  # type: ignore[override]
        return self._draw if self.noise else None

    @property
    def evaluate_workers(self) -> Callable[[Params], dict[str, jax.Array]] | None:  # type: ignore[override]
        """The loss of each worker at the same parameters, if they differ."""
        return None if self.minima is None else self._each_loss

    def evaluate(self, params: Params) -> dict[str, jax.Array]:
        if self.minima is None:
            return {"test_loss": self._height_alone(params["x"])}
        return {"test_loss": jnp.mean(self._each_loss(params)["worker_loss"])}

    def _height_alone(self, offsets: jax.Array) -> jax.Array:
        """Return the height at one offset or several, outside of a program: each operation is rounded."""
        eigenvalues = np.reshape(self.eigenvalues, (1,) * (offsets.ndim - 1) + (-1,))
        return 0.5 * _sum(_multiply(to_device(eigenvalues), _square(offsets)), axis=-1)

    def _height(self, offset: jax.Array) -> jax.Array:
        return 0.5 * jnp.sum(jnp.asarray(self.eigenvalues) * jnp.square(offset))

    def _loss(self, params: Params, batch: Any, key: jax.Array) -> jax.Array:
        return self._height(params["x"])

    def _loss_of_worker(self, params: Params, batch: Any, key: jax.Array, worker: Any) -> jax.Array:
        return self._height(params["x"] - jnp.asarray(self.minima)[worker])

    def _gradient(self, params: Params, batch: Any, key: jax.Array) -> tuple[jax.Array, Params]:
        return self._slope(params["x"], batch)

    def _gradient_of_worker(self, params: Params, batch: Any, key: jax.Array, worker: Any) -> tuple[jax.Array, Params]:
        return self._slope(params["x"] - jnp.asarray(self.minima)[worker], batch)

    def _slope(self, offset: jax.Array, noise: Any) -> tuple[jax.Array, Params]:
        slope = jnp.asarray(self.eigenvalues) * offset
        return self._height(offset), {"x": slope if noise is None else slope + noise}

    def _draw(self, key: jax.Array) -> jax.Array:
        eigenvalues = jnp.asarray(self.eigenvalues)
        return self.noise * standard_normal(key, eigenvalues.size, eigenvalues.dtype)

    def _each_loss(self, params: Params) -> dict[str, jax.Array]:
        return {"worker_loss": self._height_alone(_subtract(params["x"][None], to_device(self.minima)))}


Point = tuple[float, float]
Function = Callable[[Any, Any], Any]  # (x, y) -> height


def beale(x: Any, y: Any) -> Any:
    """Evaluate Beale's function, a flat valley with steep walls and its minimum at (3, 0.5)."""
    return (1.5 - x + x * y) ** 2 + (2.25 - x + x * y**2) ** 2 + (2.625 - x + x * y**3) ** 2


def booth(x: Any, y: Any) -> Any:
    """Evaluate Booth's function, a bowl with curvatures 18 and 2 and its minimum at (1, 3)."""
    return (x + 2 * y - 7) ** 2 + (2 * x + y - 5) ** 2


def rosenbrock(x: Any, y: Any) -> Any:
    """Evaluate Rosenbrock's banana, a bent valley with its minimum at (1, 1)."""
    return (1 - x) ** 2 + 100 * (y - x**2) ** 2


def quadratic(x: Any, y: Any) -> Any:
    """Evaluate a bowl with curvatures 10 and 1 and its minimum at the origin."""
    return 5 * x**2 + y**2 / 2


@checked
@dataclass(frozen=True)
class Landscape:
    """A function of two parameters, with its minima and usual starts where they are known.

    Attributes:
        function: `(x, y) -> height`, of JAX arrays.
        minima: Where it is lowest, or () where that is not known.
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
        """Return the function on a grid, for contours.

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


def _name_or_function(name: str, value: Any) -> Any:
    return value if callable(value) else checks.require_one_of(name, value, choices=LANDSCAPES)


class Surface(Workload):
    """A landscape of two parameters, with additive gradient noise.

    The loss is f(x, y), and the gradient that a worker takes is ∇f(x, y) + noise·N(0, 1), independent for every commit
    and coordinate. The parameters are ``{"x": array of shape (2,)}``. `asim.workloads.LANDSCAPES` has the minima and
    the usual starts of those with a name.

    Args:
        landscape: Which one: beale, booth, rosenbrock or quadratic, or in Python a function of your own,
            `(x, y) -> height`, at module level and of JAX arrays.
        noise: Standard deviation σ of a coordinate's gradient noise.
        start: First value of the central variable, x and y. By default the first of the landscape's usual starts, or
            the origin for a function of your own.

    Example:
        >>> import asyncsim as asim
        >>> workload = asim.workloads.Surface("booth", start=(2.0, 3.0))
        >>> run = asim.replay(asim.Trace.from_commits([0]), asim.rules.Downpour(0.05), workload)
        >>> run.loss.tolist(), run.central["x"].tolist()
        ([5.0], [1.5, 2.5999999046325684])

    References:
        Beale 1958, "On an iterative method for finding a local minimum of a function of more than one variable".
        Rosenbrock 1960, "An automatic method for finding the greatest or least value of a function". Hermans 2017, "On
        scalable deep learning and parallelizing gradient descent" (starts and step sizes).
    """

    landscape: Annotated[str | Function, _name_or_function] = static(default="beale")
    noise: Any = 0.0
    start: Any = None

    def check(self) -> None:
        """Refuse anything but a function of two numbers, and starts that are not finite."""
        landscape = landscape_named(self.landscape)
        object.__setattr__(self, "noise", float(checks.require_all_not_negative("noise", self.noise)))
        if self.start is not None or callable(self.landscape):
            start = landscape.starts[0] if self.start is None else self.start
            point = np.asarray(checks.require_all_finite("start", start), float)
            if point.shape != (2,):
                raise ValueError(
                    f"`start` must be two numbers, x and y; got {checks.brief(start)}. Give (-2, -1), say."
                )
            object.__setattr__(self, "start", tuple(point.tolist()))
        super().check()

    @property
    def known(self) -> Landscape:
        return Landscape(self.landscape) if callable(self.landscape) else LANDSCAPES[self.landscape]

    def init(self, key: jax.Array) -> Params:
        return {"x": jax.device_put(np.array(self.known.starts[0] if self.start is None else self.start))}

    def loss(self, params: Params, batch: Any, key: jax.Array) -> jax.Array:
        """Return the height of the landscape at the parameters. The noise is in the gradient only."""
        return self._height(params)

    def gradient(self, params: Params, batch: Any, key: jax.Array) -> tuple[jax.Array, Params]:
        """Return the height and its gradient, with the noise that was drawn as the mini-batch."""
        value, gradient = jax.value_and_grad(self._height)(params)
        return value, gradient if batch is None else {"x": gradient["x"] + batch}

    @property
    def draw(self) -> Callable[[jax.Array], jax.Array] | None:  # type: ignore[override]
        return self._draw if self.noise else None

    def evaluate(self, params: Params) -> dict[str, jax.Array]:
        return {"test_loss": self._height(params)}

    def _height(self, params: Params) -> jax.Array:
        return jnp.asarray(self.known.function(params["x"][0], params["x"][1]))

    def _draw(self, key: jax.Array) -> jax.Array:
        return self.noise * standard_normal(key, 2, jnp.result_type(float))


def landscape_named(landscape: str | Callable[[Any, Any], Any]) -> Landscape:
    if not callable(landscape):
        return LANDSCAPES[checks.require_one_of("landscape", landscape, choices=LANDSCAPES)]
    try:
        shape = jax.eval_shape(landscape, *[jax.ShapeDtypeStruct((), jnp.result_type(float))] * 2)
    except Exception as error:
        reason = checks.truncate(str(error), 120)
        raise ValueError(
            f"`landscape` must be a function of x and y that JAX can trace; it raises: {reason}"
        ) from error
    if getattr(shape, "shape", None) != ():
        raise ValueError(
            f"`landscape` must return one number for x and y; got {checks.brief(shape)}. Return the height."
        )
    return Landscape(landscape)


def landscape_of(workload: Workload) -> Landscape | None:
    return workload.known if isinstance(workload, Surface) else None
