"""Data sets made again from what their descriptions say."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from asyncsim.datasets.cifar import cifar10
from asyncsim.datasets.colour import as_colour
from asyncsim.datasets.dataset import Dataset
from asyncsim.datasets.digits import digits
from asyncsim.datasets.images import image_folder
from asyncsim.datasets.mnist import mnist
from asyncsim.datasets.partition import partition

FUNCTIONS: dict[str, Callable[..., Dataset]] = {
    "as_colour": as_colour,
    "cifar10": cifar10,
    "digits": digits,
    "image_folder": image_folder,
    "mnist": mnist,
    "partition": partition,
}
WITHOUT_ARGUMENTS = ("cifar10", "digits", "mnist")  # which a name alone makes again
KEPT = 2  # data sets: the same one is asked for many times in a row


def made_again(described: Mapping[str, Any], source: Mapping[str, Any] | None = None) -> Dataset:
    """The data set of a description, with the same fingerprint.

    Args:
        described: What `Dataset.describe` gave.
        source: Its `source`, where that is known; by default the name must say it.

    Raises:
        ValueError: If no function makes such data, or it makes other data than it did.
        OSError, ImportError: As the functions raise them, if files or packages are missing.

    Example:
        >>> data = digits(test_fraction=0.5)
        >>> made_again(data.describe(), data.source).fingerprint == data.fingerprint
        True
        >>> made_again(data.describe())  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: the data set 'digits' (...) is not what `asyncsim.datasets.digits()` makes here
    """
    name = described["name"]
    if source is None and "partition" in described:
        raise ValueError(f"who has which examples of the data set {name!r} is of your own making")
    if source is None and name not in WITHOUT_ARGUMENTS:
        raise ValueError(f"the data set {name!r} is of your own")
    recipe = {"function": name} if source is None else source
    found = _make(json.dumps(recipe, sort_keys=True))
    if found.fingerprint != described["fingerprint"]:
        sizes = f"{described['train']} to train, {described['test']} to test"
        call = f"`asyncsim.datasets.{recipe['function']}({', '.join(_arguments(recipe))})`"
        raise ValueError(f"the data set {name!r} ({sizes}) is not what {call} makes here")
    return found


def _arguments(recipe: Mapping[str, Any]) -> Iterator[str]:
    return (f"{key}={value!r}" for key, value in recipe.items() if key not in ("function", "data"))


@lru_cache(maxsize=KEPT)
def _make(text: str) -> Dataset:
    recipe = json.loads(text)
    function = FUNCTIONS.get(recipe.pop("function"))
    if function is None:
        raise ValueError(f"no function of this asyncsim makes the data set of {text}")
    if "data" in recipe:
        recipe["data"] = _make(json.dumps(recipe["data"], sort_keys=True))
    return function(**recipe)
