"""The parts of a scenario as plain data: what they are, or for the user's own, what they consist of."""

from dataclasses import fields
from typing import Any

import jax
import numpy as np

from asyncsim.rules import Rule
from asyncsim.scenario.components import OWN, law_part
from asyncsim.scenario.fingerprint import code_of, hash_array, plain
from asyncsim.workloads import CONSTRUCTORS, Workload


def describe_law(compute: Any) -> Any:
    """A law of compute times, or the list of one law per worker.

    Example:
        >>> from asyncsim.delays import Gamma
        >>> describe_law(Gamma(mean=1.0, cv=0.3))
        {'law': 'gamma', 'mean': 1.0, 'cv': 0.3}
    """
    if isinstance(compute, tuple):
        return [describe_law(law) for law in compute]
    part = law_part(compute)
    return plain(compute) if part.name == OWN else {"law": part.name, **plain(part.values)}


def describe_rule(rule: Rule) -> dict[str, Any]:
    """Name, options and hyper-parameters, and the hash of code that is not the library's."""
    functions = [getattr(rule, field.name) for field in fields(rule) if callable(getattr(rule, field.name))]
    return _with_code(plain(rule.describe()), *functions)


def describe_workload(workload: Workload) -> dict[str, Any]:
    """Name, options and data set, and hashes of code and data that are not the library's."""
    described = plain(workload.describe())
    if workload.data is not None and workload.dataset is None:
        described["data"] = plain_leaves(workload.data)
        described["batch_size"] = workload.batch_size
    functions = (workload.init, workload.loss, workload.gradient, workload.noise, workload.evaluate)
    if workload.name in CONSTRUCTORS:  # whose arguments, described above, are also bound to its functions
        functions = tuple(getattr(function, "func", function) for function in functions)
    return _with_code(described, *functions)


def plain_leaves(tree: Any) -> list[str]:
    """Hashes of the arrays of a pytree."""
    return [hash_array(np.asarray(leaf)) for leaf in jax.tree.leaves(tree)]


def _with_code(described: dict[str, Any], *functions: Any) -> dict[str, Any]:
    code = code_of(*(function for function in functions if function is not None))
    return {**described, "code": code} if code else described
