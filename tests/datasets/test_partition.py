"""Data shared out to workers: disjoint, none empty, nothing left over, and as different as was asked for."""

import pickle
from typing import Any

import numpy as np
import pytest

from asyncsim.datasets import AsColour, Dataset, Digits, Partition, Parts, partition
from tests.problems import refusals

DIGITS = Digits()
EXAMPLES = len(DIGITS.train_labels)
WAYS = {
    "iid": {},
    "dirichlet": {"alpha": 0.1},
    "mixture": {"alpha": 0.1},
    "labels": {"labels": 3},
    "quantity": {"cv": 1.0},
}


def shared(workers: int = 12, by: Any = "dirichlet", **options: Any) -> Partition:
    return partition(DIGITS, workers, by=by, **options)


@pytest.mark.quick
@pytest.mark.parametrize("workers", [1, 12, 300])
@pytest.mark.parametrize("by", WAYS)
def test_parts_share_nothing_leave_nothing_and_none_is_empty(by: str, workers: int) -> None:
    options = {"labels": 10} if by == "labels" and workers == 1 else WAYS[by]
    for seed in range(3):
        made = shared(workers, by, seed=seed, **options)
        assert sorted(np.concatenate(list(made)).tolist()) == list(range(EXAMPLES))
        assert len(made) == workers
        assert made.smallest == min(len(part) for part in made) >= 1
        assert made.label_counts.sum(axis=1).tolist() == made.sizes.tolist()
        assert made.label_counts.sum(axis=0).tolist() == np.bincount(DIGITS.train_labels).tolist()


@pytest.mark.parametrize("by", WAYS)
def test_the_seed_decides(by: str) -> None:
    first, again, other = (shared(by=by, seed=seed, **WAYS[by]) for seed in (0, 0, 1))
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert first.data.fingerprint == DIGITS.fingerprint


def test_alike_parts_are_of_one_size() -> None:
    assert set(shared(by="iid").sizes.tolist()) == {EXAMPLES // 12, EXAMPLES // 12 + 1}
    for cv in (0.0, 1e-200):
        assert shared(by="quantity", cv=cv).sizes.tolist() == sorted(shared(by="iid").sizes.tolist(), reverse=True)


@pytest.mark.parametrize(("workers", "labels"), [(5, 2), (12, 3), (40, 1), (7, 10)])
def test_every_worker_has_so_many_labels(workers: int, labels: int) -> None:
    counts = shared(workers, "labels", labels=labels).label_counts
    assert ((counts > 0).sum(axis=1) == labels).all()
    owners = (counts > 0).sum(axis=0)
    assert owners.max() - owners.min() <= 1, "labels are dealt out evenly"


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_shares_of_a_label_vary_as_dirichlet_says(alpha: float) -> None:
    """Var of a share of Dirichlet(α, …, α) over n workers is (1/n)(1 - 1/n)/(nα + 1)."""
    workers, of_label = 8, np.bincount(DIGITS.train_labels)
    shares = np.concatenate([(shared(workers, alpha=alpha, seed=seed).label_counts / of_label).T for seed in range(40)])
    squares = (shares - 1 / workers) ** 2
    expected = (1 - 1 / workers) / workers / (workers * alpha + 1)
    rounding = 1 / of_label.min() ** 2  # a whole number of examples
    assert abs(squares.mean() - expected) < 4 * squares.mean(axis=1).std() / len(squares) ** 0.5 + rounding


def test_mixtures_are_of_one_size() -> None:
    assert set(shared(40, "mixture", alpha=0.5).sizes.tolist()) == {35, 36}


@pytest.mark.parametrize(("labels", "alpha"), [(10, 5.0), (10, 0.5), (4, 2.0)])
def test_shares_of_a_mixture_vary_as_dirichlet_says_for_every_worker(labels: int, alpha: float) -> None:
    """Var of a share is (1/k)(1 - 1/k)/(kα + 1), times 1 - 1/n because all workers together have all examples."""
    workers, size, seeds = 40, 200, 60
    numbers = np.arange(workers * size) % labels
    data = Dataset("even", np.zeros((len(numbers), 1)), numbers, np.zeros((1, 1)), numbers[:1], classes=labels)
    counts = np.array([partition(data, workers, "mixture", alpha=alpha, seed=s).label_counts for s in range(seeds)])
    assert (counts.sum(axis=1) == workers * size / labels).all()
    squares = ((counts / size - 1 / labels) ** 2).mean(axis=2)  # (seeds, workers)
    expected = (1 - 1 / workers) / labels * (1 - 1 / labels) / (labels * alpha + 1)
    error = squares.std(axis=0).mean() / seeds**0.5  # of one worker's mean over the seeds
    assert abs(squares.mean() - expected) < 4 * error / workers**0.5 + 0.02 * expected  # 1 - 1/n is for many workers
    assert (abs(squares.mean(axis=0) - expected) < 5 * error).all(), "workers differ"
    assert abs(squares[:, -4:].mean() - squares[:, :4].mean()) < 4 * error / 2**0.5, "the last workers differ"


@pytest.mark.parametrize("cv", [0.3, 1.0])
def test_sizes_have_the_requested_variation(cv: float) -> None:
    """Shares of gamma variables of shape a over n workers: cv² = (n - 1)/(n·a + 1)."""
    workers = 10
    sizes = np.array([shared(workers, "quantity", cv=cv, seed=seed).sizes for seed in range(200)])
    squares = (sizes.var(axis=1)) / sizes.mean() ** 2
    expected = (workers - 1) / (workers / cv**2 + 1)
    assert abs(squares.mean() - expected) < 4 * squares.std() / 200**0.5 + 1 / sizes.mean()


@pytest.mark.parametrize("least", [1, 10, EXAMPLES // 60])
def test_small_parts_are_filled_up(least: int) -> None:
    made = shared(60, alpha=1e-3, least=least)
    assert made.smallest >= least
    assert made.sizes.sum() == EXAMPLES


@pytest.mark.parametrize("alpha", [1e-300, 1e-8, 1e8])
@pytest.mark.parametrize("by", ["dirichlet", "mixture"])
def test_extreme_concentrations(by: str, alpha: float) -> None:
    assert shared(by=by, alpha=alpha).sizes.sum() == EXAMPLES


def test_owners_can_be_given() -> None:
    owner = np.arange(EXAMPLES) % 3
    made = shared(3, by=owner)
    assert made[1].tolist() == np.flatnonzero(owner == 1).tolist()
    assert made.settings() == {"by": "own", "weighting": "equal"}


def test_weights_are_equal_or_by_size() -> None:
    assert shared(by="quantity").weights.tolist() == [1 / 12] * 12
    by_size = shared(by="quantity", weighting="sizes")
    np.testing.assert_allclose(by_size.weights, by_size.sizes / EXAMPLES)


@pytest.mark.parametrize("by", WAYS)
def test_a_partition_is_rebuilt_from_its_arguments(by: str) -> None:
    made = partition(AsColour(DIGITS, size=8), 9, by=by, least=5, seed=3, weighting="sizes", **WAYS[by])
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert hash(again) == hash(made)
    assert len(pickle.dumps(made)) < 1000
    assert again.fingerprint == made.fingerprint
    assert partition(again, 4).fingerprint == partition(again.data, 4).fingerprint


test_bad_arguments_are_named = refusals(
    ({"alpha": 0.0}, r"`alpha` must be finite and positive; got 0.0. 0.1 gives most"),
    ({"alpha": -1}, "`alpha` must be finite and positive; got -1"),
    ({"workers": 2000}, r"`workers` must be at most 1438 for 1438 training examples in parts; got 2000. Use fewer"),
    ({"workers": 100, "least": 32}, r"at most 44 for 1438 training examples in parts of at least 32 each; got 100"),
    ({"workers": 0}, "`workers` must be an integer of at least 1; got 0"),
    ({"by": "dirichelt"}, r"`by` must be one of .*; got 'dirichelt'. Did you mean 'dirichlet'\?"),
    ({"by": "labels", "labels": 11}, "`labels` must be at most the 10 labels that there are; got 11"),
    ({"by": "labels", "labels": 2, "workers": 3}, r"`labels` must be at least 4, so that 3 workers .*; got 2"),
    ({"by": "quantity", "cv": -0.1}, "`cv` must be finite and not negative; got -0.1"),
    ({"by": [0, 1]}, r"`by` must be one of .* of the 1438 training examples; got int64 of shape \(2,\)"),
    ({"by": np.zeros(EXAMPLES, int)}, "`by` must give every worker an example; worker 1 has none"),
    ({"by": np.arange(EXAMPLES)}, "`by` must have workers from 0 to 11; got 0 to 1437"),
    ({"weighting": "size"}, "`weighting` must be one of 'equal', 'sizes'; got 'size'"),
    ({"by": "quantity", "cv": 1e160}, r"`cv` must be at most 1e\+\d+; got 1e\+160"),
    ({"alpha": 1e160}, r"`alpha` must be at most 1e\+\d+; got 1e\+160"),
    ({"seed": -1}, "`seed` must be an integer of at least 0; got -1"),
    call=lambda options: shared(**options),
)


def test_bad_data_and_parts_are_named() -> None:
    with pytest.raises(ValueError, match=r"`data` must be an asyncsim\.datasets\.Dataset; got list"):
        partition([1, 2], 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`data` must not be shared out to workers yet"):
        AsColour(shared())
    with pytest.raises(ValueError, match="`parts` must have at least one example each; worker 1 has none"):
        Parts.of([[0], []])
    with pytest.raises(ValueError, match=r"sequence of example numbers per worker; that of worker 0 is float64"):
        Parts.of([[0.5], [1.0]])


def test_parts_are_read_like_a_list() -> None:
    parts = Parts.of([[3, 1], [0], [2, 4, 5]])
    assert [part.tolist() for part in parts] == [[3, 1], [0], [2, 4, 5]]
    assert parts[-1].tolist() == [2, 4, 5]
    assert parts.owner.tolist() == [0, 0, 1, 2, 2, 2]
    assert repr(parts) == "Parts(3 workers, 1 to 3 examples each)"
    with pytest.raises(IndexError):
        parts[3]
    assert isinstance(shared(), Dataset)
