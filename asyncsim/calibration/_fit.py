"""The result of every calibration: model, cluster, parameters, sampled clusters, checks, and a file."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asyncsim._checks import brief, require_count, require_integer
from asyncsim._metrics import counted
from asyncsim.calibration._laws import Laws
from asyncsim.calibration._model import Clusters, Evidence, Parameters
from asyncsim.calibration._rollouts import FittedRollouts
from asyncsim.calibration._statistics import REPLICATES, Checks, Columns, compare_jointly, compare_statistics
from asyncsim.calibration._transforms import LEVEL, FloatArray
from asyncsim.cluster import simulate
from asyncsim.components import Component, NotRebuilt, describe, from_description, override
from asyncsim.files._atomic import require_format
from asyncsim.files._json import read_json, write_json

FORMAT, FORMAT_VERSION = "asyncsim calibration", 7
LOGS_OF_VERDICT = 64  # simulated logs by which a model is judged not to fit
MOST_IDLE = 0.1  # share of the time between two commits for which workers may do nothing
# Times the log's workers, up to which a server whose service it does not show is trusted to keep up.
MOST_TIMES_WORKERS = 3
EXAMPLE = '`add={"fast": 12}`'  # in a message
FEW_WORKERS = 4  # workers, for whom it always is
QUEUE = ("throughput", "staleness", "sd of staleness", "gap")  # statistics in which one that is not modelled shows


class Unanswered(ValueError):
    """The log does not show what an answer depends on."""


class Interval(NamedTuple):
    """A number of `Fit.what_if`: median of the simulations, and where 90 % of them lie."""

    median: float
    low: float
    high: float


class Log(Component):
    """The log that was fitted."""

    workers: int  # number of workers at once, the places that `Presence.places` counts
    commits: int  # number of commits
    seconds: float  # its length
    columns: Columns  # of times, that it has
    statistics: Mapping[str, float]  # name -> value of the statistics that `Fit.check` compares
    checked: int  # number of its first commits, from which they are computed
    idle: float = 0.0  # share of the time between two commits, before a read, in which workers do nothing


PARTS = {"model": (Laws, Clusters, FittedRollouts), "log": Log, "evidence": Evidence}  # of a file -> their classes


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """A cluster model fitted to a log, with intervals for its parameters, as `calibrate` returns it.

    Attributes:
        method: "likelihood" or "npe".
        model: The model as it was fitted. Laws that AIC chose are in its `stages`.
        log: The log's size, columns and statistics.
        notes: Findings and warnings about the log, in sentences.
        evidence: Widths of intervals, coverage, distances from the laws.
        seed: Seed of all random draws.
    """

    method: str
    model: Laws | Clusters | FittedRollouts
    log: Log
    notes: tuple[str, ...]
    evidence: Evidence
    seed: int = 0
    _checks: dict[int, Checks] = field(default_factory=dict, init=False)  # simulated logs -> result of `check`

    def __repr__(self) -> str:
        hidden = f"; not identifiable: {', '.join(self.hidden)}" if self.hidden else ""
        way = counted(self.evidence.simulations, "simulation", ",") if self.evidence.simulations else self.method
        size = self.model.size(self.log.commits, self.workers)
        return f"Fit({size}, by {way}: {self.model.in_words()}{hidden})"

    @property
    def workers(self) -> int:
        """Number of workers of the log, where one that took the place of another counts as the same."""
        return self.log.workers

    @property
    def hidden(self) -> tuple[str, ...]:
        """Stages, or parameters of a `Model`, that are not identifiable from the log."""
        return self.model.hidden

    @property
    def draws(self) -> FloatArray:
        """(count, p) draws of the parameters of a `Model`, and none for laws that AIC chose."""
        return self.model.draws

    @property
    def mixed(self) -> tuple[str, ...]:
        """Stages whose durations are no draws of their law, because waiting, messages or service are mixed in them."""
        return self.model.mixed

    @cached_property
    def parameters(self) -> Parameters:
        """Name -> `Parameter`: the arguments of each law and each stage's "mean" and "cv", or those of a `Model`."""
        return self.model.parameters

    @cached_property
    def cluster(self) -> Any:
        """The cluster of the estimates, or `asyncsim.Rollouts` if the log is of rollouts.

        Its jobs are those of the log, each with `local_steps` = 1. If they have H local steps, the law of one step has
        1/H of the mean and √H times the coefficient of variation.
        """
        return self.with_workers(self.workers)

    def with_workers(self, workers: int, add: Mapping[str, int] | None = None) -> Any:
        """Return the same cluster with another number of workers.

        The first workers are those of the log. More of them repeat these in order, so that classes keep their shares.

        Args:
            workers: Number of workers.
            add: Further workers, by class: "fast" or "slow", or a worker's name or number if each has its own law.

        Raises:
            ValueError: If `workers` is not an integer of at least 1, or the log is of rollouts, or the fit does not
                distinguish these classes.
        """
        model, count = self._joined_by(workers, add)
        return model.cluster(count)

    def _joined_by(self, workers: int | None, add: Mapping[str, int] | None) -> tuple[Any, int]:
        """Return the model with further workers of some classes, and the number of all workers."""
        first = self.workers if workers is None else require_count("workers", workers, remedy="Use one worker or more.")
        if add is None:
            return self.model, first
        if not isinstance(add, Mapping) or not add:
            raise ValueError(f"`add` must map classes to numbers of workers; got {brief(add)}. Write {EXAMPLE}.")
        return self.model.joined_by(first, add), first + sum(add.values())

    def sample(self, count: int, seed: int | None = None, workers: int | None = None) -> list[Any]:
        """Draw clusters that are plausible, given the log: from the likelihood's normal approximation or the posterior.

        Where AIC chose the laws, other families occur as often as their Akaike weights say. Of a `Model` 300 clusters
        are different, and further ones repeat these.

        Args:
            count: Number of clusters, at least 1.
            seed: Seed of the draws, by default that of the calibration.
            workers: Number of workers, by default as in the log.

        Raises:
            ValueError: If `count` or `workers` is not an integer of at least 1.
        """
        number = require_count("count", count, remedy="200 show a band.")
        generator = np.random.default_rng([self.seed if seed is None else seed, 2])
        return self.model.sample(generator, number, self.workers if workers is None else workers)

    def what_if(
        self,
        *,
        workers: int | None = None,
        add: Mapping[str, int] | None = None,
        steps: int | None = None,
        draws: int = 16,
        seed: int = 0,
        **changes: Any,
    ) -> dict[str, Interval]:
        """Simulate the fitted system with other arguments, such as `workers=40`, or `lead=4` of rollouts.

        Each draw of `sample` is simulated once, so that the intervals contain both the uncertainty of the fit and the
        randomness of a run of `steps`.

        Args:
            workers: Number of workers, by default that of the log.
            add: Further workers, by class, such as `add={"fast": 12}`: see `with_workers`.
            steps: Commits of each simulation, by default 60 a worker and at least 2000. The first fifth does not count.
                Of rollouts: steps of the trainer, by default 200. The first tenth does not count.
            draws: Number of simulations.
            seed: Seed of the draws and of the simulations.
            **changes: Other arguments of `asyncsim.Cluster` and its parts, or of `asyncsim.Rollouts`. Without any, the
                system of the log is simulated.

        Returns:
            Name -> median, low and high, where the names are "throughput" (commits per second) and "staleness", or for
            rollouts those of `Rollouts.ledger(…).summary`.

        Raises:
            ValueError: If an argument does not fit.
            Unanswered: A ValueError, if workers pause before they read, or if the answer depends on a queue that the
                log does not show. Its columns may mix messages with queue and service, or commits alone may come in
                turn at nearly equal intervals, as both a busy server and regular workers make them. Or the log shows no
                service, although it is not one of workers without a queue, or more than three times as many workers are
                asked for, whom a service too short to be seen may limit. The message names the needed columns.
                `with_workers` does not refuse.

        Example:
            >>> import asyncsim as asim
            >>> log = asim.simulate(asim.Cluster(4, asim.delays.Exponential(1.0)), commits=1000)
            >>> answer = asim.calibrate(log, law="exponential").what_if(workers=8, draws=4)
            >>> round(answer["throughput"].median), round(answer["staleness"].median)
            (8, 7)
        """
        runs = require_count("draws", draws, remedy="16 show a band.")
        length = None if steps is None else require_integer("steps", steps, least=2, remedy="Simulate 2 or more.")
        model, count = self._joined_by(workers, add)
        self._require_answer(count)
        systems = model.sample(np.random.default_rng([seed, 2]), runs, count)
        if "local_steps" in changes and getattr(systems[0], "local_steps", None) == 1:
            raise ValueError(
                f"`local_steps` must be left out, because the fitted law is that of whole jobs; got "
                f"{brief(changes['local_steps'])}. Simulate an `asyncsim.Cluster` with the law of one step, which has "
                "1/H of the mean and √H times the cv if the jobs of the log have H steps."
            )
        rows = [
            model.simulated(override(system, **changes) if changes else system, length, seed + number)
            for number, system in enumerate(systems)
        ]
        shares = [0.5, (1 - LEVEL) / 2, (1 + LEVEL) / 2]
        return {name: Interval(*np.quantile([row[name] for row in rows], shares).tolist()) for name in rows[0]}

    def _require_answer(self, workers: int) -> None:
        """Refuse a number of workers for which the answer depends on a queue or a pause that the fit does not have."""
        if workers != self.workers and self.log.idle > MOST_IDLE:
            raise Unanswered(
                f"`workers` of {brief(workers)} cannot be answered from the log: its workers pause for "
                f"{self.log.idle:.0%} of the time between two commits, before they read, and the fitted cluster does "
                "not. Leave out `read_time`, so that the pause counts as a part of the job."
            )
        reason = self._doubt(workers)
        if reason is not None:
            # A coarse clock hides the order of commits, also where all columns are logged.
            clock = "times with their fractions, and " if self.log.statistics.get("gap, 5 %") == 0 else ""
            of_server = f"Log {clock}`arrive_time` and `serve_time`, or fit a `model` with a network and a server."
            remedy = "Log `read_time` and `version`." if self._may_wait_for_steps else of_server
            raise Unanswered(f"`workers` of {brief(workers)} cannot be answered from the log: {reason}. {remedy}")

    @property
    def _may_wait_for_steps(self) -> bool:
        """Whether jobs may contain a wait for the end of a step."""
        return "compute" in self.model.stages and "waiting" in self.model.stages["compute"].contains

    def _doubt(self, workers: int) -> str | None:
        """Return why a queue that the log does not show may limit a number of workers, or None."""
        if workers == self.workers or (self.model.shows_service and "compute" not in self.mixed):
            return None
        if self._may_wait_for_steps:
            return "its jobs may contain a wait for the end of a step of several commits"
        if "compute" in self.mixed:
            return (
                "its workers commit in turn at nearly equal intervals, as a busy server makes them or regular workers "
                "do, who would not limit others"
            )
        if self.mixed:
            return "its times from finish to commit mix messages, queue and service"
        lacks_service = "upload" in self.model.stages or self.cluster.server.is_instant
        if lacks_service and workers > max(MOST_TIMES_WORKERS * self.workers, FEW_WORKERS):
            return (
                f"it shows no service, which may limit more than {MOST_TIMES_WORKERS} times its {self.workers} workers"
            )
        refuted = [name for name in self.check(REPLICATES).refuted if name.startswith(QUEUE)]
        return f"the fit, whose queue it does not show, does not produce its {refuted[0]}" if refuted else None

    def check(self, count: int = 64) -> Checks:
        """Compute predictive p-values: statistics of the log among those of logs that clusters of `sample` produce.

        The statistics are throughput, staleness, shares and inter-commit times. A `Model` adds the quantiles of the
        stages that the log shows, and all statistics together (Hotelling's T²). The likelihood adds the
        Kolmogorov-Smirnov distance of each stage's durations from the law. Rollouts have the mean staleness of groups,
        steps per second and the trainer's idle share. Every log begins like the simulated ones, at time 0 with all
        workers reading.

        Args:
            count: Number of simulated logs, each with the commits of the log (10 000 at most). Fewer than 64 are
                quicker, but if they speak against the model, 64 decide, as by default.

        Returns:
            Statistic -> `Check`, where `.fits` says whether the model may have produced the log.

        Raises:
            ValueError: If `count` is below 8.

        References:
            Gelman, Meng and Stern 1996, "Posterior predictive assessment of model fitness via realized discrepancies".
        """
        logs = require_integer("count", count, least=8, remedy="64 resolve small p-values.")
        checks = self._compare(logs)
        return checks if checks.fits else self._compare(max(logs, LOGS_OF_VERDICT))

    def _compare(self, logs: int) -> Checks:
        """Compare the log with some simulated ones, once for each number of these."""
        if logs not in self._checks:
            log = dict(self.log.statistics)
            replicates = [
                self.model.statistics(simulate(cluster, commits=self.log.checked, seed=self.seed + i))
                for i, cluster in enumerate(self.sample(logs, seed=self.seed + 1))
            ]
            all_at_once = {"all together": compare_jointly(log, replicates)} if self.model.jointly else {}
            self._checks[logs] = Checks({**compare_statistics(log, replicates), **all_at_once, **self.evidence.laws})
        return self._checks[logs]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything as JSON, completely or not at all.

        Raises:
            OSError: If the file cannot be written.
        """
        content = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "method": self.method,
            # Parameters follow from the model, and are there for those who read the file.
            "parameters": {name: parameter._asdict() for name, parameter in self.parameters.items()},
            "notes": self.notes,
            "seed": self.seed,
            **{name: describe(getattr(self, name), name) for name in PARTS},
        }
        write_json(path, content)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Fit":
        """Read a file that `save` wrote. Nothing is imported or executed because the file says so.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If it holds no calibration, one of another version of asyncsim, or a cluster with a law of your
                own, whose module has not been imported or has changed.
        """
        where = f"`path` {str(path)!r}"
        if not Path(path).is_file():
            raise FileNotFoundError(f"{where} does not exist. Check the name.")
        content = read_json(path)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"{where} holds no calibration. Write one by `Fit.save`.")
        version = content.get("version")
        require_format(where, version if isinstance(version, int) else 0, FORMAT_VERSION, "Calibrate again.")
        try:
            parts = {name: from_description(content[name], name=name) for name in PARTS}
            for name, kinds in PARTS.items():
                if not isinstance(parts[name], kinds):
                    raise TypeError(f"its {name} is of type {type(parts[name]).__name__}")
            fit = cls(content["method"], notes=tuple(content["notes"]), seed=content["seed"], **parts)
            # Laws refuse wrong arguments, and these need all other values.
            _ = repr(fit), fit.cluster, fit.parameters, fit.sample(1)
        except NotRebuilt as error:
            raise NotRebuilt(f"{where} cannot be loaded: {error} Or calibrate again.") from error
        except Exception as error:  # Wrong values, which no fit has, may lead to any error of any law.
            raise ValueError(f"{where} is damaged: {error!r}. Calibrate again.") from error
        return fit
