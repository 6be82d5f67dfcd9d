"""Sequences of symbols: texts that come back, a source whose entropy is known, and tables of frequencies."""

import itertools
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncsim.components._description import NotRebuilt, describe, from_description
from asyncsim.components._digest import digest
from asyncsim.datasets import Markov, Sequences, Text, partition
from tests.problems import refusals

PROSE = "".join(np.random.default_rng(5).choice(list("ab cdé\n"), 1000))


def sequences_of(text: Text) -> list[str]:
    """All sequences of a text, with the symbol that is the last one's label."""
    halves = [(text.train_inputs, text.train_labels), (text.test_inputs, text.test_labels)]
    return [
        text.decode(np.append(row, label[-1:]))
        for inputs, labels in halves
        for row, label in zip(inputs, labels, strict=True)
    ]


# Text


@pytest.mark.parametrize("context", [1, 7, 99])
def test_the_sequences_are_the_text_in_pieces(context: int) -> None:
    length = context + 1
    pieces = [PROSE[start : start + length] for start in range(0, len(PROSE) - context, length)]
    made = sequences_of(Text(PROSE, context=context))
    assert sorted(made) == sorted(pieces)
    assert made != pieces  # They are shuffled, so that the test sequences are not the end of the text.


def test_labels_are_the_next_symbols() -> None:
    text = Text(PROSE, context=9)
    np.testing.assert_array_equal(text.train_inputs[:, 1:], text.train_labels[:, :-1])
    np.testing.assert_array_equal(text.test_inputs[:, 1:], text.test_labels[:, :-1])
    assert text.shape == (9,)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_the_share_is_held_out(share: float) -> None:
    text = Text(PROSE, context=9, test_fraction=share)
    assert (len(text.train_inputs), len(text.test_inputs)) == (100 - round(100 * share), round(100 * share))


def test_decoding_reverses_encoding() -> None:
    text = Text(PROSE)
    assert text.decode(text.encode(PROSE)) == PROSE
    assert sorted(text.vocabulary) == list(text.vocabulary)
    assert text.classes == len(text.vocabulary) == len(set(PROSE))


def test_the_text_of_python_needs_no_file() -> None:
    text = Text("python")
    assert text == Text()
    assert text.classes >= 90  # letters, digits and punctuation of any version
    assert len(text.train_inputs) > 8000
    assert "the" in text.decode(text.train_inputs[:50].ravel())


def test_a_file_is_the_text_that_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "book.txt"
    file.write_text(PROSE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    named = [Text(file), Text(str(file)), Text("book.txt")]
    monkeypatch.chdir("/")
    for text in (*named, pickle.loads(pickle.dumps(named[0]))):
        assert text.fingerprint == Text(PROSE).fingerprint
        assert (text.source, text.name) == (str(file), "text-book")
    file.write_text(PROSE.replace("a", "b"), encoding="utf-8")
    assert Text(file).fingerprint != Text(PROSE).fingerprint


def test_the_alphabet_is_part_of_the_fingerprint() -> None:
    """The numbers of the symbols are the same."""
    one, two = Text("ab" * 50, context=4), Text("xy" * 50, context=4)
    np.testing.assert_array_equal(one.train_inputs, two.train_inputs)
    assert one.fingerprint != two.fingerprint
    assert digest(one) != digest(two)


def test_a_description_names_a_file_and_reads_only_those_of_the_user(tmp_path: Path) -> None:
    file = tmp_path / "secret.txt"
    file.write_text(PROSE, encoding="utf-8")
    described = {"kind": "datasets.text", "source": str(file), "fingerprint": Text(PROSE).fingerprint}
    with pytest.raises(NotRebuilt, match="read only if you name them"):
        from_description(described)
    text = Text(file)
    assert from_description(json.loads(json.dumps(describe(text)))) == text


def test_a_description_holds_the_hash_of_a_long_text() -> None:
    text = Text(PROSE * 70)
    described = json.dumps(describe(text))
    assert len(described) < 300
    with pytest.raises(NotRebuilt, match="only a hash is kept"):
        from_description(json.loads(described))
    assert digest(text) != digest(Text(PROSE * 69 + PROSE[::-1]))


test_a_text_that_does_not_fit_is_refused_by_name = refusals(
    (
        {"source": "short"},
        r"`source` must be 'python', a file, or a text, of at least 66 characters .* got 5: 'short'",
    ),
    ({"source": ""}, "`source` must be .* got 0"),
    ({"source": PROSE, "context": 500}, "`source` must be .* at least 1002 characters"),
    ({"source": PROSE, "context": 0}, "`context` must be an integer of at least 1; got 0"),
    ({"source": 7}, "`source` must be 'python', a file, or a text; got 7"),
    ({"source": b"bytes"}, "`source` must be 'python', a file, or a text"),
    ({"source": PROSE, "test_fraction": 0.001}, "`test_fraction` must leave sequences .* 0 of 30 to test on"),
    ({"source": PROSE, "test_fraction": 1.0}, "`test_fraction` must leave sequences .* 30 of 30 to test on"),
    call=lambda arguments: Text(**arguments),
)
test_symbols_of_no_text_are_refused_by_name = refusals(
    (lambda text: text.encode("z"), "`text` must have characters of the vocabulary only; got 'z'"),
    (lambda text: text.encode(7), "`text` must be a text; got 7"),
    (lambda text: text.decode([7]), r"`tokens` must be \(length,\) integers from 0 to 6; got"),
    (lambda text: text.decode([-1]), "`tokens` must be"),
    (lambda text: text.decode([0.5]), "`tokens` must be"),
    (lambda text: text.decode([[1]]), "`tokens` must be"),
    (lambda text: text.table_loss(-1), "`context` must be an integer of at least 0; got -1"),
    (lambda text: text.table_loss(10**9), "`context` must be smaller for 7 symbols"),
    call=lambda ask: ask(Text(PROSE)),
)


@pytest.mark.parametrize(
    "path", ["missing.txt", "data/a long name of a folder, with spaces/text.md", "/tmp", "~/x", "./y"]
)
@pytest.mark.parametrize("context", [1, 32])
def test_a_mistyped_path_is_no_text(path: str, context: int) -> None:
    with pytest.raises(FileNotFoundError, match="is not a file"):
        Text(path, context=context)


def test_a_text_of_one_line_is_a_text() -> None:
    for text in ("to be or not to be. " * 10, "is 1.5 more than 1.4? " * 9, "It ends here. " * 9, "See a.txt\n" * 9):
        assert Text(text, context=3).source == text


def test_files_that_hold_no_text_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"`source` '.*nowhere.txt' is not a file"):
        Text(tmp_path / "nowhere.txt")
    (tmp_path / "latin.txt").write_bytes(PROSE.encode("latin-1"))
    with pytest.raises(ValueError, match=r"`source` '.*latin.txt' must be a text in UTF-8; byte \d+ is not"):
        Text(tmp_path / "latin.txt")


# Sequences of one's own


class Own(Sequences):
    train: Any
    test: Any
    symbols: int = 3

    def load(self) -> tuple[Any, ...]:
        return "own", self.train, self.test, self.symbols


def test_sequences_of_ones_own() -> None:
    own = Own([[0, 1, 2], [2, 1, 0]], [[1, 1, 1]])
    assert own.train_inputs.tolist() == [[0, 1], [2, 1]]
    assert own.train_labels.tolist() == [[1, 2], [1, 0]]
    assert own.decode([0, 1, 2]) == "abc"


test_sequences_that_do_not_fit_are_refused_by_name = refusals(
    (([0, 1], [[0, 1]]), r"`train` must be \(sequences, context \+ 1\) integers"),
    (([[0]], [[0]]), "`train` must be .* at least one sequence of two; got int64 of shape"),
    (([[0.0, 1.0]], [[0, 1]]), "`train` must be .* got float64"),
    (([[0, 1]], [[0, 3]]), "`test` must lie from 0 to `symbols` - 1, here 2; got 0 to 3"),
    (([[0, 1]], [[0, 1, 2]]), "`test` must have sequences as long as those of `train`, 2 symbols; got 3"),
    call=lambda halves: Own(*halves),
)


def test_sequences_are_shared_out() -> None:
    """Also into parts of unequal size that have to be filled up."""
    text = Text(PROSE, context=9)
    for by in ("iid", "quantity", np.arange(90) % 4):
        shared = partition(text, 4, by=by, cv=3.0, least=5)
        assert sorted(np.concatenate(list(shared)).tolist()) == list(range(90))
        assert shared.smallest >= 5
        assert shared.label_counts.sum(axis=0).tolist() == np.bincount(text.train_labels.ravel()).tolist()


test_sequences_have_no_label_to_be_shared_out_by = refusals(
    *((by, f"`by` must be 'iid' or 'quantity' for 'text', .* got '{by}'") for by in ("dirichlet", "mixture", "labels")),
    call=lambda by: partition(Text(PROSE), 4, by=by),
)


# Markov


def brute_entropies(source: Markov, longest: int) -> list[float]:
    """Entropies of all words of 0, 1, … symbols, from products of probabilities."""
    words = [np.array([1.0])]
    for length in range(1, longest + 1):
        probabilities = []
        for word in itertools.product(range(source.symbols), repeat=max(length, source.order)):
            code = int("".join(map(str, word[: source.order])) or "0", source.symbols or 1)
            chance = source.stationary[code]
            for place in range(source.order, len(word)):
                before = word[place - source.order : place]
                code = int("".join(map(str, before)) or "0", source.symbols)
                chance *= source.probabilities[code, word[place]]
            probabilities.append(chance)
        words.append(np.array(probabilities).reshape(source.symbols**length, -1).sum(axis=1))
    return [float(-(p * np.log(p)).sum()) for p in words]


@pytest.mark.parametrize(("order", "symbols"), [(0, 3), (1, 4), (2, 3), (3, 2)])
def test_entropies_are_those_of_all_words(order: int, symbols: int) -> None:
    source = Markov(order, symbols, 0.5, seed=1, sequences=20, context=3)
    expected = np.diff(brute_entropies(source, 5))
    measured = [source.conditional_entropy(k) for k in range(5)]
    np.testing.assert_allclose(measured, expected, rtol=1e-9)
    assert source.entropy_rate == measured[order]
    assert (np.diff(measured) <= 1e-12).all()


@pytest.mark.parametrize(("order", "symbols"), [(1, 6), (2, 4), (3, 3)])
def test_contexts_keep_their_stationary_distribution(order: int, symbols: int) -> None:
    source = Markov(order, symbols, 0.1, sequences=20)
    joint = source.stationary[:, None] * source.probabilities
    np.testing.assert_allclose(source.probabilities.sum(axis=1), 1)
    np.testing.assert_allclose(joint.reshape(symbols, -1).sum(axis=0), source.stationary, atol=1e-12)


@pytest.mark.parametrize(("order", "place"), [(0, 0), (1, 0), (1, 5), (2, 3)])
def test_symbols_follow_the_probabilities_at_every_place(order: int, place: int) -> None:
    """Counts of words are binomial, because sequences are independent: all are within 4.5 standard errors."""
    source = Markov(order, 4, 0.5, seed=2, sequences=20_000, context=6)
    tokens = np.hstack([source.train_inputs, source.train_labels[:, -1:]])
    codes = tokens[:, place : place + order + 1] @ 4 ** np.arange(order, -1, -1)
    share = np.bincount(codes, minlength=4 ** (order + 1)) / len(tokens)
    expected = (source.stationary[:, None] * source.probabilities).ravel()
    errors = np.sqrt(expected * (1 - expected) / len(tokens)) + 1 / len(tokens)
    assert np.abs((share - expected) / errors).max() < 4.5


def test_seeds_are_other_sources() -> None:
    one, two = (Markov(1, 4, seed=seed, sequences=20) for seed in (0, 1))
    assert one.fingerprint == Markov(1, 4, seed=0, sequences=20).fingerprint != two.fingerprint
    assert one.entropy_rate != two.entropy_rate


@pytest.mark.parametrize("k", [0, 1, 2])
def test_a_table_of_frequencies_approaches_the_conditional_entropy(k: int) -> None:
    """Within 4 standard errors above it, and above by the price of estimated cells, half a nat per cell and example."""
    source = Markov(2, 4, 0.5, seed=3, sequences=4000, context=8)
    bound = np.mean([source.conditional_entropy(min(k, places)) for places in range(1, 9)])
    losses = 400 * 8  # test symbols, whose losses have a standard deviation of about 1 nat
    price = 4 ** (k + 1) / (2 * 3600 * 8)
    assert -4 / np.sqrt(losses) < source.table_loss(k) - bound < price + 4 / np.sqrt(losses)


def test_longer_contexts_make_better_tables_of_the_text_of_python() -> None:
    text = Text()
    losses = [text.table_loss(k) for k in (0, 1, 2)]
    assert losses[0] < np.log(text.classes)
    assert losses[1] < losses[0] - 0.5
    assert losses[2] < losses[1] - 0.3


def test_a_table_by_hand() -> None:
    """After "a", "b" came twice and "a" once; p(b | a) = (2 + 2·p(b)) / (3 + 2), with p(b) = (3 + 2/2) / (6 + 2)."""
    own = Own([[0, 1, 1], [0, 0, 1], [1, 0, 0]], [[0, 1, 1]], symbols=2)
    labels = [1, 1, 0, 1, 0, 0]
    unigram = (np.bincount(labels) + 1) / 8
    assert own.table_loss(0) == pytest.approx(-np.log(unigram[1]))
    after = {0: [1, 0, 1, 0], 1: [1, 0]}
    p = {c: (sum(after[c]) + 2 * unigram[1]) / (len(after[c]) + 2) for c in after}
    assert own.table_loss(1) == pytest.approx(-np.log([p[0], p[1]]).mean())


test_a_source_that_does_not_fit_is_refused_by_name = refusals(
    ({"order": -1}, "`order` must be an integer of at least 0; got -1"),
    ({"order": 4}, "`order` must be smaller for 8 symbols, so that there are at most 2048 contexts; got 4"),
    ({"order": 10**9}, "`order` must be smaller for 8 symbols"),
    ({"order": 0, "symbols": 30_000}, "`symbols` must be at most 2048"),
    ({"symbols": 1}, "`symbols` must be an integer of at least 2; got 1"),
    ({"concentration": 0}, "`concentration` must be finite and positive; got 0"),
    ({"concentration": 1e-5}, r"`concentration` must lie from 0.01 to 1e\+06; got 1e-05"),
    ({"sequences": 5}, "`test_fraction` must leave sequences"),
    ({"seed": -1}, "`seed` must be an integer of at least 0"),
    call=lambda changed: Markov(**{"order": 2, "symbols": 8, **changed}),
)


def test_the_entropy_of_a_wrong_context_is_refused() -> None:
    with pytest.raises(ValueError, match="`context` must be an integer of at least 0; got -1"):
        Markov(1, 4, sequences=20).conditional_entropy(-1)
