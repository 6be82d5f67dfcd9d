"""Sequences of symbols: the characters of a text, and a Markov source whose entropy is known exactly."""

import os
import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim import _checks as checks
from asyncsim._checks import require_count, require_integer
from asyncsim.components._frozen import owned
from asyncsim.datasets._dataset import Contents, Dataset
from asyncsim.datasets._published import name_place, not_named
from asyncsim.files._hash import hash_parts

PYTHON = "python"  # the text that comes with the interpreter
STREAM = 0x7E47  # keeps the random numbers of the split apart from those that others draw from the same seed
LETTERS = string.ascii_lowercase + string.ascii_uppercase + string.digits
BEYOND_LETTERS = 0x4E00  # first of 20 992 characters in a row that can be printed
MOST_SYMBOLS = 20_000
MOST_CELLS = 2**24  # of a table of frequencies or probabilities
MOST_CONTEXTS = 2048  # of a Markov source, whose stationary distribution solves as many linear equations
LEAST_CONCENTRATION, MOST_CONCENTRATION = 1e-2, 1e6  # beyond which probabilities underflow, or are equal
UNIFORM = 1e-6  # share of the uniform distribution after any context, so that every context can be reached
PRIOR = 2.0  # weight of a shorter context in a table, in observations

Tokens = NDArray[np.int32]
Context = Annotated[int, require_count, "32 or 64 are usual."]
Share = Annotated[float, checks.require_positive, "Use 0.1, say."]


class Sequences(Dataset, named=False):
    """Sequences of symbols, of which each is to be predicted from those before it.

    A class of your own has a method `load` that returns a name, the sequences to train on, those to test on, both
    (sequences, context + 1) integers from 0, and the number of symbols. The inputs are then all symbols of a sequence
    but the last, and the labels all but the first. `workloads.Transformer` is a model of such data.

    Example:
        >>> class Counting(Sequences):
        ...     def load(self):
        ...         counts = np.arange(40).reshape(-1, 5) % 4
        ...         return "counting", counts[:6], counts[6:], 4
        >>> data = Counting()
        >>> data.train_inputs[0].tolist(), data.train_labels[0].tolist(), data.decode(data.test_inputs[0])
        ([0, 1, 2, 3], [1, 2, 3, 0], 'cdab')
    """

    @property
    def vocabulary(self) -> str:
        """One character for each symbol, in their order."""
        characters = map(chr, range(BEYOND_LETTERS, BEYOND_LETTERS + self.classes))
        return (LETTERS + "".join(characters))[: self.classes]

    def decode(self, tokens: ArrayLike) -> str:
        """Return the text of symbols.

        Args:
            tokens: (length,) integers from 0, less than the number of symbols.

        Raises:
            ValueError: If they are other values.
        """
        numbers = np.asarray(tokens)
        fits = numbers.ndim == 1 and (not numbers.size or numbers.dtype.kind in "iu")
        if not fits or (numbers.size and not 0 <= numbers.min() <= numbers.max() < len(self.vocabulary)):
            raise ValueError(
                f"`tokens` must be (length,) integers from 0 to {len(self.vocabulary) - 1}; got {checks.brief(tokens)}."
            )
        return "".join(self.vocabulary[number] for number in numbers.tolist())

    def encode(self, text: str) -> Tokens:
        """Return the numbers of the characters of a text, (length,) int32.

        Args:
            text: A text of characters of the vocabulary.

        Raises:
            ValueError: If a character is not in the vocabulary.
        """
        if not isinstance(text, str):
            raise ValueError(f"`text` must be a text; got {checks.brief(text)}. Use `decode` for numbers.")
        if unknown := set(text).difference(self.vocabulary):
            raise ValueError(
                f"`text` must have characters of the vocabulary only; got {min(unknown)!r}. The vocabulary is that of "
                "the text that the data set was made of."
            )
        numbers = {character: number for number, character in enumerate(self.vocabulary)}
        return np.array([numbers[character] for character in text], np.int32)

    def table_loss(self, context: int) -> float:
        """Return the loss of a table of frequencies on the test sequences, in nats per symbol.

        The table gives a symbol's probability after the last k symbols, from their counts n in the training sequences:
        p_k(s | c) = (n(c, s) + 2·p_{k-1}(s | c')) / (n(c) + 2), with c' the same context without its oldest symbol, and
        p_{-1} uniform. It is the yardstick of a language model: k = 0 is the unigram table, k = 1 the bigram table.
        At the beginning of a sequence it uses as many symbols as there are.

        Args:
            context: k, symbols before the one to be predicted.

        Raises:
            ValueError: If a table of so many contexts would have more than 2²⁴ cells.

        Example:
            >>> text = Text("the cat sat on the mat. " * 200, context=16)
            >>> [round(text.table_loss(k), 2) for k in (0, 1, 2)]
            [2.14, 0.62, 0.22]
        """
        longest = require_integer("context", context, remedy="Use 1 for pairs of symbols.")
        if (longest + 1) * np.log(self.classes) > np.log(MOST_CELLS) + 1e-9:
            raise ValueError(
                f"`context` must be smaller for {self.classes} symbols, so that a table has at most {MOST_CELLS} "
                f"cells; got {checks.brief(longest)}. Use 1 or 2."
            )
        symbols, labels = self.classes, self.test_labels
        probabilities = np.full(labels.shape, 1 / symbols)
        for length in range(min(longest, self.shape[0]) + 1):
            first = max(length - 1, 0)  # place of the first input that has so many symbols up to itself
            train_codes = _codes(self.train_inputs, length, symbols)
            test_codes = _codes(self.test_inputs, length, symbols)
            cells = train_codes * symbols + self.train_labels[:, first:]
            counts = np.bincount(cells.ravel(), minlength=symbols ** (length + 1)).reshape(-1, symbols)
            both, total = counts[test_codes, labels[:, first:]], counts.sum(axis=1)[test_codes]
            probabilities[:, first:] = (both + PRIOR * probabilities[:, first:]) / (total + PRIOR)
        return float(-np.log(probabilities).mean())

    @classmethod
    def _checked(cls, contents: Iterable[Any]) -> Contents:
        """Return inputs and labels of the sequences that `load` returns."""
        name, train, test, symbols = contents
        symbols = require_count("symbols", symbols, remedy="Give the number of different symbols.")
        checks.require_at_most("symbols", symbols, largest=MOST_SYMBOLS, remedy="A model has an output for each.")
        sequences = [_checked_sequences(part, values, symbols) for part, values in (("train", train), ("test", test))]
        if len({part.shape[1] for part in sequences}) > 1:
            raise ValueError(
                f"`test` must have sequences as long as those of `train`, {sequences[0].shape[1]} symbols; got "
                f"{sequences[1].shape[1]}."
            )
        cut = [np.ascontiguousarray(half) for part in sequences for half in (part[:, :-1], part[:, 1:])]
        train_inputs, train_labels, test_inputs, test_labels = map(owned, cut)
        return Contents(name, train_inputs, train_labels, test_inputs, test_labels, symbols)


def _checked_sequences(name: str, values: Any, symbols: int) -> Tokens:
    tokens = np.asarray(checks.refuse_mask(name, values))
    if tokens.ndim != 2 or not len(tokens) or tokens.shape[1] < 2 or tokens.dtype.kind not in "iu":
        raise ValueError(
            f"`{name}` must be (sequences, context + 1) integers, at least one sequence of two; got {tokens.dtype} of "
            f"shape {tokens.shape}."
        )
    if tokens.min() < 0 or tokens.max() >= symbols:
        raise ValueError(
            f"`{name}` must lie from 0 to `symbols` - 1, here {symbols - 1}; got {tokens.min()} to {tokens.max()}. "
            "Number the symbols from 0."
        )
    return tokens.astype(np.int32)


def _codes(inputs: Tokens, length: int, symbols: int) -> NDArray[np.int64]:
    """Return one number for the last symbols up to each input, for inputs that have so many: (sequences, places)."""
    places = inputs.shape[1] - max(length - 1, 0)
    codes = np.zeros((len(inputs), places), np.int64)
    for first in range(length):
        codes = codes * symbols + inputs[:, first : first + places]
    return codes


def _split(sequences: NDArray[Any], share: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the sequences without the last share of them, and that share, rounded down to whole sequences."""
    tested = int(len(sequences) * min(share, 1.0) + 1e-9)
    if not 0 < tested < len(sequences):
        raise ValueError(
            f"`test_fraction` must leave sequences to train on and to test on; got {share}, that is {tested} of "
            f"{len(sequences)} to test on. Use 0.1 of a longer text, say."
        )
    return sequences[: len(sequences) - tested], sequences[len(sequences) - tested :]


# A mistyped path must not become a text of its own: one line that begins as a path or ends in a suffix.
PATH_PATTERN = re.compile(r"(?=.{1,255}\Z)(?:(?:[~/]|\.{1,2}/|[A-Za-z]:\\).*|.*\w\.[a-z0-9]{1,5})")


def _source(name: str, value: Any) -> str:
    """Return the absolute path of a file, or another text as it is."""
    if not isinstance(value, (str, os.PathLike)):
        raise ValueError(f"`{name}` must be {PYTHON!r}, a file, or a text; got {checks.brief(value)}.")
    if value == PYTHON:
        return PYTHON
    if isinstance(value, str) and not (PATH_PATTERN.fullmatch(value) or os.path.isfile(os.path.expanduser(value))):
        return value
    path = Path(value).expanduser().absolute()
    if not path.is_file():
        raise FileNotFoundError(f"`{name}` {str(path)!r} is not a file. Name one, or give the text itself.")
    name_place(path)
    return str(path)


class Text(Sequences):
    """The characters of a text, in sequences of `context` + 1 that do not overlap.

    The symbols are the different characters of the whole text, in the order of their code points. The sequences are
    shuffled once, always in the same order, and the last share of them is held out for testing. Characters at the end
    that fill no sequence are left out.

    Args:
        source: "python" for the topics of the interactive help of Python, which come with it (464 970 characters, 103
            different ones, in CPython 3.11, and others in other versions). Or the path of a file in UTF-8, or the text.
            A string is a path if there is such a file, or if it looks like one: a line that ends in `.txt`, say.
        context: Characters that a model sees at most before the one that it predicts.
        test_fraction: Share of the sequences kept for testing, between 0 and 1, rounded down to whole sequences.

    Raises:
        FileNotFoundError: If a path is not that of a file.
        ValueError: If the file is not in UTF-8, or the text is too short to train and to test on.

    Example:
        >>> text = Text("to be or not to be, " * 100, context=8)
        >>> text.train_inputs.shape, text.test_inputs.shape, text.vocabulary
        ((200, 8), (22, 8), ' ,benort')
        >>> text.decode(text.encode("not to be"))
        'not to be'
    """

    source: Annotated[str | os.PathLike[str], _source] = PYTHON
    context: Context = 32
    _: KW_ONLY
    test_fraction: Share = 0.1

    @classmethod
    def _obstacle(cls, arguments: Mapping[str, Any]) -> str | None:
        """Say why a description cannot read the file: it reads only those that the user has named."""
        source = arguments.get("source", PYTHON)
        return not_named(source) if os.path.isfile(source) and source != PYTHON else None

    @property
    def _is_file(self) -> bool:
        return self.source != PYTHON and os.path.isfile(self.source)

    @cached_property
    def vocabulary(self) -> str:  # type: ignore[override]
        """The different characters of the text, in the order of their code points."""
        return "".join(sorted(set(self._read())))

    def files(self) -> list[Path]:
        """Return the file, if the source is one."""
        return [Path(self.source)] if self._is_file else []

    def load(self) -> tuple[Any, ...]:
        text, length = self._read(), self.context + 1
        whole = len(text) // length
        if whole < 2:
            raise ValueError(
                f"`source` must be {PYTHON!r}, a file, or a text, of at least {checks.brief(2 * length)} characters "
                f"for a `context` of {checks.brief(self.context)}; got {len(text)}: {checks.brief(text)}. Give more."
            )
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        tokens = np.unique(points, return_inverse=True)[1][: whole * length].reshape(whole, length)
        shuffled = tokens[np.random.default_rng(STREAM).permutation(whole)]
        place = Path(self.source).stem if self._is_file else self.source if self.source == PYTHON else ""
        return f"text-{place}".rstrip("-"), *_split(shuffled, self.test_fraction), len(self.vocabulary)

    def _read(self) -> str:
        """Return the whole text."""
        if self.source == PYTHON:
            from pydoc_data.topics import topics

            return "".join(topics.values())
        if not self._is_file:
            return str(self.source)
        try:
            return Path(self.source).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"`source` {self.source!r} must be a text in UTF-8; byte {error.start} is not. Convert the file."
            ) from None

    def _fingerprint_of(self, contents: Contents) -> str:
        # Two texts that differ in their alphabets only have the same numbers.
        return hash_parts(super()._fingerprint_of(contents), self.vocabulary)


def _concentration(name: str, value: Any) -> float:
    value = checks.require_positive(name, value, remedy="0.1 makes the next symbol nearly certain, 10 nearly random.")
    if not LEAST_CONCENTRATION <= value <= MOST_CONCENTRATION:
        raise ValueError(
            f"`{name}` must lie from {LEAST_CONCENTRATION:g} to {MOST_CONCENTRATION:g}; got {checks.brief(value)}. "
            "Use 0.3, say."
        )
    return value


def _symbols(name: str, value: Any) -> int:
    value = require_integer(name, value, least=2, remedy="Use 8, say.")
    return int(checks.require_at_most(name, value, largest=MOST_CONTEXTS, remedy="Use 8, say."))


class Markov(Sequences):
    """A stationary Markov source of known entropy, so that the excess loss of a model is known as well.

    After each context of `order` symbols the next one has probabilities that are drawn once: (1 - 10⁻⁶)·d + 10⁻⁶/V,
    with d from Dirichlet(α, …, α) and V symbols. The sequences are independent of each other, and their first symbols
    have the stationary distribution. No model has a smaller expected loss at a place with k symbols before the one to
    be predicted than `conditional_entropy(k)`, and the mean of this over k = 1 … `context` bounds the test loss.

    Args:
        order: m, symbols that the next one depends on, from 0. There may be at most 2048 different contexts.
        symbols: V, number of symbols.
        concentration: α, from 0.01 to a million: small values make the next symbol nearly certain.
        seed: Seed of the probabilities and of the sequences.
        context: Symbols that a model sees at most before the one that it predicts.
        sequences: Number of sequences of `context` + 1 symbols.
        test_fraction: Share of the sequences kept for testing, between 0 and 1, rounded down to whole sequences.

    Example:
        >>> source = Markov(order=2, symbols=8, concentration=0.3, seed=0)
        >>> [round(source.conditional_entropy(k), 3) for k in (0, 1, 2, 3)], round(source.entropy_rate, 3)
        ([2.01, 1.854, 1.139, 1.139], 1.139)
        >>> bool(abs(source.table_loss(2) - np.mean([source.conditional_entropy(k) for k in range(1, 33)])) < 0.02)
        True
    """

    order: Annotated[int, require_integer, "Use 1 or 2."] = 2
    symbols: Annotated[int, _symbols] = 8
    concentration: Annotated[float, _concentration] = 0.3
    seed: Annotated[int, require_integer, "Give a whole number."] = 0
    _: KW_ONLY
    context: Context = 32
    sequences: Annotated[int, require_count, "Use 10000, say."] = 10_000
    test_fraction: Share = 0.1

    def check(self) -> None:
        """Refuse sources with too many contexts, and draw the sequences."""
        if self.order * np.log(self.symbols) > np.log(MOST_CONTEXTS) + 1e-9:
            raise ValueError(
                f"`order` must be smaller for {self.symbols} symbols, so that there are at most {MOST_CONTEXTS} "
                f"contexts; got {checks.brief(self.order)}. Use fewer symbols, or 1."
            )
        super().check()

    @cached_property
    def probabilities(self) -> np.ndarray:
        """(contexts, symbols) probabilities of the next symbol. The last symbol of a context changes fastest."""
        rng = np.random.default_rng((STREAM, self.seed))
        drawn = rng.dirichlet(np.full(self.symbols, self.concentration), self.symbols**self.order)
        return owned((1 - UNIFORM) * drawn + UNIFORM / self.symbols)

    @cached_property
    def stationary(self) -> np.ndarray:
        """(contexts,) probabilities of the contexts, in the long run."""
        contexts = len(self.probabilities)
        moves = np.zeros((contexts, contexts))
        before = np.arange(contexts)[:, None]
        np.add.at(moves, ((before * self.symbols + np.arange(self.symbols)) % contexts, before), self.probabilities)
        moves[np.diag_indices(contexts)] -= 1
        moves[0] = 1  # One equation follows from the others. This one says that all probabilities make 1.
        solution = np.clip(np.linalg.solve(moves, np.eye(contexts)[0]), 0, None)
        return owned(solution / solution.sum())

    @property
    def entropy_rate(self) -> float:
        """Entropy of a symbol after all before it, in nats: the least loss of a model with enough context."""
        return self.conditional_entropy(self.order)

    def conditional_entropy(self, context: int) -> float:
        """Return the entropy of a symbol after the k before it, in nats: the least expected loss that k symbols allow.

        Args:
            context: k, from 0. From the source's order on, more symbols tell nothing more.
        """
        order = min(require_integer("context", context, remedy="Use 0 for the entropy of one symbol."), self.order)
        joint = (self.stationary[:, None] * self.probabilities).reshape(-1, self.symbols ** (order + 1)).sum(axis=0)
        before = joint.reshape(-1, self.symbols).sum(axis=1)
        return _entropy(joint) - _entropy(before)

    def load(self) -> tuple[Any, ...]:
        rng = np.random.default_rng((STREAM, self.seed, 1))
        length, contexts = self.context + 1, len(self.probabilities)
        code = rng.choice(contexts, self.sequences, p=self.stationary)
        tokens = np.empty((self.sequences, max(length, self.order)), np.int32)
        for place in range(self.order):
            tokens[:, place] = code // self.symbols ** (self.order - 1 - place) % self.symbols
        bounds = np.cumsum(self.probabilities, axis=1)[:, :-1]
        for place in range(self.order, length):
            tokens[:, place] = (bounds[code] <= rng.random(self.sequences)[:, None]).sum(axis=1)
            code = (code * self.symbols + tokens[:, place]) % contexts
        return self.name, *_split(tokens[:, :length], self.test_fraction), self.symbols


def _entropy(probabilities: np.ndarray) -> float:
    positive = probabilities[probabilities > 0]
    return float(-(positive * np.log(positive)).sum())
