"""A log taken apart into durations of computing, of messages and of service."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim.calibration._statistics import COLUMNS, ROUNDING, cycles, takes_time, with_columns
from asyncsim.calibration._ticks import correct_spread, find_tick, is_whole
from asyncsim.calibration._transforms import FloatArray
from asyncsim.calibration._waiting import find_round, waits_for_steps
from asyncsim.trace import Fate, Trace
from asyncsim.trace._columns import IntColumn, previous_own_row
from asyncsim.trace._findings import find_rounds, findings, first_jobs_are_unknown
from asyncsim.trace._presence import LONGER, Presence, presence
from asyncsim.trace._statistics import hidden_stages, most_in_service, previous_commit

LEAST_COMMITS = 30
DEPENDENCE_P_VALUE = 1e-3  # p-value below which two columns depend on each other
OVERTAKEN = 0.01  # share of commits before one that finished earlier, more than which no server in order makes
LONGEST = 1e60  # seconds of a log, and their inverse the shortest: beyond, variances are not numbers
MAJORITY = 0.5  # share of a worker's reads at another time than its commits, from which it stamps them itself
MOST_IDLE = 0.02  # of the time between two commits, which a worker may spend before the next read without a note
QUEUE_GAP = 0.02  # of the mean service: the server takes up a commit as soon after the one before
ACCIDENTS = 0.05  # share of commits that are taken up at once, which chance and a server in little use do not exceed
LEAST_CLOCKED = 10  # jobs by which a worker's clock is judged, where others do not count
IN_ROUNDS = (
    "The commits come in rounds of {size}, and who has committed seems to wait for the end of the round, as in "
    "`protocols.KAsync(k={size})`: whole jobs contain this wait. Log `read_time` and `version` to separate it."
)
EQUAL_LAWS_P_VALUE = 1e-3  # p-value from which two samples of latency count as of one law
ONE_WORKER = "One worker only: nothing is known of differences between workers, nor of waiting for others."
NO_START = "The first job of each worker is left out: the log does not show when they began."
READS_ALONE = "Workers pull in a request of their own: latency is that of the reads alone."
FROM_FINISH = (
    "The log lacks `arrive_time` and `serve_time`: service is counted from the later of `finish_time` and the "
    "commit before"
)

Notes = tuple[str, ...]  # findings and warnings about a log, in sentences


class Stage(NamedTuple):
    """Durations of one stage."""

    durations: FloatArray  # (jobs,) seconds
    worker: NDArray[np.int32]  # (jobs,) the worker of each
    censored: FloatArray = np.zeros(0)  # (others,) seconds that jobs in flight at the end had lasted
    censored_worker: NDArray[np.int32] = np.zeros(0, np.int32)  # (others,) the worker of each
    contains: tuple[str, ...] = ()  # other stages that may be in the durations
    rounding: float = 0.0  # seconds², what rounding by a coarse clock had added to the variance of a duration

    def of(self, workers: Any) -> "Stage":
        """Select the jobs of some workers, in their order here."""
        ended, open_jobs = np.isin(self.worker, workers), np.isin(self.censored_worker, workers)
        jobs = (self.durations[ended], self.worker[ended], self.censored[open_jobs], self.censored_worker[open_jobs])
        return Stage(*jobs, self.contains, self.rounding)

    def with_part(self, name: str) -> "Stage":
        """Say that another stage may be in the durations."""
        return self._replace(contains=(*self.contains, name))

    def at(self, place_of_worker: IntColumn) -> "Stage":
        """Give each job to the place of its worker."""
        places, censored = place_of_worker[self.worker], place_of_worker[self.censored_worker]
        return self._replace(worker=places, censored_worker=censored)


def evaluate_laws(stage: Stage, laws: Iterable[tuple[Any, Stage]], kind: str) -> FloatArray:
    """Compute, (jobs,), "cdf" or "log_density" of each duration by the law of its worker."""
    values = np.empty(len(stage.durations))
    for law, part in laws:
        values[np.isin(stage.worker, part.worker)] = getattr(law, kind)(part.durations)
    return values


class Stages(NamedTuple):
    """All stages that a log shows."""

    compute: Stage  # from start to finish of the computation
    middle: FloatArray  # (jobs,) between start and finish of these, or the end of the log where they did not commit
    latency: Stage | None  # one way between worker and server, or None if not identifiable
    service: Stage | None  # from the server's taking up a commit to its application, or None if not identifiable
    slots: int  # the most commits that were in service at once
    hidden: tuple[str, ...]  # names of the stages that are not identifiable
    notes: Notes
    separate: bool  # whether workers pull in a request of their own, so that others commit in between
    upload: Stage | None = None  # from finish to commit, or None if message, queue and service are separable
    idle: float = 0.0  # share of the time between two commits in which workers do nothing that a cluster knows


def stages_of(trace: Trace, precomputed: Presence | None = None) -> Stages:
    """Take a log apart into stages. If the caller knows who was present, this is not computed again."""
    _require_enough(trace)
    present = precomputed or presence(trace.worker, trace.commit_time, trace.workers)
    unseen, notes_of_waits = find_unseen_waits(trace)
    compute, middle, notes_of_compute = _compute(trace, present, unseen)
    latency, notes_of_latency = _latency(trace, unseen)
    service, slots, notes_of_service = _service(trace, latency)
    upload, notes_of_upload = _upload(trace, latency) if service is None else (None, ())
    hidden = ("latency",) * (latency is None) + ("service",) * (service is None or bool(service.contains))
    separate = bool((trace.pull_version != trace.version).any())
    # The reply to a commit and the request for a read of its own are two messages.
    messages = 2 * float(latency.durations.mean()) if latency is not None and separate else 0.0
    idle, notes_of_reads = _late_reads(trace, present, messages)
    notes = (
        *notes_of_waits,
        *notes_of_compute,
        *notes_of_latency,
        *notes_of_service,
        *notes_of_upload,
        *findings(trace, present),
        *notes_of_reads,
        *(ONE_WORKER,) * (trace.workers == 1),
    )
    stages = Stages(compute, middle, latency, service, slots, hidden, notes, separate, upload, idle)
    return _without_ticks(stages, trace)


def _without_ticks(stages: Stages, trace: Trace) -> Stages:
    """Correct the durations that a coarse clock has rounded, and say so."""
    shown = {name: stage for name in ("compute", "latency", "service", "upload") if (stage := getattr(stages, name))}
    ticks = {name: find_tick(stage.durations, trace.commit_time) for name, stage in shown.items()}
    coarse = [name for name, tick in ticks.items() if tick]
    if not coarse:
        return stages
    tick = min(ticks[name] for name in coarse)
    corrected = {}
    for name, stage in shown.items():
        if not is_whole(stage.durations / tick):
            continue
        durations = correct_spread(stage.durations, stage.worker, tick)
        # The mean of what is left has the error of what was there, and one duration may always be a tick longer.
        rounding = max(float(stage.durations.var() - durations.var()), tick**2 / len(durations))
        corrected[name] = stage._replace(durations=durations, rounding=rounding)
    note = (
        f"By a clock with ticks of {tick:.3g} s, some durations of {' and '.join(coarse)} are 0. Means "
        "are right, with intervals that contain the rounding, and spreads are corrected for it, but the shapes of laws "
        "are not visible: log times with their fractions."
    )
    return stages._replace(notes=(*stages.notes, note), **corrected)


def _late_reads(trace: Trace, present: Presence, messages: float) -> tuple[float, Notes]:
    """Return the share of the time between two commits for which workers are idle, if the log shows it, and a note.

    Messages between a commit and the next read take some of this time.
    """
    if not trace.closes_step.all() or (trace.unfinished.fate != Fate.IN_FLIGHT).any():
        return 0.0, ()  # Whoever waits for a step, or does a job that is lost, is not idle.
    before = previous_commit(trace)
    was_away = trace.begin_time - before >= LONGER * present.typical[trace.worker]
    counts = ~first_jobs(trace) & ~present.spans_pause(before, trace.commit_time) & ~was_away
    if not counts.any():
        return 0.0, ()
    cycle, late = (float((end - before)[counts].mean()) for end in (trace.commit_time, trace.begin_time))
    idle = late - messages
    if idle <= MOST_IDLE * cycle:
        return 0.0, ()
    note = (
        f"Workers read {idle:.3g} s after their last commit on average, {idle / cycle:.0%} of the time between two "
        f"commits. The fitted cluster has no such pause: it commits up to {idle / (cycle - idle):.0%} too often, and "
        "its gradients are staler."
    )
    return idle / cycle, (note,)


def one_step_per_commit(log: Trace) -> tuple[Trace, list[str], bool]:
    """Return a log in which each commit is a step, with notes, and whether its workers may wait for each other.

    A log stays as it is if workers wait for the end of a step of several commits, or have lost their work.
    """
    again = ~first_jobs(log)
    jobs = (log.commit_time - previous_commit(log))[again]
    if log.closes_step.all():
        has_reads = takes_time(log, log.begin_time - previous_commit(log))
        round_size = 0 if has_reads or find_rounds(log, jobs) else find_round(log)
        return log, [IN_ROUNDS.format(size=round_size)] if round_size else [], bool(round_size)
    if len(log.faults) or (log.unfinished.fate != Fate.IN_FLIGHT).any() or find_rounds(log, jobs):
        return log, [], False
    waits, share = waits_for_steps(log)
    if waits:
        return log, [], True
    columns = {name: getattr(log, name) for name in ("worker", "read_time", *COLUMNS)}
    size = len(log) / max(log.steps, 1)
    waiting = ", for which workers may wait" if waits is None else ", and nobody seems to wait for it"
    doubt = f" (log `read_time` to be sure: if they wait, their jobs are {share:.1%} shorter)" if share else ""
    note = (
        f"The server makes a step of {size:.3g} commits{waiting}{doubt}: the fitted cluster has each commit as a step. "
        f"`protocols.KBatchAsync(k={round(size)})` makes such steps."
    )
    return with_columns(log, columns, range(log.workers), start=0.0), [note], waits is None


def merge_workers(log: Trace, present: Presence) -> tuple[Trace, IntColumn]:
    """Return a log in which a worker that took the place of one that has left counts as the same, and all places."""
    place_of_worker = present.slots(log.names)
    if place_of_worker.max() + 1 == log.workers or not log.closes_step.all():
        return log, np.arange(log.workers, dtype=np.int32)
    worker = place_of_worker[log.worker]
    # The log does not show when a late worker read, so that the guess may lie before the last commit in its place.
    before = previous_own_row(worker)
    earliest = np.where(before >= 0, log.commit_time[before], 0.0)
    times = {name: np.maximum(getattr(log, name), earliest) for name in ("read_time", *COLUMNS)}
    return with_columns(log, {"worker": worker, **times}, holders_of(place_of_worker), start=0.0), place_of_worker


def holders_of(place_of_worker: IntColumn) -> tuple[int, ...]:
    """Return the last worker in each place."""
    last = {place: worker for worker, place in enumerate(place_of_worker.tolist())}
    return tuple(last[place] for place in range(len(last)))


def _require_enough(trace: Trace) -> None:
    """Refuse a log with too few commits, without times, or not of an asynchronous cluster."""
    if len(trace) < LEAST_COMMITS:
        remedy = "Record more: 100 for each worker give the mean within 5 % at a spread of 0.3."
        raise ValueError(f"`log` must have {LEAST_COMMITS} commits or more; got {len(trace)}. {remedy}")
    if not len(cycles(trace)):
        raise ValueError(f"`log` must have a worker with two commits or more; all {len(trace)} have one. Record more.")
    # `Trace.from_commits` replaces missing times by the numbers of the commits.
    numbered = (trace.commit_time == np.arange(1.0, len(trace) + 1)).all()
    if numbered and (trace.finish_time == trace.commit_time).all():
        remedy = "Give `commit_time`, in seconds, to `Trace.from_commits` or as a column."
        raise ValueError(f"`log` must have times, and its commits are numbered 1, 2, 3, … instead. {remedy}")
    if trace.seconds <= 0 or trace.commit_time[0] == trace.seconds:
        remedy = "Give the times, in seconds, with their fractions."
        raise ValueError(f"`log` must have times that differ; all are {trace.seconds:g}. {remedy}")
    if not 1 / LONGEST < trace.seconds < LONGEST:
        remedy = "Give the times in another unit."
        raise ValueError(f"`log` must have times that can be squared; its length is {trace.seconds:g} s. {remedy}")
    if not trace.closes_step.all():
        remedy = "Fit its parts by `asyncsim.delays.….fit`, or give the `Rollouts` that made it as the model."
        reason = "some of its commits close no step, and workers wait for its end or lose work"
        raise ValueError(f"`log` must be of an asynchronous cluster; {reason}. {remedy}")


def find_unseen_waits(trace: Trace) -> tuple[NDArray[np.bool_], Notes]:
    """Return, (commits,), whether a commit probably waited before the log has it arrive, with a note.

    A server with a single loop sees a message only when it takes it up. In its log nobody waits, and yet it often takes
    up a commit at once after the one before.
    """
    service = trace.commit_time - trace.serve_time
    # By a clock that does not resolve service, many commits seem to be taken up at once, whatever the server does.
    if not takes_time(trace, service) or most_in_service(trace) > 1 or find_tick(service, trace.commit_time):
        return np.zeros(len(trace), np.bool_), ()
    short = QUEUE_GAP * float(service.mean())
    at_once = np.append(False, trace.serve_time[1:] - trace.commit_time[:-1] <= short)
    waited = trace.serve_time - trace.arrive_time > short
    # By accident some commits arrive just when the one before ends.
    if at_once.mean() <= ACCIDENTS or waited[at_once].mean() > 1 - MAJORITY or (~at_once).sum() < LEAST_COMMITS:
        return np.zeros(len(trace), np.bool_), ()
    note = (
        f"The server took up {at_once.mean():.0%} of the commits at once after the one before, and the log has them "
        "arrive only then: the time up to their arrival contains a wait, and is not fitted. Log `arrive_time` where "
        "messages arrive."
    )
    return at_once, (note,)


def _compute(trace: Trace, present: Presence, unseen: NDArray[np.bool_]) -> tuple[Stage, FloatArray, Notes]:
    """Return the durations of computing, the middle of each job, and notes."""
    durations = trace.finish_time - trace.start_time
    first = first_jobs(trace)
    # The log may not show when a late worker began its first job, nor of a job whether it paused.
    unknown = first & present.late[trace.worker] & first_jobs_are_unknown(trace)
    # Without messages, the unseen wait is in the job itself.
    contains_wait = not takes_time(trace, trace.arrive_time - trace.finish_time)
    begins_with_commits = bool((durations[first] == 0).any())  # `Trace.from_csv(start="first")` counts from these.
    paused = present.spans_pause(trace.start_time, trace.finish_time)
    counts = ~(unknown | paused | (unseen & contains_wait) | (first & begins_with_commits))
    open_jobs = trace.unfinished
    end = np.minimum(open_jobs.end_time, trace.seconds)
    lasted = end - np.minimum(open_jobs.start_time, end)  # 0 for a job that never started
    ended = open_jobs.finish_time <= end
    # A job counts if it computed: whole if it finished, as long as it lasted if it did not.
    computed = np.isin(open_jobs.fate, [Fate.IN_FLIGHT, Fate.CANCELLED, Fate.CRASHED])
    # The job that a departed worker had begun does not count, because nobody works on it.
    abandoned = present.left[open_jobs.worker] & (open_jobs.fate == Fate.IN_FLIGHT)
    censors = ~ended & (lasted > 0) & computed & ~abandoned & ~present.spans_pause(open_jobs.start_time, end)
    whole = np.concatenate([durations[counts], open_jobs.finish_time[ended] - open_jobs.start_time[ended]])
    worker = np.concatenate([trace.worker[counts], open_jobs.worker[ended]])
    inferred, inferred_worker = _under_way(trace, present, durations)
    # A job that lasts longer than any before may as well have been left: it says no more than the longest of these.
    censored = np.minimum(np.concatenate([lasted[censors], inferred]), whole.max(initial=0.0))
    censored_worker = np.concatenate([open_jobs.worker[censors], inferred_worker])
    middle = np.append(((trace.start_time + trace.finish_time) / 2)[counts], np.full(ended.sum(), trace.seconds))
    compute = Stage(whole, worker, censored, censored_worker, hidden_stages(trace))
    return compute, middle, (NO_START,) * begins_with_commits


def _under_way(trace: Trace, present: Presence, durations: FloatArray) -> tuple[FloatArray, NDArray[np.int32]]:
    """Infer how long the jobs under way at the end that the log lacks have computed, and return their workers too."""
    open_jobs = trace.unfinished
    newer = open_jobs.read_time >= present.last[open_jobs.worker]
    missing = ~np.isin(np.arange(trace.workers), open_jobs.worker[newer]) & ~present.left
    again = ~first_jobs(trace)
    cycle = trace.commit_time - previous_commit(trace)
    overhead = float((cycle - durations)[again].mean()) if again.any() else 0.0
    lasted = trace.seconds - present.last - overhead
    paused = present.spans_pause(present.last, np.full(trace.workers, trace.seconds))
    under_way = missing & ~paused & (lasted > ROUNDING * trace.seconds)
    return lasted[under_way], np.flatnonzero(under_way).astype(np.int32)


def first_jobs(trace: Trace) -> NDArray[np.bool_]:
    """Return, (commits,), whether a commit is its worker's first."""
    return previous_own_row(trace.worker) < 0


def _latency(trace: Trace, unseen: NDArray[np.bool_]) -> tuple[Stage | None, Notes]:
    """Return the messages between worker and server that the log shows: to the worker, from it, or both.

    A message to the server does not count where the wait after it is `unseen`.
    """
    from scipy.stats import ks_2samp

    reads = ~trace.resumes_own & ~first_jobs(trace)  # Workers present at time 0 send no read request.
    down, up = (trace.start_time - trace.read_time)[reads], trace.arrive_time - trace.finish_time
    shows_down, shows_up = takes_time(trace, down), takes_time(trace, up)
    separate = bool((trace.pull_version != trace.version).any())
    arrives = takes_time(trace, trace.commit_time - trace.arrive_time)
    if separate and shows_down:
        return Stage(down, trace.worker[reads]), (READS_ALONE,)
    if separate or not (shows_down or (shows_up and arrives)):
        return None, ()  # A message that is logged up to the commit itself cannot be separated from queue and service.
    if not shows_down:
        return Stage(up[~unseen], trace.worker[~unseen]), ()
    if not shows_up or (not arrives and float(ks_2samp(down, up).pvalue) < EQUAL_LAWS_P_VALUE):  # type: ignore[attr-defined]
        return Stage(down, trace.worker[reads]), ()
    timed = reads & ~unseen
    # A few jobs show no clock.
    enough = np.bincount(trace.worker[timed], minlength=trace.workers) >= LEAST_CLOCKED
    both = timed & enough[trace.worker] if unseen.any() else timed
    wrong, notes = _clocks(trace, down[both[reads]], up[both], both)
    # Between two clocks of one worker a message takes its true time, and between two hosts the offset more or less.
    sent = ~np.isin(trace.worker, wrong) & ~unseen
    return Stage(np.concatenate([down, up[sent]]), np.concatenate([trace.worker[reads], trace.worker[sent]])), notes


def _service(trace: Trace, latency: Stage | None) -> tuple[Stage | None, int, Notes]:
    """Return service as far as the log shows it, and the largest number of commits in service at once."""
    if takes_time(trace, trace.commit_time - trace.serve_time):
        return Stage(trace.commit_time - trace.serve_time, trace.worker), most_in_service(trace), ()
    if takes_time(trace, trace.commit_time - trace.arrive_time):
        from_before = "The log lacks `serve_time`: service is counted from the commit before, one at a time."
        return Stage(count_one_at_a_time(trace, trace.arrive_time), trace.worker), 1, (from_before,)
    both_ways = latency is not None and len(latency.durations) > len(trace)
    if both_ways or not takes_time(trace, trace.commit_time - trace.finish_time):
        return None, 1, ()
    if latency is None:
        if not is_queue_alone(trace):
            return None, 1, ()
        of_queue = f"{FROM_FINISH}, one at a time, with which the log agrees."
        return Stage(count_one_at_a_time(trace, trace.finish_time), trace.worker), 1, (of_queue,)
    service = count_one_at_a_time(trace, trace.finish_time + float(latency.durations.mean()))
    positive = service > ROUNDING * trace.seconds
    of_mean = f"{FROM_FINISH}, less the mean latency, which is not exact."
    return Stage(service[positive], trace.worker[positive], contains=("upload",)), 1, (of_mean,)


def count_one_at_a_time(trace: Trace, arrival: FloatArray) -> FloatArray:
    """Return (commits,) seconds of service, which begins when a commit has arrived and the only slot is free."""
    return trace.commit_time - np.maximum(arrival, np.append(0.0, trace.commit_time[:-1]))


def _upload(trace: Trace, latency: Stage | None) -> tuple[Stage | None, Notes]:
    """Return the times from finish to commit, for one law without a queue, if neither messages nor service show."""
    durations = trace.commit_time - trace.finish_time
    if latency is not None or not takes_time(trace, durations):
        return None, ()
    queue = waits_for_others(trace)
    conclusion = (
        "grows with the number of commits that are on their way: there is a queue"
        if queue
        else "does not depend on the commits that are on their way, and counts as one law without a queue"
    )
    note = f"The log lacks `arrive_time` and `serve_time`: the time from finish to commit {conclusion}."
    return Stage(durations, trace.worker, contains=("upload", *("queue",) * queue, "service")), (note,)


def _clocks(trace: Trace, down: FloatArray, up: FloatArray, reads: NDArray[np.bool_]) -> tuple[NDArray[np.intp], Notes]:
    """Return the workers that stamped their reads by a clock that differs from the server's, and notes on all clocks.

    One way seems as much longer as the other seems shorter. A worker that stamps its own reads measures the way down
    by one clock, so that only the way up shows its offset.
    """
    worker, difference = trace.worker[reads], down - up
    away = np.abs(trace.read_time - previous_commit(trace))[reads] > ROUNDING * trace.seconds
    by_worker = {w: mine for w in range(trace.workers) if len(mine := difference[worker == w]) > 2}
    if not by_worker:
        return np.zeros(0, np.intp), ()
    typical = float((down + up).mean() / 2)

    def error(values: FloatArray) -> float:
        return 5 * float(values.std()) / np.sqrt(len(values)) + ROUNDING * trace.seconds

    # Both ways take the same time, unless those of most workers say otherwise.
    middle = float(np.median([mine.mean() for mine in by_worker.values()]))
    alike = np.concatenate([mine for mine in by_worker.values() if abs(mine.mean() - middle) <= error(mine)])
    common = float(alike.mean()) if abs(alike.mean()) > error(alike) else 0.0
    stamps_reads = {w: bool(away[worker == w].mean() > MAJORITY) for w in by_worker}
    divisors = {w: 1 if stamps_reads[w] else 2 for w in by_worker}
    offsets = {w: (mine.mean() - common) / divisors[w] for w, mine in by_worker.items()}
    wrong = {
        w: offset
        for w, offset in offsets.items()
        if abs(offset) > error(by_worker[w]) / divisors[w] and abs(offset) > 0.01 * typical
    }
    notes = [
        f"{_owner(trace, w)} clock is {abs(offset):.3g} s {'ahead of' if offset > 0 else 'behind'} the server's: "
        "correct its times."
        for w, offset in wrong.items()
    ]
    longer = (
        f"Messages take {abs(common):.3g} s longer {'to the worker' if common > 0 else 'to the server'} than "
        "back: latency is the mean of both; a `bandwidth` could explain the difference."
    )
    return np.array([w for w in wrong if stamps_reads[w]], np.intp), (*notes, *(longer,) * bool(common))


def _owner(trace: Trace, worker: int) -> str:
    """Return the genitive of a worker's name."""
    return f"{trace.names[worker]}'s" if trace.names else f"Worker {worker}'s"


def is_queue_alone(trace: Trace) -> bool:
    """Return whether a server with one slot, to which messages take no time, explains the times up to the commit."""
    finish, before = trace.finish_time, np.append(0.0, trace.commit_time[:-1])
    independent = _p_value(count_one_at_a_time(trace, finish), before - finish) >= DEPENDENCE_P_VALUE
    return float((np.diff(finish) < 0).mean()) <= OVERTAKEN and independent and waits_for_others(trace)


def waits_for_others(trace: Trace) -> bool:
    """Return whether the time from finish to commit is longer where more jobs are between the two."""
    finish, commit = trace.finish_time, trace.commit_time
    ahead = np.searchsorted(np.sort(finish), finish) - np.searchsorted(commit, finish, side="right")
    return _p_value(commit - finish, ahead.astype(np.float64), greater=True) < DEPENDENCE_P_VALUE


def _p_value(a: FloatArray, b: FloatArray, *, greater: bool = False) -> float:
    """Compute the p-value of independence, by ranks, or 1 where either sample does not vary."""
    from scipy.stats import spearmanr

    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 1.0
    return float(spearmanr(a, b, alternative="greater" if greater else "two-sided").pvalue)  # type: ignore[attr-defined]
