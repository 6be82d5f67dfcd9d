"""Arrays and lists that their owner changes after an object was made of them: the object and its digest stay."""

import copy
import dataclasses
import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays, rules
from asyncsim.components import digest
from asyncsim.components._component import Component
from asyncsim.components._frozen import ALIGNMENT
from asyncsim.components._traced import Traced
from asyncsim.delays import fleet
from tests.problems import assert_close

ROWS = 16
TRACE = asim.Trace.from_commits([0, 1, 0, 1])


def at(offset, values, dtype=np.float32):
    """A writeable array whose address is a multiple of 64 bytes, plus an offset: JAX uses aligned memory as it is."""
    values = np.asarray(values, dtype)
    memory = np.empty(values.nbytes + 2 * ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT + offset
    array = memory[start : start + values.nbytes].view(dtype).reshape(values.shape)
    array[...] = values
    return array


def zero(key):
    return jnp.zeros(())


def least_squares(params, batch, key):
    x, y = batch.values() if isinstance(batch, dict) else batch
    return jnp.mean((params * x - y) ** 2)


def first_of_all(params, batch, key):
    return jnp.mean((params - jax.tree.leaves(batch)[0] - len(jax.tree.leaves(batch))) ** 2)


def sum_of(values, params, batch, key):
    return params * values.sum()


def workload(data):
    return asim.Workload(zero, least_squares, data=data, batch_size=ROWS)


def losses(trained):
    return asim.replay(TRACE, rules.Downpour(0.1), trained).loss


def of_dataset(make):
    def dataset(x):
        y = np.arange(ROWS) % 2
        return make(asim.datasets.Dataset("x", x[:, None], y, x[:4, None], y[:4], classes=2))

    return dataset


def dataset_numbers(data):
    return data.train_inputs, losses(asim.workloads.Softmax(data, batch_size=4))


class Spring(Component):
    """A class of a user's own, which does not check its argument."""

    table: object


class Weights(Traced):
    """The same, which JAX sees."""

    table: object


X = np.linspace(-1.0, 1.0, ROWS)
SEEDS = np.array([0.1, 0.2])
# Name -> an object of an array, the array, and the numbers that the object stands for.
ARRAYS = {
    "data": (lambda x: workload((x, 3 * x)), X, losses),
    "data in a dictionary": (lambda x: workload({"x": x, "y": 3 * x}), X, losses),
    "data in a list": (lambda x: workload([x, 3 * x]), X, losses),
    "data as a view": (lambda x: workload((x[::-1], 3 * x)), X, losses),
    "data of JAX": (lambda x: workload((jax.device_put(x), 3 * x)), X, losses),
    "data of pandas": (lambda x: workload((pytest.importorskip("pandas").Series(x, copy=False), 3 * x)), X, losses),
    "dataset": (of_dataset(lambda data: data), X, dataset_numbers),
    "dataset of a workload": (
        of_dataset(lambda data: asim.workloads.Softmax(data, batch_size=4)),
        X,
        losses,
    ),
    "labels": (
        lambda y: asim.datasets.Dataset("y", X[:, None], y, X[:, None], y, classes=2),
        np.arange(ROWS, dtype=np.int32) % 2,
        lambda data: data.train_labels,
    ),
    "owners": (
        lambda by: asim.datasets.partition(asim.datasets.Dataset("x", *2 * (X[:, None], by), classes=2), 2, by=by),
        np.arange(ROWS) % 2,
        list,
    ),
    "parts": (
        lambda part: asim.Workload(zero, least_squares, data=(X, X), parts=[part, 8 + part], batch_size=4),
        np.arange(8, dtype=np.int32),
        lambda made: list(made.parts),
    ),
    "weights": (
        lambda weights: asim.Workload(zero, least_squares, data=(X, X), weights=weights, batch_size=4),
        np.array([1.0, 3.0]),
        lambda made: made.weights,
    ),
    "quadratic": (asim.workloads.Quadratic, SEEDS, losses),
    "start": (lambda x: asim.workloads.Quadratic([1.0, 2.0], start=x), SEEDS, losses),
    "minima": (lambda x: asim.workloads.Quadratic([1.0], minima=x), SEEDS, losses),
    "surface": (lambda x: asim.workloads.by_name("surface")("beale", start=x), SEEDS, losses),
    "bits": (lambda x: asim.workloads.Bits(least=x, lengths=x + 1), np.array([1.0, 2.0]), lambda made: made.lengths),
    "one value per seed": (rules.Downpour, SEEDS, lambda rule: rule.numbers["learning_rate"]),
    "whole numbers per seed": (
        lambda x: rules.Ringmaster(0.1, limit=x),
        np.array([1, 2], np.int32),
        lambda rule: rule.numbers["limit"],
    ),
    "with_numbers": (
        lambda x: rules.Downpour(0.1).with_numbers({"learning_rate": x}),
        SEEDS,
        lambda rule: rule.innermost.numbers["learning_rate"],
    ),
    "compressed": (
        lambda x: rules.compressed(rules.Downpour(x), asim.compressors.TopK(0.5)),
        SEEDS,
        lambda rule: rule.innermost.numbers["learning_rate"],
    ),
    "own component": (Spring, X, lambda made: made.table),
    "own component of a large array": (Spring, np.ones(100_000), lambda made: made.table.sum()),
    "list of arrays": (lambda x: Spring([x, (x, {"x": x})]), X, lambda made: made.table[1][1]["x"]),
    "own traced component": (Weights, X, lambda made: made.table),
    "empirical": (delays.Empirical, np.array([1.0, 2.0, 3.0]), lambda law: law.values),
    "profile": (lambda x: delays.Profile([0.0, 1.0], x), np.array([1.0, 2.0]), lambda law: law.speeds),
    "fleet": (
        lambda x: asim.Cluster(2, fleet.scaled(delays.Constant(1.0), x)),
        SEEDS,
        lambda one: [law.mean for law in one.compute],
    ),
    "trace": (
        lambda x: dataclasses.replace(TRACE, commit_time=x, finish_time=x, arrive_time=x, serve_time=x),
        TRACE.commit_time,
        lambda trace: trace.commit_time,
    ),
    "unfinished": (
        lambda x: dataclasses.replace(TRACE, unfinished=dataclasses.replace(TRACE.unfinished, read_time=x)),
        TRACE.unfinished.read_time,
        lambda trace: trace.unfinished.read_time,
    ),
    "from_commits": (
        lambda x: asim.Trace.from_commits([0, 1, 0, 1], x),
        TRACE.commit_time,
        lambda trace: trace.commit_time,
    ),
    "workers of a trace": (
        lambda x: asim.Trace.from_columns({"worker": x, "commit_time": TRACE.commit_time}),
        TRACE.worker,
        lambda trace: trace.worker,
    ),
    "recorded trace": (
        lambda x: asim.Scenario(asim.Trace.from_commits(x), rules.Downpour(0.1), asim.workloads.Quadratic([1.0])),
        TRACE.worker,
        lambda scenario: scenario.simulate().worker,
    ),
}


def digest_of(made):
    return made.digest if isinstance(made, (asim.Scenario, asim.Trace, asim.Comparison)) else digest(made)


def assert_unchanged(make, mutable, numbers, change):
    made = make(mutable)
    before, known = jax.tree.map(np.array, numbers(made)), digest_of(made)
    change(mutable)
    assert_close(numbers(made), before, rtol=0, atol=0)
    assert digest_of(made) == known
    fresh = dataclasses.replace(made) if dataclasses.is_dataclass(made) else made
    assert digest_of(fresh) == known
    assert_close(numbers(fresh), before, rtol=0, atol=0)
    return made


@pytest.mark.parametrize("offset", [0, 8], ids=["aligned", "misaligned"])
@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_that_changes_in_place_changes_no_object(name, offset):
    make, values, numbers = ARRAYS[name]
    given = at(offset, values, np.float32 if name.startswith(("data", "dataset")) else values.dtype)

    def change(array):
        array[...] = array[::-1].copy()

    made = assert_unchanged(make, given, numbers, change)
    again = pickle.loads(pickle.dumps(copy.deepcopy(made)))
    assert digest_of(again) == digest_of(made)


LISTS = {
    "laws": (
        lambda laws: asim.Cluster(2, laws),
        [delays.Constant(1.0), delays.Constant(2.0)],
        lambda made: asim.simulate(made, commits=4).commit_time,
    ),
    "measured delays": (delays.Empirical, [1.0, 2.0], lambda law: law.mean),
    "one value per seed": (rules.Downpour, [0.1, 0.2], lambda rule: rule.numbers["learning_rate"]),
    "data": (workload, [X, X.copy()], losses),
    "own component": (Spring, [1.0, 2.0], lambda made: list(made.table)),
    "record": (
        lambda record: asim.Scenario(TRACE, rules.GEM(0.1), asim.workloads.Quadratic([1.0]), record=record),
        ["pi_mean", "pi_median"],
        lambda scenario: sorted(scenario.strides.values()),
    ),
    "scenarios": (
        lambda scenarios: asim.Comparison(dict(zip("ab", scenarios, strict=True))),
        [asim.Scenario(TRACE, rules.GEM(rate), asim.workloads.Quadratic([1.0])) for rate in (0.1, 0.2)],
        lambda made: [scenario.rule.learning_rate for scenario in made.scenarios.values()],
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_that_changes_changes_no_object(name):
    make, given, numbers = LISTS[name]
    assert_unchanged(make, list(given), numbers, list.reverse)


def test_a_dictionary_that_changes_changes_no_object():
    prior = {"mean": asim.calibration.LogUniform(0.1, 10.0)}
    model = asim.calibration.Model(lambda p: asim.Cluster(2, delays.Exponential(p["mean"])), prior=prior)
    scenarios = {"a": asim.Scenario(TRACE, rules.GEM(0.1), asim.workloads.Quadratic([1.0]))}
    comparison = asim.Comparison(scenarios)
    data = {"x": X, "y": X}
    trained = workload(data)
    prior["cv"], scenarios["b"], data["z"] = None, None, None
    assert (model.names, [*comparison.scenarios], [*trained.data]) == (("mean",), ["a"], ["x", "y"])


REPLACED = {
    "entry": ({"x": X, "y": 3 * X}, lambda data: data.update(x=9 * X)),
    "new entry": ({"x": X, "y": 3 * X}, lambda data: data.update(z=X)),
    "other names": ({"x": X, "y": 3 * X}, lambda data: data.update(z=data.pop("y"))),
    "item": ([X, 3 * X], list.reverse),
    "inner list": (([X, 3 * X], X), lambda data: data[0].reverse()),
}


@pytest.mark.parametrize("name", REPLACED)
def test_a_workload_whose_data_are_replaced_inside_is_refused(name, tmp_path):
    """Its digest would be that of the new data, and its numbers those of the old ones on the device."""
    data, change = REPLACED[name]
    trained = asim.Workload(zero, first_of_all, data=data, batch_size=ROWS)
    losses(trained)
    change(trained.data)
    for use in (losses, lambda made: asim.run(asim.Scenario(TRACE, rules.Downpour(0.1), made), tmp_path / "out")):
        with pytest.raises(ValueError, match=r"`workload` must stay as it is.*dataclasses.replace"):
            use(trained)
    new = asim.Workload(zero, first_of_all, data=trained.data, batch_size=ROWS)
    assert_close(losses(dataclasses.replace(trained)), losses(new), rtol=0, atol=0)


class Shifted(asim.Workload):
    """A workload of the user's that holds a list."""

    shifts: list

    def init(self, key):
        return jnp.zeros(())

    def loss(self, params, batch, key):
        return (params - self.shifts[0]) ** 2


def test_a_workload_whose_arguments_are_replaced_inside_is_refused():
    trained = Shifted([1.0, 2.0])
    trained.shifts[0] = 3.0  # before any use
    assert_close(losses(trained), losses(Shifted([3.0, 2.0])), rtol=0, atol=0)
    trained.shifts.reverse()
    with pytest.raises(ValueError, match=r"`workload` must stay as it is"):
        losses(trained)
    assert_close(losses(dataclasses.replace(trained)), losses(Shifted([2.0, 3.0])), rtol=0, atol=0)


@pytest.mark.parametrize("name", [name for name in ARRAYS if name.startswith(("own ", "one value"))])
def test_an_array_of_an_object_cannot_be_written(name):
    make, values, _ = ARRAYS[name]
    for made in (
        make(values.copy()),
        copy.deepcopy(make(values.copy())),
        pickle.loads(pickle.dumps(make(values.copy()))),
    ):
        (array,) = [one for one in jax.tree.leaves([*vars(made).values()]) if isinstance(one, np.ndarray) and one.ndim]
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        with pytest.raises(ValueError, match="cannot set WRITEABLE"):
            array.flags.writeable = True


def test_the_numbers_of_a_run_cannot_be_written(tmp_path):
    """Neither its file nor a replay that goes on from it can hold others."""
    run = asim.replay(TRACE, rules.GEM(0.1), asim.workloads.Quadratic([1.0]), record=["pi_mean"], commits=2)
    run.save(tmp_path / "run.npz")
    loaded = asim.Run.load(tmp_path / "run.npz", run.rule, run.workload)
    for one in (run, loaded, copy.deepcopy(run), pickle.loads(pickle.dumps(run))):
        for array in (one.loss, one.records["pi_mean"], one.recorded_at["pi_mean"], one.worker):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0


# Functions that read an array which changes: a replay has the numbers of the array as it is.

TARGET, FIRST, FACTOR = np.ones(3), np.zeros(3), np.ones(1)


def far_from_target(params, batch, key):
    return jnp.sum((params - TARGET) ** 2)


def begin_at_first(key):
    return jnp.asarray(FIRST, float)


def slope_to_target(params, batch, key):
    return far_from_target(params, batch, key), 2 * (params - jnp.asarray(TARGET))


def draw_target(key):
    return jnp.asarray(TARGET)


def far_from_batch(params, batch, key):
    return jnp.sum((params - batch) ** 2)


def target_distance(commit):
    return jnp.abs(commit.central - TARGET).max()


def evaluate_target(params):
    return {"test_loss": far_from_target(params, None, None)}


class Distance(asim.Workload):
    """A class that reads a global array and an attribute."""

    def init(self, key):
        return begin_at_first(key)

    def loss(self, params, batch, key):
        return far_from_target(params, batch, key)


class Scaled(asim.Rule):
    """Steps that a global array scales."""

    learning_rate: float

    def send(self, gradient, state, view):
        return rules.Sent(-self.learning_rate * FACTOR[0] * gradient, state)


@dataclasses.dataclass(frozen=True, eq=False)
class Target:
    """A loss as an object with an array."""

    target: np.ndarray

    def __call__(self, params, batch, key):
        return jnp.sum((params - self.target) ** 2)


def closure():
    target = TARGET

    def loss(params, batch, key):
        return jnp.sum((params - target) ** 2)

    return loss


READERS = {
    "loss": lambda: asim.Workload(begin_at_first, far_from_target),
    "jitted loss": lambda: asim.Workload(begin_at_first, jax.jit(far_from_target)),
    "closure": lambda: asim.Workload(begin_at_first, closure()),
    "object": lambda: asim.Workload(begin_at_first, Target(TARGET)),
    "partial": lambda: asim.Workload(begin_at_first, jax.tree_util.Partial(Target(TARGET))),
    "gradient": lambda: asim.Workload(begin_at_first, None, gradient=slope_to_target),
    "noise": lambda: asim.Workload(begin_at_first, far_from_batch, noise=draw_target),
    "evaluate": lambda: asim.Workload(begin_at_first, far_from_target, evaluate=evaluate_target),
    "class": Distance,
}


def numbers_of(run):
    return run.loss, run.central, run.evaluate(), [*run.records.values()]


@pytest.fixture
def changed():
    """Change the arrays that functions read, and put them back."""

    def change():
        TARGET[...], FIRST[...], FACTOR[...] = [2.0, 3.0, 4.0], [0.5, 0.0, -0.5], 0.5

    before = [array.copy() for array in (TARGET, FIRST, FACTOR)]
    yield change
    for array, values in zip((TARGET, FIRST, FACTOR), before, strict=True):
        array[...] = values


@pytest.mark.parametrize("name", READERS)
def test_a_replay_reads_arrays_as_they_are(name, changed):
    """The numbers of a workload that ran before the change are those of a process that did not."""
    rule, record = Scaled(0.1), {"distance": target_distance}
    trained = READERS[name]()
    first = asim.replay(TRACE, rule, trained, record=record)
    changed()
    second = asim.replay(TRACE, rule, trained, record=record)
    jax.clear_caches()
    fresh = asim.replay(TRACE, Scaled(0.1), READERS[name](), record=record)
    assert_close(numbers_of(second), numbers_of(fresh), rtol=0, atol=0)
    assert not np.array_equal(first.loss, second.loss)


@pytest.mark.parametrize("name", ["loss", "closure", "class"])
def test_a_run_and_a_sweep_read_arrays_as_they_are(name, changed, tmp_path):
    scenario = asim.Scenario(TRACE, Scaled(0.1), READERS[name](), record=())
    before = asim.run(scenario)
    asim.sweep([scenario], tmp_path / "store", jobs=1)
    changed()
    after = asim.run(scenario)
    table = asim.sweep([scenario], tmp_path / "store", jobs=1).table()
    jax.clear_caches()
    fresh = asim.run(asim.Scenario(TRACE, Scaled(0.1), READERS[name](), record=()))
    assert before.summary["final_loss"] != fresh.summary["final_loss"]
    assert after.summary["final_loss"] == fresh.summary["final_loss"] == table["final_loss"][0]


@pytest.mark.parametrize("kind", ["view", "file"])
def test_a_read_only_array_whose_memory_changes_has_another_digest(kind, tmp_path):
    """A function may read a read-only view of an array, or a file that another program writes."""
    values = np.zeros(20_000)
    if kind == "file":
        np.save(tmp_path / "values.npy", values)
        values, shown = (np.load(tmp_path / "values.npy", mmap_mode=mode) for mode in ("r+", "r"))
    else:
        shown = values.view()
        shown.flags.writeable = False
    trained = asim.Workload(zero, functools.partial(sum_of, shown))
    before = digest(trained)
    values[-1] = 1.0
    if kind == "file":
        values.flush()
    assert digest(trained) != before


def test_a_memory_mapped_file_that_changes_changes_no_workload(tmp_path):
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r+")
    assert_unchanged(lambda x: workload((x, 3 * x)), mapped, losses, lambda x: x.fill(0.0))
