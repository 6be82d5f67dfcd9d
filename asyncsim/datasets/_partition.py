"""A data set shared out to workers: alike, by labels, by Dirichlet shares of the labels, or by quantity."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np

from asyncsim import _checks as checks
from asyncsim._checks import require_count, require_integer
from asyncsim._metrics import counted
from asyncsim.components._checked import checked
from asyncsim.components._component import Component
from asyncsim.components._frozen import Frozen, owned
from asyncsim.datasets._dataset import Contents, Dataset
from asyncsim.files._hash import hash_parts


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Parts(Frozen):
    """Numbers of the examples that each worker has. No example has two owners, and every worker has at least one.

    Attributes:
        order: (owned examples,) int32, the examples of worker 0, then those of worker 1, and so on. Read-only.
        offsets: (workers + 1,) int64, where each worker's part begins in `order`, and where the last one ends.

    `len` is the number of workers, `parts[w]` has the examples of worker w, and a loop takes the workers in turn.

    Raises:
        ValueError: If a part is empty, or an example is in two parts.

    Example:
        >>> parts = Parts.of([[0, 3], [1, 2, 4]])
        >>> len(parts), parts[1].tolist(), parts.sizes.tolist()
        (2, [1, 2, 4], [2, 3])
        >>> Parts.of([[0, 3], [3, 4]])
        Traceback (most recent call last):
        ValueError: `parts` must not share examples; example 3 is in two of them. Give each example one owner.
    """

    order: np.ndarray = field(repr=False)
    offsets: np.ndarray = field(repr=False)

    def __post_init__(self) -> None:
        for name, dtype in (("order", np.int32), ("offsets", np.int64)):
            values = np.asarray(checks.refuse_mask(name, getattr(self, name)))
            with np.errstate(invalid="ignore"):
                array = values.astype(dtype)
            if not np.array_equal(array, values):
                raise ValueError(f"`{name}` must hold integers of {array.dtype}; got {values.dtype}. Count from 0.")
            object.__setattr__(self, name, owned(array))
        if len(self.offsets) < 2 or (self.sizes < 1).any():
            empty = int(self.sizes.argmin()) if len(self.offsets) > 1 else 0
            raise ValueError(
                f"`parts` must have at least one example each; worker {empty} has none. Use fewer workers, or give it "
                "some."
            )
        if self.order.min() < 0:
            raise ValueError(f"`parts` must have numbers of examples from 0; got {self.order.min()}. Count from 0.")
        counted = np.bincount(self.order)
        if counted.max() > 1:
            raise ValueError(
                f"`parts` must not share examples; example {counted.argmax()} is in two of them. Give each example "
                "one owner."
            )

    @classmethod
    def of(cls, parts: "Parts | Iterable[Any]") -> "Parts":
        """Make parts from one sequence of example numbers per worker.

        Raises:
            ValueError: If they are no such sequences, or as for the class.
        """
        if isinstance(parts, Parts):
            return parts
        if isinstance(parts, str) or not isinstance(parts, Iterable):
            raise ValueError(f"`parts` must be one sequence of example numbers per worker; got {checks.brief(parts)}.")
        arrays = [np.asarray(checks.refuse_mask("parts", part)) for part in parts]
        for worker, array in enumerate(arrays):
            if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
                raise ValueError(
                    f"`parts` must be one sequence of example numbers per worker; that of worker {worker} is "
                    f"{array.dtype} of shape {array.shape}. Give, say, [[0, 1], [2, 3, 4]]."
                )
        sizes = [array.size for array in arrays]
        return cls(np.concatenate(arrays) if sizes else np.zeros(0), np.cumsum([0, *sizes]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, worker: int) -> np.ndarray:
        if not -len(self) <= worker < len(self):
            raise IndexError(f"there are {len(self)} workers; got {worker}")
        worker %= len(self)
        return self.order[self.offsets[worker] : self.offsets[worker + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[worker] for worker in range(len(self)))

    def __repr__(self) -> str:
        return f"Parts({counted(len(self), 'worker')}, {span(self.sizes)})"

    @property
    def sizes(self) -> np.ndarray:
        """(workers,) examples of each worker."""
        return np.diff(self.offsets)

    @property
    def owner(self) -> np.ndarray:
        """(owned examples,) int32, the worker of each entry of `order`."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.sizes)

    @property
    def fingerprint(self) -> str:
        """First digits of the SHA-256 of the arrays."""
        return hash_parts(self.order, self.offsets)


def span(sizes: np.ndarray) -> str:
    low, high = int(sizes.min()), int(sizes.max())
    return f"{low} to {high} examples each" if low < high else f"{low} examples each"


EQUAL: Literal["equal"] = "equal"
SIZES = "sizes"  # weight of a worker's gradient: as any other's, or as its examples
STREAM = 0x9A27  # keeps the random numbers apart from those that others draw from the same seed
MOST_ALPHA = 1e12  # all shares are equal to six digits
LEAST_CV, MOST_CV = 1e-6, 1e6  # of sizes that are equal, or of which one is all, beyond which numbers overflow
UNLABELLED = ("iid", "quantity")  # ways to share sequences out
OWN = "own"  # `by` of a partition that the caller made, in words
SHARING_DEFAULTS = (("least", 1), ("seed", 0), ("weighting", EQUAL))
SMALLEST = -100.0  # logarithm of the smallest share, relative to the largest: smaller ones never become an example
MOST_SCALINGS = 100  # of a table of shares, after which examples are moved one by one


def _unshared(name: str, data: Any) -> Dataset:
    """Return the data set before it was shared out."""
    if not isinstance(data, Dataset):
        received = type(data).__name__
        raise ValueError(f"`{name}` must be an asyncsim.datasets.Dataset; got {received}. Use Digits(), say.")
    return data.data if isinstance(data, Partition) else data


def _concentration(name: str, value: Any) -> float:
    value = checks.require_positive(name, value, remedy="0.1 gives most workers few labels, 100 makes them alike.")
    return checks.require_at_most(name, value, largest=MOST_ALPHA, remedy="Share the data out by 'iid'.")


def _spread(name: str, value: Any) -> float:
    value = checks.require_not_negative(name, value, remedy="1 is usual; 0 gives equal sizes.")
    value = checks.require_at_most(name, value, largest=MOST_CV, remedy="One worker has nearly all from 10 on.")
    return value if value > LEAST_CV else 0.0


Concentration = Annotated[float, _concentration]
LabelCount = Annotated[int, require_count, "2 is usual."]
Spread = Annotated[float, _spread]
Least = Annotated[int, require_count, "Every worker needs an example."]
Seed = Annotated[int, require_integer, "Give a whole number."]


class Partition(Dataset):
    """A data set whose training examples are shared out to workers: disjoint parts, none empty, nothing left over.

    Use it wherever a data set is expected. `len` is the number of workers, and `partition[w]` has the numbers of worker
    w's training examples. The test examples are everybody's.

    Ways to do it:
        - "iid": Shuffled and cut into equal parts (sizes differ by at most one).
        - "dirichlet": The examples of each label are shared out by Dirichlet(α, …, α) over the workers: the smaller α,
          the fewer workers have a label. Sizes differ as well.
        - "mixture": Parts of one size, for each of which the shares of the labels are drawn from Dirichlet(α, …, α).
          All shares are then scaled together until the parts use every example once, and the parts are dealt out at
          random. With k equally frequent labels and n workers, n well above k, the variance of a share is
          (1 - 1/n)·(1/k)(1 - 1/k)/(kα + 1) for every worker. Fewer workers are more alike, because a part larger than a
          label cannot consist of that label alone. (Published code deals out worker by worker, so that the last ones
          get the labels that are left over.)
        - "labels": Every worker has examples of as many different labels. Who has which is dealt out evenly at random,
          and those who have a label share its examples evenly.
        - "quantity": Shuffled, and cut into parts whose sizes are in the ratio of gamma variables with coefficient of
          variation `cv`: Dirichlet(1/cv²) shares.

    A part that would have fewer than `least` examples is filled up from the largest one, label by label. (Published
    code draws again until none is too small, which ends for few workers only.)

    Args:
        data: The data set. One that was shared out already is shared out anew.
        workers: Number of workers.
        by: "dirichlet", "mixture", "labels", "quantity" or "iid", or the worker of each training example, (examples,)
            integers, for data that have owners.
        alpha: Concentration α > 0, with "dirichlet" and "mixture".
        labels: Different labels of each worker, with "labels".
        cv: Coefficient of variation of the sizes, with "quantity", 0 for equal sizes.
        least: Examples that every worker has at least. For mini-batches of b, give b or more.
        weighting: The weight of a worker's gradient: "equal", as much as every other's, or "sizes", its share of the
            examples times the number of workers, so that a rule that treats workers alike learns from examples alike.
        seed: Seed of all draws.

    Example:
        >>> from asyncsim.datasets import Digits
        >>> shared = Partition(Digits(), workers=5, by="labels", labels=2)
        >>> shared
        Partition(digits, 5 workers, 284 to 289 examples each, by='labels', labels=2)
        >>> (shared.label_counts > 0).sum(axis=1).tolist(), shared.smallest
        ([2, 2, 2, 2, 2], 284)
        >>> shared = partition(Digits(), workers=20, by="dirichlet", alpha=0.1, least=16)
        >>> len(shared), shared.smallest, int(shared.sizes.sum())
        (20, 16, 1438)

    References:
        Yurochkin et al. 2019, "Bayesian nonparametric federated learning of neural networks" (Dirichlet shares of each
        label). Hsu, Qi and Brown 2019, "Measuring the effects of non-identical data distribution for federated visual
        classification" (a mixture for each worker). Li, Diao, Chen and He 2022, "Federated learning on non-IID data
        silos: an experimental study" (labels, quantity).
    """

    data: Annotated[Dataset, _unshared]
    workers: Annotated[int, require_count, "Give that of the cluster."]
    by: str | Sequence[int] | np.ndarray = "dirichlet"
    alpha: Concentration = 0.1
    labels: LabelCount = 2
    cv: Spread = 1.0
    least: Least = 1
    weighting: Literal["equal", "sizes"] = EQUAL
    seed: Seed = 0

    def check(self) -> None:
        examples = len(self.data.train_labels)
        if self.workers * self.least > examples:
            each = "" if self.least == 1 else f" of at least {checks.brief(self.least)} each"
            raise ValueError(
                f"`workers` must be at most {examples // self.least} for {examples} training examples in parts{each}; "
                f"got {checks.brief(self.workers)}. Use fewer workers or more data."
            )
        if isinstance(self.by, str):
            checks.require_one_of("by", self.by, choices=SHARINGS)
            if self.data.train_labels.ndim > 1 and self.by not in UNLABELLED:
                raise ValueError(
                    f"`by` must be {' or '.join(map(repr, UNLABELLED))} for {self.data.name!r}, whose examples have a "
                    f"label at each place; got {self.by!r}. Or give the worker of each training example."
                )
            if self.by == "labels":
                _require_labels(self.labels, self.data, self.workers)
        else:
            object.__setattr__(self, "by", _owners(self.by, self.data, self.workers))
        super().check()
        self.parts  # noqa: B018

    @cached_property
    def contents(self) -> Contents:
        return self.data.contents

    @cached_property
    def parts(self) -> Parts:
        """Numbers of the training examples that each worker has."""
        labels, rng = self.data.train_labels, np.random.default_rng((STREAM, self.seed))
        if labels.ndim > 1:  # Sequences are all alike where parts are filled up.
            labels = np.zeros(len(labels), np.int32)
        if isinstance(self.by, str):
            drawn = cast(Drawn, sharing_of(self)).draw(rng, labels, self.workers)
            owner = filled(drawn, labels, self.workers, self.least, rng)
        else:
            owner = np.asarray(self.by)
        return Parts(np.argsort(owner, kind="stable"), np.cumsum([0, *np.bincount(owner)]))

    def __len__(self) -> int:
        return self.workers

    def __getitem__(self, worker: int) -> np.ndarray:
        return self.parts[worker]

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self.parts)

    def __repr__(self) -> str:
        changed = {key: value for key, value in self.settings().items() if (key, value) not in SHARING_DEFAULTS}
        texts = [
            self.name,
            counted(len(self), "worker"),
            span(self.sizes),
            *(f"{key}={changed[key]!r}" for key in changed),
        ]
        return f"Partition({', '.join(texts)})"

    @property
    def sizes(self) -> np.ndarray:
        """(workers,) training examples of each worker."""
        return self.parts.sizes

    @property
    def smallest(self) -> int:
        """Training examples of the worker that has fewest."""
        return int(self.sizes.min())

    @property
    def weights(self) -> np.ndarray:
        """(workers,) weight of each worker's loss in the objective, in all 1."""
        counted = self.sizes if self.weighting == SIZES else np.ones(len(self))
        return counted / counted.sum()

    @property
    def label_counts(self) -> np.ndarray:
        """(workers, classes) training examples of each label, or symbols of sequences, that each worker has."""
        counts = np.zeros((len(self), int(self.classes)), np.int64)
        labels = self.train_labels.reshape(len(self.train_labels), -1)  # of a sequence, several
        np.add.at(counts, (self.parts.owner[:, None], labels[self.parts.order]), 1)
        return counts

    @cached_property
    def fingerprint(self) -> str:
        """First digits of the SHA-256 of the data and of who has which."""
        return hash_parts(self.data.fingerprint, self.parts.fingerprint, self.weighting)

    def settings(self) -> dict[str, Any]:
        """Return the arguments that matter, but for data and workers. `by` is "own" for owners that were given."""
        sharing = sharing_of(self)
        return {"by": sharing.by or OWN, **{field.name: getattr(sharing, field.name) for field in fields(sharing)}}


partition = Partition  # It reads as an action: `partition(data, …)`.


def _balanced(logarithms: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Scale rows and columns of positive numbers to these sums of rows and, nearly, of columns."""
    logarithms = np.maximum(logarithms - logarithms.max(axis=1, keepdims=True), SMALLEST)
    for _ in range(MOST_SCALINGS):
        logarithms += (np.log(rows) - np.logaddexp.reduce(logarithms, axis=1))[:, None]
        if np.abs(np.exp(logarithms).sum(axis=0) - columns).max() < 0.5:  # Rounding adds more.
            return np.exp(logarithms)
        logarithms += np.log(columns) - np.logaddexp.reduce(logarithms, axis=0)
    return np.exp(logarithms + (np.log(rows) - np.logaddexp.reduce(logarithms, axis=1))[:, None])


def _whole_table(table: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the table in whole numbers: its sums of rows stay, and those of the columns become exact."""
    counts = np.floor(table).astype(np.int64)
    lacking = np.rint(table.sum(axis=1)).astype(np.int64) - counts.sum(axis=1)
    rank = np.argsort(np.argsort(counts - table, axis=1), axis=1)
    counts += rank < lacking[:, None]
    surplus = counts.sum(axis=0) - columns
    while surplus.any():  # One example moves from the fullest label to the emptiest, in the row with the least error.
        full, empty = int(surplus.argmax()), int(surplus.argmin())
        error = (table[:, full] - counts[:, full]) + (counts[:, empty] - table[:, empty])
        row = int(np.where(counts[:, full] > 0, error, np.inf).argmin())
        counts[row, [full, empty]] += (-1, 1)
        surplus[[full, empty]] += (-1, 1)
    return counts


def filled(owner: np.ndarray, labels: np.ndarray, workers: int, least: int, rng: np.random.Generator) -> np.ndarray:
    """Return the owners when parts that are too small have been filled up from the largest, one label at a time."""
    owner = owner.copy()
    sizes = np.bincount(owner, minlength=workers)
    while sizes.min() < least:
        poor, rich = int(sizes.argmin()), int(sizes.argmax())
        theirs = np.flatnonzero(owner == rich)
        common = theirs[labels[theirs] == np.bincount(labels[theirs]).argmax()]
        moved = rng.permutation(common)[: min(least - sizes[poor], sizes[rich] - least)]
        owner[moved] = poor
        sizes[poor] += len(moved)
        sizes[rich] -= len(moved)
    return owner


class Sharing(Component):
    """A way to share data out, with its arguments.

    Args:
        weighting: As in Partition.
    """

    weighting: Literal["equal", "sizes"] = EQUAL

    by: ClassVar[str | None] = None  # of `Partition`, or None for owners that were given

    def share(self, data: Dataset, workers: int) -> Partition:
        """Share a data set out in this way."""
        assert self.by is not None, "Owners that were given cannot be shared out anew."
        return Partition(data, workers, by=self.by, **{field.name: getattr(self, field.name) for field in fields(self)})


class Drawn(Sharing):
    """A way that draws who has which examples.

    Args:
        least: As in Partition.
        seed: As in Partition.
        weighting: As in Partition.
    """

    least: Least = 1
    seed: Seed = 0

    def draw(self, rng: np.random.Generator, classes: np.ndarray, workers: int) -> np.ndarray:
        """Draw the (examples,) owners. Some workers may have fewer examples than `least`."""
        raise NotImplementedError


class IID(Drawn):
    """Equal parts of shuffled examples."""

    by = "iid"

    def draw(self, rng: np.random.Generator, classes: np.ndarray, workers: int) -> np.ndarray:
        """Draw parts whose sizes differ by at most one."""
        return rng.permutation(np.arange(len(classes)) % workers)


class Dirichlet(Drawn):
    """Dirichlet shares of each label.

    Args:
        alpha: As in Partition.
        least: As in Partition.
        seed: As in Partition.
        weighting: As in Partition.
    """

    alpha: Concentration = 0.1

    by = "dirichlet"

    def draw(self, rng: np.random.Generator, classes: np.ndarray, workers: int) -> np.ndarray:
        owner = np.empty(len(classes), np.int64)
        for examples in _of_each_label(rng, classes):
            shares = rng.dirichlet(np.full(workers, self.alpha))
            # With a tiny α, all gamma variables may be rounded to 0. Then one worker has all.
            if not np.isfinite(shares).all():
                shares = np.eye(workers)[rng.integers(workers)]
            owner[examples] = _cut(shares, len(examples))
        return owner


class Mixture(Dirichlet):
    """Dirichlet shares of the labels in parts of one size."""

    by = "mixture"

    def draw(self, rng: np.random.Generator, classes: np.ndarray, workers: int) -> np.ndarray:
        """Draw equal parts with Dirichlet shares of the labels, balanced so that all examples are used."""
        groups = list(_of_each_label(rng, classes))
        sizes = np.bincount(np.arange(len(classes)) % workers)
        totals = np.array([len(examples) for examples in groups])
        shape = (workers, len(groups))
        # Logarithms of gamma variables of shape α, by those of shape α + 1, do not underflow, however small α is.
        logarithms = np.log(rng.gamma(self.alpha + 1, size=shape)) + np.log1p(-rng.random(shape)) / self.alpha
        # The shuffle treats all workers alike.
        counts = rng.permutation(_whole_table(_balanced(logarithms, sizes, totals), totals))
        owner = np.empty(len(classes), np.int64)
        for examples, of_label in zip(groups, counts.T, strict=True):
            owner[examples] = np.repeat(np.arange(workers), of_label)
        return owner


class Labels(Drawn):
    """So many labels for each worker.

    Args:
        labels: As in Partition.
        least: As in Partition.
        seed: As in Partition.
        weighting: As in Partition.
    """

    labels: LabelCount = 2

    by = "labels"

    def draw(self, rng: np.random.Generator, classes: np.ndarray, workers: int) -> np.ndarray:
        """Draw as many labels for each worker, each of them shared evenly by about as many workers."""
        groups = list(_of_each_label(rng, classes))
        owners: list[list[int]] = [[] for _ in groups]
        for worker in rng.permutation(workers).tolist():
            crowded = np.array([len(group) for group in owners]) + rng.random(len(groups))  # Ties are broken at random.
            for label in np.argsort(crowded)[: self.labels].tolist():
                owners[label].append(worker)
        owner = np.empty(len(classes), np.int64)
        for examples, of_label in zip(groups, owners, strict=True):
            owner[examples] = np.array(of_label)[np.arange(len(examples)) % len(of_label)]
        return owner


class Quantity(Drawn):
    """Parts of unequal size.

    Args:
        cv: As in Partition.
        least: As in Partition.
        seed: As in Partition.
        weighting: As in Partition.
    """

    cv: Spread = 1.0

    by = "quantity"

    def draw(self, rng: np.random.Generator, classes: np.ndarray, workers: int) -> np.ndarray:
        """Draw parts that are alike, but for their sizes."""
        if not self.cv:
            return IID().draw(rng, classes, workers)
        amounts = rng.gamma(1 / self.cv**2, size=workers)
        shares = amounts / amounts.sum() if amounts.sum() > 0 else np.eye(workers)[rng.integers(workers)]
        return rng.permutation(_cut(shares, len(classes)))


SHARINGS = {"dirichlet": Dirichlet, "iid": IID, "labels": Labels, "mixture": Mixture, "quantity": Quantity}


def sharing_of(partition: Partition) -> Sharing:
    """Return the way in which a data set was shared out."""
    kind = SHARINGS[partition.by] if isinstance(partition.by, str) else Sharing
    return kind(**{field.name: getattr(partition, field.name) for field in fields(kind)})


def _of_each_label(rng: np.random.Generator, labels: np.ndarray) -> Iterator[np.ndarray]:
    return (rng.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels))


def _cut(shares: np.ndarray, examples: int) -> np.ndarray:
    """Return the (examples,) owners in ascending order, by shares."""
    cuts = np.rint(np.cumsum(shares)[:-1] * examples).astype(np.int64)
    return np.searchsorted(cuts, np.arange(examples), side="right")


def _require_labels(number: int, data: Dataset, workers: int) -> None:
    present = len(np.unique(data.train_labels))
    if number > present:
        raise ValueError(
            f"`labels` must be at most the {present} labels that there are; got {checks.brief(number)}. Use 'iid'."
        )
    if number * workers < present:
        raise ValueError(
            f"`labels` must be at least {-(-present // workers)}, so that {workers} workers have all of the {present} "
            f"labels; got {checks.brief(number)}. Give more labels or more workers."
        )


def _owners(by: Any, data: Dataset, workers: int) -> np.ndarray:
    owner = np.asarray(checks.refuse_mask("by", by))
    examples = len(data.train_labels)
    if owner.shape != (examples,) or owner.dtype.kind not in "iu":
        raise ValueError(
            f"`by` must be one of {', '.join(map(repr, SHARINGS))}, or the worker of each of the {examples} training "
            f"examples; got {owner.dtype} of shape {owner.shape}."
        )
    if owner.min() < 0 or owner.max() >= workers:
        raise ValueError(
            f"`by` must have workers from 0 to {workers - 1}; got {owner.min()} to {owner.max()}. Count from 0."
        )
    without = np.setdiff1d(np.arange(workers), owner)
    if without.size:
        raise ValueError(f"`by` must give every worker an example; worker {without[0]} has none. Use fewer workers.")
    return owner.astype(np.int64)
