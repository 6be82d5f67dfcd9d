"""The language model: its loss and its gradients against NumPy, entropies, tables of frequencies and symmetries."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import datasets, rules, workloads
from asyncsim.datasets import Markov, Text
from asyncsim.engine.reference import replay_plainly
from asyncsim.workloads import Transformer
from tests.problems import assert_close, assert_refused, gamma_trace

CONTEXT, SYMBOLS = 8, 6
SOURCE = Markov(1, SYMBOLS, sequences=200, context=CONTEXT)
KEY = jax.random.key(0)


def tiny(data: datasets.Dataset = SOURCE, **arguments: Any) -> Transformer:
    return Transformer(data, **{"layers": 1, "width": 8, "batch_size": 4, **arguments})


def random_params(model: Transformer, seed: int = 1) -> Any:
    """Parameters of which none is zero, as after training."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(model.init, KEY)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape) / 2, leaf.dtype), shapes)


@cache
def compiled(function: Any) -> Any:
    """Compile a whole function at once, which is quicker than one operation after the other."""
    return jax.jit(function)


@cache
def value_and_slope(model: Transformer) -> Any:
    return jax.jit(jax.value_and_grad(model.loss))


def some_tokens(sequences: int = 3, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, SYMBOLS, (sequences, CONTEXT)).astype(np.int32)


# The model


@pytest.mark.parametrize(("layers", "width", "heads"), [(1, 8, 1), (2, 64, 2), (3, 12, 4)])
def test_sizes_of_the_parameters(layers: int, width: int, heads: int) -> None:
    model = Transformer(SOURCE, layers, width, heads)
    leaves = jax.tree.leaves(jax.eval_shape(model.init, KEY))
    tables = (2 * SYMBOLS + CONTEXT) * width
    assert sum(leaf.size for leaf in leaves) == tables + 12 * layers * width**2 + (2 * layers + 1) * width


@pytest.mark.parametrize("data", [SOURCE, Text("to be or not to be, " * 40, context=5)], ids=["markov", "text"])
def test_the_first_loss_is_the_logarithm_of_the_number_of_symbols(data: datasets.Sequences) -> None:
    """L1. For any mini-batch, since the output's weight is zero."""
    model = tiny(data)
    batch = jnp.asarray(data.train_inputs[:7]), jnp.asarray(data.train_labels[:7])
    assert float(model.loss(model.init(KEY), batch, KEY)) == pytest.approx(np.log(data.classes), rel=1e-6)


def test_no_symbol_sees_those_behind_it() -> None:
    """L2. In both precisions."""
    tokens = some_tokens()
    for model in (tiny(heads=2), tiny(heads=2, bfloat16=True)):
        params = random_params(model)
        logits_of = compiled(model.logits)
        logits = logits_of(params, tokens)
        for place in range(1, CONTEXT):
            changed = tokens.copy()
            changed[:, place:] = (changed[:, place:] + 1) % SYMBOLS
            other = logits_of(params, changed)
            np.testing.assert_array_equal(other[:, :place], logits[:, :place])
            assert (other[:, place] != logits[:, place]).any()


@pytest.mark.parametrize("length", [1, 5, CONTEXT])
def test_logits_equal_those_of_numpy(length: int, x64: None) -> None:
    """One head and one sequence at a time, by loops."""
    model = tiny(layers=2, heads=2)
    params = jax.tree.map(np.asarray, random_params(model))
    tokens = some_tokens()[:, :length]
    expected = [plain_logits(params, sequence, heads=2) for sequence in tokens]
    np.testing.assert_allclose(compiled(model.logits)(params, tokens), expected, rtol=1e-9, atol=1e-12)


def plain_logits(params: Any, tokens: np.ndarray, heads: int) -> np.ndarray:
    def norm(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return scale * x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-6)

    def gelu(x: np.ndarray) -> np.ndarray:
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    def attend(x: np.ndarray, part: Any) -> np.ndarray:
        outputs = []
        split = (np.split(x @ part[name], heads, 1) for name in ("query", "key", "value"))
        for query, key, value in zip(*split, strict=True):
            rows = []
            for place in range(len(x)):
                weights = np.exp(key[: place + 1] @ query[place] / np.sqrt(len(query[place])))
                rows.append(weights @ value[: place + 1] / weights.sum())
            outputs.append(np.array(rows))
        return np.hstack(outputs) @ part["projection"]

    x = params["embedding"]["token"][tokens] + params["embedding"]["position"][: len(tokens)]
    for layer in params["layers"]:
        x = x + attend(norm(x, layer["attention"]["norm"]), layer["attention"])
        x = x + gelu(norm(x, layer["mlp"]["norm"]) @ layer["mlp"]["up"]) @ layer["mlp"]["down"]
    return norm(x, params["output"]["norm"]) @ params["output"]["weight"]


def test_absent_tokens_have_no_gradient() -> None:
    """L4. Neither at the embedding nor at places that no sequence reaches."""
    model = tiny()
    tokens = np.array([[0, 2, 2, 0, 4], [4, 0, 0, 2, 2]], np.int32)
    slope = value_and_slope(model)(random_params(model), (tokens, tokens), KEY)[1]["embedding"]
    assert np.any(slope["token"] != 0, axis=1).tolist() == [True, False, True, False, True, False]
    assert np.any(slope["position"] != 0, axis=1).tolist() == [True] * 5 + [False] * 3


def test_bfloat16_is_close_to_single_precision() -> None:
    """Within a few roundings of eight bits, and parameters and gradients keep their precision."""
    batch = (some_tokens(), some_tokens(seed=3))
    exact, exact_slope = value_and_slope(tiny())(random_params(tiny()), batch, KEY)
    for cast in (jnp.float32, jnp.bfloat16):
        params = jax.tree.map(lambda leaf: leaf.astype(cast), random_params(tiny()))  # noqa: B023
        loss, slope = value_and_slope(tiny(bfloat16=True))(params, batch, KEY)
        assert loss.dtype == jnp.float32
        assert 0 < abs(float(loss - exact)) < 0.03 * float(exact)
        for one, other in zip(jax.tree.leaves(slope), jax.tree.leaves(exact_slope), strict=True):
            assert one.dtype == cast
            assert float(jnp.abs(one - other).max()) < 0.1 * float(jnp.abs(other).max())


# Evaluation


def test_the_evaluation_is_that_of_all_test_sequences() -> None:
    model = tiny(Markov(1, SYMBOLS, sequences=3000, context=CONTEXT), training_loss=True)
    params, data = random_params(model), model.data
    assert len(data.test_labels) * CONTEXT > 1000  # so that it takes several slices
    measured = jax.tree.map(float, model.evaluate(params))
    logits = np.asarray(compiled(model.logits)(params, data.test_inputs), float)
    chosen = np.take_along_axis(logits, data.test_labels[..., None], axis=-1)[..., 0]
    loss = (np.log(np.exp(logits).sum(axis=-1)) - chosen).mean()
    assert measured["test_loss"] == pytest.approx(loss, rel=1e-5)
    assert measured["perplexity"] == pytest.approx(np.exp(loss), rel=1e-5)
    assert measured["test_accuracy"] == pytest.approx((logits.argmax(axis=-1) == data.test_labels).mean(), rel=1e-5)
    assert set(measured) == {*model.measures} == {"test_loss", "test_accuracy", "perplexity", "training_loss"}


def test_each_worker_has_the_loss_of_its_own_sequences() -> None:
    shared = datasets.partition(SOURCE, 3, by="quantity", least=4)
    model = tiny(shared)
    params = random_params(model)
    assert model.evaluate_workers is not None
    measured = model.evaluate_workers(params)["worker_loss"]
    for worker, rows in enumerate(shared):
        logits = jax.nn.log_softmax(compiled(model.logits)(params, SOURCE.train_inputs))[rows]
        loss = -np.take_along_axis(np.asarray(logits), SOURCE.train_labels[rows][..., None], axis=-1).mean()
        assert float(measured[worker]) == pytest.approx(loss, rel=1e-5)


def test_losses_approach_the_conditional_entropy_and_not_less() -> None:
    """L3. At every place, within 3.5 standard errors. Without training the loss is far above it."""
    source = Markov(1, 4, 0.5, seed=1, sequences=3000, context=CONTEXT, test_fraction=0.4)
    model = Transformer(source, layers=1, width=16, batch_size=32)
    trace = gamma_trace(workers=2, commits=300, cv=0.1)
    run = asim.replay(trace, rules.ServerOptimiser(0.02, optimiser="adamw"), model)
    logits = jax.nn.log_softmax(compiled(model.logits)(run.central, source.test_inputs))
    losses = -np.take_along_axis(np.asarray(logits), source.test_labels[..., None], axis=-1)[..., 0]
    bound = [source.conditional_entropy(places) for places in range(1, CONTEXT + 1)]
    errors = losses.std(axis=0) / np.sqrt(len(losses))
    assert (losses.mean(axis=0) > bound - 3.5 * errors).all()
    assert losses.mean() < np.mean(bound) + 0.05 < np.log(4) - 0.1


def test_it_beats_the_tables_of_pairs_of_characters() -> None:
    """L5. They are fitted to the same training sequences. It continues a text in its alphabet."""
    text = Text()
    model = Transformer(text, layers=1, width=32, batch_size=16)
    run = asim.replay(gamma_trace(workers=2, commits=400), rules.ServerOptimiser(0.01, optimiser="adamw"), model)
    assert run.evaluate()["test_loss"] < text.table_loss(1) < text.table_loss(0)
    written = model.sample(run.central, "The ", length=40)
    assert (written[:4], len(written)) == ("The ", 44)
    assert set(written) <= set(text.vocabulary)


# Symmetries, and the engine


class Rotated(Transformer):
    """The same model, whose hidden layers are given in rotated coordinates."""

    name = "rotated"

    def init(self, key: jax.Array) -> Any:
        return self.rotated(super().init(key), inverse=True)

    def loss(self, params: Any, batch: Any, key: jax.Array) -> jax.Array:
        return super().loss(self.rotated(params), batch, key)

    def rotated(self, params: Any, inverse: bool = False) -> Any:
        mlp = params["layers"][0]["mlp"]
        rotation, _ = np.linalg.qr(np.random.default_rng(4).normal(size=(mlp["up"].size, mlp["up"].size)))
        up = ((rotation.T if inverse else rotation) @ mlp["up"].ravel()).reshape(mlp["up"].shape)
        layer = {**params["layers"][0], "mlp": {**mlp, "up": up}}
        return {**params, "layers": [layer]}


def test_sgd_does_not_see_a_rotation_whatever_the_delays_and_adam_does(x64: None) -> None:
    """L6."""
    trace = gamma_trace(workers=4, commits=25)
    both = [kind(SOURCE, layers=1, width=4, heads=1, batch_size=4) for kind in (Transformer, Rotated)]
    sgd = [asim.replay(trace, rules.Downpour(0.3), model).loss for model in both]
    np.testing.assert_allclose(*sgd, rtol=1e-10)
    adam = [asim.replay(trace, rules.ServerOptimiser(0.02, optimiser="adam"), model).loss for model in both]
    assert np.abs(adam[0] - adam[1]).max() > 1e-3


def of_stages(commits: int) -> asim.Trace:
    return asim.simulate(asim.Pipeline(6, asim.delays.Constant(1.0)), commits=commits)


def in_rounds(commits: int) -> asim.Trace:
    cluster = asim.Cluster(4, asim.delays.Constant(1.0), protocol=asim.protocols.Synchronous())
    return asim.simulate(cluster, commits=commits)


def of_two(commits: int) -> asim.Trace:
    return gamma_trace(workers=2, commits=commits)


LEARNERS = {  # the loss falls from 1.79 to 1.5 at most
    "GEM": (gamma_trace, lambda: rules.GEM(0.1), {}),
    "six stages": (of_stages, lambda: rules.Downpour(0.3), {"layers": 2}),
    "DiLoCo": (
        in_rounds,
        lambda: rules.DiLoCo(0.02, window=4, server_learning_rate=0.7, momentum=0.6, optimiser="adamw"),
        {},
    ),
    "Muon in windows of two lengths": (
        of_two,
        lambda: rules.local(
            rules.DelayedNesterov(0.7, momentum=0.3), window=(2, 3), learning_rate=0.02, optimiser="muon"
        ),
        {},
    ),
    "compressed": (
        gamma_trace,
        lambda: rules.compressed(rules.MomentumSGD(0.1, momentum=0.5), asim.compressors.TopK(0.2)),
        {},
    ),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_it_learns_alike_in_pieces_with_other_seeds_and_in_the_plain_loop(name: str, x64: None) -> None:
    """L7. Processes are compared by `python -m tests.digits bits`."""
    schedule, make, arguments = LEARNERS[name]
    trace, rule, model, seeds = schedule(commits=60), make(), tiny(**arguments), (4, 3)
    whole = asim.replay(trace, rule, model, seeds)
    assert (whole.loss[:, 0] > 1.7).all()
    assert (whole.loss[:, -8:].mean(axis=1) < 1.55).all()
    half = asim.replay(trace, rule, model, seeds, commits=17)
    again = asim.replay(trace, rule, model, seeds, resume=half)
    np.testing.assert_array_equal(again.loss, whole.loss)
    jax.tree.map(np.testing.assert_array_equal, again.central, whole.central)
    alone = replay_plainly(schedule(commits=8), rule, model, seed=3)
    assert_close(whole.loss[1, :8], alone.loss, rtol=1e-8)


def test_layers_of_a_pipeline_come_in_the_order_of_the_computation() -> None:
    from asyncsim.workloads._groups import layers

    order = list(dict.fromkeys(layers(jax.eval_shape(tiny(layers=2).init, KEY))))
    inside = [f"layers/{layer}/{part}" for layer in (0, 1) for part in ("attention", "mlp")]
    assert order == ["embedding", *inside, "output"]


# Sampling


def test_a_sample_is_drawn_from_the_last_symbols() -> None:
    """At a low temperature it is the likeliest symbol after the last ones, by the whole model, also in a long text."""
    model = tiny()
    params = random_params(model)
    written = model.sample(params, "ab", length=2 * CONTEXT, temperature=1e-6)
    for place in range(2, len(written)):
        tokens = SOURCE.encode(written[max(0, place - CONTEXT) : place])
        filled = np.pad(tokens, (0, CONTEXT - len(tokens)))[None]  # Those behind do not matter.
        logits = compiled(model.logits)(params, filled)[0, len(tokens) - 1]
        assert written[place] == SOURCE.vocabulary[int(logits.argmax())]


def test_samples_have_the_probabilities_of_the_model() -> None:
    """Without a trained output all symbols are equally likely: counts of 600 draws within 4.5 standard errors."""
    model = tiny(datasets.partition(SOURCE, 2, by="iid"))
    written = model.sample(model.init(KEY), "a", length=600, seed=3)[1:]
    counts = [written.count(symbol) for symbol in SOURCE.vocabulary]
    assert np.abs(np.array(counts) - 100).max() < 4.5 * np.sqrt(600 / 6 * 5 / 6)
    assert written != model.sample(model.init(KEY), "a", length=600, seed=4)[1:]


WRONG = {
    "width": (lambda: tiny(width=9, heads=2), "`width` must be a multiple of `heads`, 2; got 9"),
    "layers": (lambda: tiny(layers=0), "`layers` must be an integer of at least 1; got 0"),
    "digits": (lambda: tiny(datasets.Digits()), "`data` must have a label for every symbol .* got 'digits'. Use data"),
    "text for MLP": (lambda: workloads.MLP(SOURCE, (4,), 4), "`data` must have one label per example; got 'markov'"),
    "text for a convnet": (lambda: workloads.ConvNet(SOURCE, 4), "`data` must be images of 28 × 28"),
    "batch": (lambda: tiny(batch_size=181), "`batch_size` must be at most the number of training examples, 180"),
    "prompt": (lambda: tiny().sample(tiny().init(KEY), ""), "`prompt` must be a text of at least one character"),
    "alphabet": (lambda: tiny().sample(tiny().init(KEY), "z"), "`text` must have characters of the vocabulary"),
    "temperature": (lambda: tiny().sample(tiny().init(KEY), "a", temperature=0), "`temperature` must be"),
}


@pytest.mark.parametrize("name", WRONG)
def test_arguments_that_do_not_fit_are_refused_by_name(name: str) -> None:
    assert_refused(*WRONG[name])
