"""User functions are called once with shapes only, so that an error names their line before a program is compiled.

JAX traces each function as it will for the replay, so that nothing is computed. JAX's own cache of traces remembers a
function that passed.
"""

import traceback
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from asyncsim._checks import brief, truncate
from asyncsim._metrics import METRICS
from asyncsim.components._description import describe
from asyncsim.components._digest import hash_of
from asyncsim.components._environment import environment, forget_programs
from asyncsim.components._precision import require_precision
from asyncsim.engine._layout import Packing, of_first_seed, staleness_by_parameter
from asyncsim.engine._quantities import (
    CONSENSUS,
    EVALUATIONS,
    FINITE,
    OUTPUTS,
    QUANTITIES,
    CommitView,
    Measure,
    Record,
    measure,
    own_measures,
)
from asyncsim.rules import Info, Rule, View
from asyncsim.workloads import Workload
from asyncsim.workloads._batches import rule_key
from asyncsim.workloads._programs import programs
from asyncsim.workloads._workload import as_pytree

LIBRARY = str(Path(__file__).parents[1])
PACKAGES = "site-packages"  # where errors are raised, but mistakes are seldom made
LONGEST = 100  # characters in which a pytree is described
COLUMNS = ("seed", "commit", "worker", "time", "staleness", "loss")  # of `Run.to_columns`
# Names that no metric may have.
RESERVED = frozenset({*COLUMNS, *METRICS, *QUANTITIES, CONSENSUS, OUTPUTS, FINITE} - {*EVALUATIONS})
COMPILED = ("jit", "pjit")  # the primitive of a function under `jax.jit`, by versions of JAX
SEPARATORS = frozenset(",=/\\:\0")  # in flags and in files
VECTOR_HINT = " An elementwise rule receives all parameters as one vector; without `elementwise=True`, as your pytree."


class UserFunction(NamedTuple):
    name: str  # its name in the library, such as "loss"
    owner: str  # the rule or workload that it belongs to, in words
    function: Callable[..., Any]  # the function
    hint: str = ""  # a further remedy where it fails

    def __str__(self) -> str:
        return f"`{self.name}` of {self.owner}"

    def __call__(self, **arguments: Any) -> Any:
        """Return the function's result for these arguments, which are passed by position."""
        returned = self.call(**arguments)
        for path, leaf in jax.tree_util.tree_leaves_with_path(returned):
            try:
                jnp.result_type(leaf)
                jnp.shape(leaf)
            except (TypeError, ValueError):
                where = jax.tree_util.keystr(path) or "the result"
                raise ValueError(
                    f"{self} must return arrays only; {where} is not an array: partition the model, so that only its "
                    f"arrays are left, and combine it again inside `loss`. It is the {describe_tree(leaf)}."
                ) from None
        return returned

    def call(self, **arguments: Any) -> Any:
        try:
            return self.function(*arguments.values())
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            if isinstance(error, ValueError) and str(error).startswith("`") and last.filename.startswith(LIBRARY):
                raise  # It is one of the library's own one-line errors.
            received = ", ".join(f"{name} {describe_tree(value)}" for name, value in arguments.items())
            raise ValueError(
                f"{self} failed{_locate_error(error)}: {_reason(error)}. It received {received}.{self.hint}"
            ) from error

    def require(self, holds: bool, expected: str, returned: Any, remedy: str = "") -> None:
        if not holds:
            raise ValueError(f"{self} must return {expected}; it returned {describe_tree(returned)}.{remedy}")


def first_params(workload: Workload, key: jax.Array) -> Any:
    """Return the workload's first parameters as JAX arrays of floating-point numbers."""
    return _first_params(workload.init, key, owner_of(workload))


def _first_params(init: Any, key: jax.Array, owner: str) -> Any:
    params = jax.tree.map(jnp.asarray, UserFunction("init", owner, init)(key=key))
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            where = jax.tree_util.keystr(path) or "it"
            raise ValueError(f"`init` must give floating-point parameters; {where} is {leaf.dtype}. Convert it.")
    if not sum(leaf.size for leaf in jax.tree.leaves(params)):
        got = describe_tree(params) if jax.tree.leaves(params) else "an empty pytree"
        raise ValueError(f"`init` must give at least one parameter; got {got}.")
    return params


def first_shapes(workload: Workload, key: jax.Array) -> Any:
    """Return shapes and dtypes of `first_params`, without the parameters if possible: they may be too large."""
    init, owner = workload.abstract_init, owner_of(workload)
    try:
        if isinstance(init, Hashable):
            return _first_shapes.eval_shape(init=init, key=key, owner=owner)
        return jax.eval_shape(partial(_first_params, init, owner=owner), key)
    except (TypeError, ValueError):
        # An `init` in plain Python needs the key's numbers. A mistake in it is named there.
        return first_params(workload, key)


_first_shapes = programs("init", "owner")(_first_params)


def hash_user_code(rule: Rule, workload: Workload, record: Record) -> str:
    """Hash the user's code, the values that it reads, and JAX's settings.

    If a setting has changed by which JAX does not tell programs apart, it forgets them.
    """
    forget_programs()
    hashes: list[Any] = [environment()]
    for name, part in {"rule": rule, "workload": workload, "record": own_measures(record)}.items():
        # Some code no digest can cover, and a replay needs none.
        with suppress(ValueError):
            hashes.append(describe(part, name))
    return hash_of(hashes)


def try_rule(rule: Rule, params: Packing, groups: tuple[int, ...] = ()) -> Info:
    require_numbers(rule, params.dtype)
    return _try_rule.eval_shape(of_first_seed(rule), packing=params, groups=groups)


def require_numbers(rule: Rule, dtype: np.dtype) -> None:
    """Refuse hyper-parameters of a rule that are no numbers, or that parameters cannot take."""
    for name, value in rule.numbers.items():
        if not jnp.issubdtype(getattr(value, "dtype", type(value)), jnp.number):
            raise ValueError(
                f"`{name}` of the rule {rule.name!r} must be a number, or one value per seed; got {brief(value)}. An "
                f"argument that chooses code is marked: {name}: str = asyncsim.static()."
            )
    require_precision(rule, dtype)


@programs("packing", "groups")
def _try_rule(rule: Rule, packing: Packing, groups: tuple[int, ...]) -> Info:
    hint = VECTOR_HINT if packing.whole else ""

    def part(name: str) -> UserFunction:
        return UserFunction(name, f"the rule {rule.name!r}", getattr(rule, name), hint)

    params = packing.as_seen(jnp.zeros(packing.size, packing.dtype))
    state = part("start")(params=params)
    server = part("start_server")(params=params)
    ages = staleness_by_parameter(packing, groups, jnp.zeros(len(groups), jnp.int32))
    view = View(params, params, jnp.int32(0), server, staleness_by_parameter=ages)
    if rule.steps_locally:
        step = part("local_step")
        moved = step(params=params, gradient=params, state=state)
        step.require(isinstance(moved, tuple) and len(moved) == 2, "(params, state)", moved)
        require_like(step, "parameters", moved[0], params, exact=True)
        require_like(step, "a state", moved[1], state, exact=True)
        state = moved[1]
    send = part("send")
    view_with_key = view._replace(key=rule_key(jax.random.key(0))) if rule.draws else view
    sent = send(gradient=params, state=state, view=view_with_key)
    send.require(isinstance(sent, (tuple, list)) and len(sent) == 3, "Sent(message, state, info)", sent)
    message, next_state, info = sent
    send.require(isinstance(info, Info), "an `Info` as the third part", info)
    # A rule with an `apply` of its own may send any message.
    if type(rule.innermost).apply is Rule.apply:
        require_like(send, "a message", message, params, exact=True)
    require_like(send, "a state", next_state, state)
    apply = part("apply")
    # The loop carries central variable and server state, so neither may change its shape.
    applied = apply(central=params, server=server, message=message, view=view)
    apply.require(isinstance(applied, (tuple, list)) and len(applied) == 2, "(central, server)", applied)
    require_like(apply, "a central variable", applied[0], params)
    require_like(apply, "a server's state", applied[1], server, exact=True, dtypes=True)
    resume = part("resume")
    resumed = resume(central=params, server=server, state=next_state, view=view)
    require_like(resume, "parameters", resumed, params)
    return info


def try_measures(
    rule: Rule, params: Packing, info: Info, names: Iterable[str], measures: Mapping[str, Measure]
) -> dict[str, jax.ShapeDtypeStruct]:
    """Try recorded quantities on a commit of parameters of these shapes."""
    if not (names := tuple(names)):
        return {}
    for name in measures:
        if not is_free(name):
            raise ValueError(
                f"`record` must not give a function the name {name!r}, which has another meaning in results and "
                "tables. Give it another, such as 'gradient_norm'."
            )
    vector = jax.ShapeDtypeStruct((params.size,), params.dtype)
    functions = {name: as_pytree(function) for name, function in measures.items()}
    return _try_measures.eval_shape(of_first_seed(rule), vector, info, functions, packing=params, names=names)


@programs("packing", "names")
def _try_measures(
    rule: Rule, vector: jax.Array, info: Info, measures: Mapping[str, Any], packing: Packing, names: tuple[str, ...]
) -> dict[str, jax.Array]:
    theta = packing.as_seen(vector)
    server = rule.start_server(theta)
    view = View(read=theta, pulled=theta, staleness=jnp.int32(0), server=server)
    commit = CommitView(central=theta, view=view, info=info, loss=jnp.zeros((), packing.dtype), gradient=theta)

    def checked(name: str, function: Any, commit: CommitView) -> Any:
        user_function = UserFunction(name, "`record`", function)
        returned = user_function.call(commit=commit)
        is_array = isinstance(returned, (bool, int, float)) or (
            hasattr(returned, "dtype")
            and hasattr(returned, "shape")
            and (jnp.issubdtype(returned.dtype, jnp.number) or returned.dtype == jnp.bool_)
        )
        remedy = " Is a `return` missing?" if returned is None else ""
        user_function.require(is_array, "an array of numbers", returned, remedy)
        return returned

    for name in names:
        need = None if name in measures else QUANTITIES[name].needs
        if need and getattr(info, need) is None:
            lacking = {"proxy": "proxy", "pi": "scaling π"}[need]
            raise ValueError(
                f"`record` names {name!r}, but the rule {rule.name!r} has no {lacking}; leave it out or use a rule "
                "such as gem."
            )
    functions = {name: partial(checked, name, function) for name, function in measures.items()}
    return {name: measure(packing, name, commit, functions) for name in names}


def try_workload(workload: Workload, params: Any, key: jax.Array) -> bool:
    """Try the loss of a workload on its first parameters, and return whether it uses its random key."""
    size = workload.batch_size
    batch = jax.tree.map(lambda a: jax.ShapeDtypeStruct((size, *a.shape[1:]), a.dtype), workload.device_data)
    worker = jax.ShapeDtypeStruct((), jnp.int32)
    arguments = {"behaviour": params} if workload.asks_behaviour else {}
    arguments |= {"worker": worker} if workload.asks_worker else {}
    of_worker = {"gradient": arguments, "noise": {"worker": worker} if workload.noise_by_worker else {}}
    gradient = workload.part("gradient")
    loss = workload.part("loss") if gradient is None else None
    traced = _try_loss.trace(loss, gradient, workload.sampler, params, batch, of_worker, key, owner=owner_of(workload))
    # The key is the last argument. Keys are made only for a loss that uses them.
    jaxpr = traced.jaxpr.jaxpr
    return uses(jaxpr, jaxpr.invars[-1])


def uses(jaxpr: Any, variable: Any) -> bool:
    """Return whether the result of a traced function may depend on one of its arguments."""
    if any(variable is result for result in jaxpr.outvars):
        return True
    for equation in jaxpr.eqns:
        for number, argument in enumerate(equation.invars):
            if argument is variable:
                # JAX traces a function under `jit` as one equation, of which only the inside says what it uses.
                inner = equation.params.get("jaxpr") if equation.primitive.name in COMPILED else None
                if inner is None or uses(inner.jaxpr, inner.jaxpr.invars[number]):
                    return True
    return False


@programs("owner")
def _try_loss(
    loss: Any, gradient: Any, noise: Any, params: Any, batch: Any, of_worker: Any, key: jax.Array, owner: str
) -> Any:
    if noise is not None:
        batch = UserFunction("noise", owner, noise)(key=key, **of_worker["noise"])
    if gradient is not None:
        user_gradient = UserFunction("gradient", owner, gradient)
        returned = user_gradient(params=params, batch=batch, key=key, **of_worker["gradient"])
        user_gradient.require(isinstance(returned, (tuple, list)) and len(returned) == 2, "(loss, gradient)", returned)
        _require_loss(user_gradient, returned[0])
        require_like(user_gradient, "a gradient", returned[1], params)
        return returned[0]
    user_loss = UserFunction("loss", owner, loss)

    def checked_loss(params: Any) -> Any:
        try:
            value = user_loss(params=params, batch=batch, key=key, **of_worker["gradient"])
        except ValueError as error:
            if batch is None and error.__cause__ is not None and "NoneType" in str(error.__cause__):
                raise ValueError(
                    "`loss` must not use its mini-batch where the workload has neither `data` nor `noise`: the batch "
                    f"is None there ({_reason(error.__cause__)}). Give the workload `data=` or `noise=`."
                ) from error
            raise
        _require_loss(user_loss, value)
        return value

    return user_loss._replace(function=jax.value_and_grad(checked_loss))(params=params)[0]


def _require_loss(function: UserFunction, value: Any) -> None:
    is_loss = is_number(value) and jnp.issubdtype(jnp.result_type(value), jnp.floating)
    remedy = " Is a `return` missing?" if value is None else " Return a mean over the mini-batch, say."
    function.require(
        is_loss,
        "a floating-point scalar" if function.name == "loss" else "a loss that is a floating-point scalar",
        value,
        remedy,
    )


def metrics(workload: Workload, params: Any) -> tuple[str, ...]:
    """Return the names of the measures of a workload's `evaluate`, for these parameters or their shapes."""
    if workload.evaluate is None:
        return ()
    # The library's workloads know the names, so that test data need not be moved to the device for them.
    if workload.measures is not None:
        return workload.measures
    function = UserFunction("evaluate", owner_of(workload), workload.evaluate)
    try:
        return jax.eval_shape(partial(_try_evaluate, function), params)[1]
    except ValueError as error:
        leaves = jax.tree.leaves(params)
        have_values = all(isinstance(x, (jax.Array, np.ndarray)) and not isinstance(x, Tracer) for x in leaves)
        if isinstance(error.__cause__, jax.errors.JAXTypeError) and have_values:
            return _try_evaluate(function, params)[1]  # It may compute with NumPy, which needs values.
        raise


def worker_metrics(workload: Workload, params: Any) -> tuple[str, ...]:
    if workload.evaluate_workers is None:
        return ()
    if workload.worker_measures is not None:
        return workload.worker_measures
    function = UserFunction("evaluate_workers", owner_of(workload), workload.evaluate_workers)
    values = jax.eval_shape(lambda params: function(params=params), params)
    shape = (workload.workers,)
    fine = isinstance(values, Mapping) and all(is_free(str(name)) and values[name].shape == shape for name in values)
    function.require(fine, f"a dictionary from free names to arrays of shape {shape}", values)
    return tuple(values)


def _try_evaluate(user: UserFunction, params: Any) -> Any:
    measured = user(params=params)
    names = measured if isinstance(measured, Mapping) else ()
    fine = isinstance(measured, Mapping) and all(isinstance(n, str) and is_number(measured[n]) for n in names)
    user.require(fine, "a dictionary from names to scalars", measured)
    for name in names:
        if not is_free(name):
            raise ValueError(
                f"{user} must not measure anything called {name!r}, which has another meaning in results and tables. "
                "Give it another name, such as 'train_accuracy'."
            )
    return (), Names(names)


def is_free(name: str) -> bool:
    return name not in RESERVED and name.isprintable() and bool(name.strip()) and not set(name) & SEPARATORS


@jax.tree_util.register_static
class Names(tuple):
    """A tuple of names that a traced function may return."""


def owner_of(workload: Workload) -> str:
    return f"the workload {workload.name!r}"


def require_like(
    function: UserFunction, expectation: str, returned: Any, expected: Any, *, exact: bool = False, dtypes: bool = False
) -> None:
    """Refuse a pytree whose leaves do not have the shapes of another one's."""
    new, old = jax.tree.leaves(returned), jax.tree.leaves(expected)
    alike = [*map(jnp.shape, new)] == [*map(jnp.shape, old)]
    if exact:
        alike = alike and jax.tree.structure(returned) == jax.tree.structure(expected)
    if dtypes and alike:
        # A loop may change the dtype of weakly typed leaves, such as Python numbers.
        weak = [getattr(jnp.asarray(leaf), "weak_type", False) for leaf in old]
        alike = all(w or jnp.result_type(a) == jnp.result_type(b) for a, b, w in zip(new, old, weak, strict=True))
    function.require(alike, f"{expectation} like {describe_tree(expected)}", returned)


def is_number(value: Any) -> bool:
    return (hasattr(value, "dtype") and value.shape == ()) or isinstance(value, (bool, int, float, complex))


def describe_tree(tree: Any) -> str:
    """Return a pytree as its dtypes and shapes, in one short line."""
    return truncate(repr(jax.tree.map(_Leaf, tree)), LONGEST)


class _Leaf:
    def __init__(self, leaf: Any) -> None:
        self.leaf = leaf

    def __repr__(self) -> str:
        if hasattr(self.leaf, "dtype") and hasattr(self.leaf, "shape"):
            return f"{self.leaf.dtype.name}[{','.join(map(str, self.leaf.shape))}]"
        if callable(self.leaf):
            return f"function {getattr(self.leaf, '__name__', type(self.leaf).__name__)}"
        return f"{type(self.leaf).__name__} {self.leaf!r}"


def _reason(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    text = lines[0].strip().rstrip(".") if lines else "no message"
    return f"{type(error).__name__}: {text}"


def _locate_error(error: BaseException) -> str:
    """Return file and line of the user's own code where an error came up, if it did there."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(LIBRARY)]
    users = [frame for frame in frames if PACKAGES not in frame.filename]
    return f" ({Path(users[-1].filename).name}, line {users[-1].lineno})" if users else ""
