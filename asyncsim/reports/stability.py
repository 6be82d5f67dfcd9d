"""How large a step may be and what noise leaves, for one cluster: predicted and simulated, as plain data."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from asyncsim import theory
from asyncsim.delays import Delay, Exponential
from asyncsim.files import to_plain
from asyncsim.reports.noise_floor import simulated_floor
from asyncsim.reports.stability_map import MakeRule, momentum_rule, simulated_limit, stability_map
from asyncsim.theory.arguments import momentum_and_place

NEAR = 0.8, 1.2  # of a limit: where runs are looked at
REACH = 400  # times half the limit of a round robin: no law's limit is further away
SCHEDULES = 32


class Question(NamedTuple):
    """A cluster and a rule.

    Attributes:
        workers: n.
        compute: The law of every worker.
        momentum, where: μ, and who keeps it, as in `theory.stability_limit`.
    """

    workers: int
    compute: Delay
    momentum: float = 0.0
    where: str = "none"


def stability_report(question: Question, kappas: Sequence[float] = ()) -> dict[str, Any]:
    """Limits and floors of asynchronous SGD on a quadratic, predicted and simulated.

    Args:
        question: The cluster and the rule.
        kappas: Where the floor is wanted, besides half the limit (the almost-sure one where theory has none).

    Returns:
        The question's own words, and

        * `predicted`: `stability_limit`, the κ from which E x² grows, and `mean_limit`, from which only E x does (no
          guide; equal exponential workers), None where theory has no result; `constant_delay_limit`, of a round robin
          with the same mean staleness; and lists over `kappa`: `noise_floor`, Var x, and `kinetic_energy`, both per
          unit of the variance of a raw update's noise, None where there is no result or no floor.
        * `simulated`: `almost_sure_limit`, from which single runs grow; `noise_floor` and `kinetic_energy` at the same
          `kappa`, None from that limit on; each with `…_error`, a standard error; and `bounded_share`, the share of
          runs that stay bounded at `bounded_kappa`, 20 % below and above the mean-square and the almost-sure limit.
        * `note`: None, or why theory has no result.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> from asyncsim.delays import Constant
        >>> report = stability_report(Question(2, Constant(1.0)))
        >>> predicted, simulated = report["predicted"], report["simulated"]
        >>> round(predicted["stability_limit"], 6), round(simulated["almost_sure_limit"], 2)
        (1.0, 1.0)
        >>> simulated["bounded_share"]
        [1.0, 1.0, 0.0, 0.0]
    """
    momentum, where = momentum_and_place(question.momentum, question.where)
    question, rule = question._replace(momentum=momentum, where=where), momentum_rule(momentum, where)
    predicted, note = predict_limits(question)
    simulated = _simulate_limits(question, rule, predicted)
    limit = predicted["stability_limit"] or simulated["almost_sure_limit"]
    kappas = [limit / 2, *kappas]
    predicted |= _predict_floors(question, kappas, known=note is None)
    simulated |= _simulate_floors(question, kappas, rule, simulated["almost_sure_limit"])
    asked = {**question._asdict(), "compute": repr(question.compute)}
    return {**asked, "predicted": predicted, "simulated": simulated, "note": note}


def predict_limits(question: Question) -> tuple[dict[str, float | None], str | None]:
    """The limits that theory knows, and its own words where it has none.

    Example:
        >>> limits, note = predict_limits(Question(16, Exponential(1.0)))
        >>> {name: round(limit, 4) for name, limit in limits.items()}, note
        ({'stability_limit': 0.3862, 'mean_limit': 62.0, 'constant_delay_limit': 0.1013}, None)
    """
    n, compute, momentum, where = question
    limit = mean = note = None
    try:
        limit = theory.stability_limit(**question._asdict())
    except ValueError as error:
        note = str(error)
    if isinstance(compute, Exponential) and where != "server":
        mean = theory.mean_stability_limit(workers=n, worker_momentum=momentum)
    constant = theory.constant_delay_limit(n - 1, momentum, where)
    return {"stability_limit": limit, "mean_limit": mean, "constant_delay_limit": constant}, note


def _predict_floors(question: Question, kappas: Sequence[float], known: bool) -> dict[str, Any]:
    floors = [theory.noise_floor(k, **question._asdict()) if known else math.nan for k in kappas]
    energies = [theory.kinetic_energy(k, **question._asdict()) if known else math.nan for k in kappas]
    return {"kappa": [*kappas], "noise_floor": to_plain(floors), "kinetic_energy": to_plain(energies)}


def _simulate_limits(question: Question, rule: MakeRule, predicted: Mapping[str, Any]) -> dict[str, Any]:
    workers, compute = question.workers, question.compute
    low = predicted["constant_delay_limit"] / 2
    found = simulated_limit(workers, compute, rule, low=low, high=REACH * low, seeds=SCHEDULES)
    limits = [limit for limit in (predicted["stability_limit"], found.value) if limit is not None]
    looked = sorted(factor * limit for limit in limits for factor in NEAR)
    share = stability_map([workers], looked, compute, rule, seeds=SCHEDULES)[0]
    return {
        "almost_sure_limit": found.value,
        "almost_sure_limit_error": found.error,
        "bounded_kappa": looked,
        "bounded_share": share.tolist(),
    }


def _simulate_floors(question: Question, kappas: Sequence[float], rule: MakeRule, limit: float) -> dict[str, Any]:
    there = np.array(kappas) < limit
    found = simulated_floor(question.workers, np.where(there, kappas, limit / 2), question.compute, rule)
    names = {"noise_floor": "variance", "kinetic_energy": "energy"}
    names |= {f"{name}_error": f"{field}_error" for name, field in names.items()}
    floors = {name: to_plain(np.where(there, getattr(found, field), np.nan)) for name, field in names.items()}
    return {"kappa": [*kappas], **floors}
