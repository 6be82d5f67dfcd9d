"""Plant a wrong line, run the tests of its room, say which test notices: `python -m tests.mutants [WORD …]`.

Each mutant is one plausible mistake. The tree is copied, the line is changed in the copy, and the tests named beside it
run there until the first one fails. A mutant that no test notices is a hole in the tests, and the status is 1. Words
select the mutants whose title holds one of them; `--jobs 2` runs two at a time.
"""

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
COPIED = ("asyncsim", "figures", "scenarios", "tests", "pyproject.toml", "README.md")
SECONDS = 600  # after which tests that hang have noticed, too


class Mutant(NamedTuple):
    """One wrong line.

    Attributes:
        title: What is wrong.
        room: Folder or file in which `right` occurs exactly once.
        right, wrong: A piece of a line as it is, and as it is planted.
        tests: Where it should be noticed, as arguments of pytest.
    """

    title: str
    room: str
    right: str
    wrong: str
    tests: str


MUTANTS = (
    # What a run costs.
    Mutant(
        "a worker downloads the initial parameters",
        "asyncsim/costs/_usage.py",
        "_by(reads, at) - _by(firsts, at)",
        "_by(reads, at)",
        "tests/costs -k 'every_byte'",
    ),
    Mutant(
        "spot instances are paid while they are down",
        "asyncsim/costs/_rates.py",
        "duration - down if self.spot",
        "duration + 0 * down if self.spot",
        "tests/costs -k 'overlapping'",
    ),
    Mutant(
        "computing draws its power on top of the idle one",
        "asyncsim/costs/_rates.py",
        "(self.busy - self.idle) * busy_seconds",
        "self.busy * busy_seconds",
        "tests/costs -k 'every_byte'",
    ),
    Mutant(
        "a worker that is down counts as waiting as well",
        "asyncsim/costs/_usage.py",
        "free = gaps(joined(in_jobs, away)",
        "free = gaps(joined(in_jobs)",
        "tests/costs -k 'overlapping or lost'",
    ),
    Mutant(
        "K-sync workers that are done go on computing",
        "asyncsim/theory/_cost.py",
        "computing = used + (step.workers - step.k) * last",
        "computing = step.workers * last",
        "tests/theory/test_cost.py -k 'rounds'",
    ),
    Mutant(
        "a preempted job counts as useful",
        "asyncsim/theory/_cost.py",
        "rate * weighted / (1 - survives)",
        "rate * survives / (1 - survives)",
        "tests/theory/test_cost.py -k 'drawing'",
    ),
    # Workers that differ.
    Mutant(
        "a worker takes a neighbour's examples",
        "asyncsim/workloads/_batches.py",
        "permutation(self.parts[worker])",
        "permutation(self.parts[worker - 1])",
        "tests/workloads/test_parts.py -k 'epoch or examples_of'",
    ),
    Mutant(
        "an epoch as long as the first worker's",
        "asyncsim/workloads/_batches.py",
        "self.per_epoch[worker])\n        streams",
        "self.per_epoch[0])\n        streams",
        "tests/workloads/test_parts.py -k 'epoch or depend'",
    ),
    Mutant(
        "weights that multiply the loss of another worker's gradient",
        "asyncsim/workloads/_by_worker.py",
        "weights * len(weights)",
        "weights",
        "tests/workloads/test_parts.py -k weights",
    ),
    Mutant(
        "local steps that all belong to worker 0",
        "asyncsim/engine/_loop.py",
        "return batch, jnp.broadcast_to(at(self.chunk.worker, k), self.keys.shape[1:])",
        "return batch, jnp.broadcast_to(at(self.chunk.worker, 0 * k), self.keys.shape[1:])",
        "tests/engine/test_by_worker.py -k plain_loop",
    ),
    Mutant(
        "a step of Malenia without the slowest",
        "asyncsim/cluster/_coordinator.py",
        "if len(self._of_worker) < n:",
        "if len(self._of_worker) < n - 1:",
        "tests/cluster/test_every_cluster.py -k invariants",
    ),
    Mutant(
        "Malenia's mean is over gradients and not over workers",
        "asyncsim/rules/_gradient_tables.py",
        'inverse = jnp.where(some, 1 / jnp.where(some, message["joined"], 1), 0)',
        "inverse = jnp.where(some, 1.0, 0)",
        "tests/rules/test_time_optimal.py -k malenia",
    ),
    Mutant(
        "fast workers count as slow ones do",
        "asyncsim/theory/_heterogeneous.py",
        "rates = 1 / np.array([law.mean",
        "rates = 0 + np.array([law.mean",
        "tests/theory/test_heterogeneous.py -k 'hand or rest'",
    ),
    # Behaviour parameters.
    Mutant(
        "a gradient at what drew its data",
        "asyncsim/engine/_loop.py",
        "row[..., size : 2 * size]",
        "row[..., :size]",
        "tests/engine/test_behaviour.py -k 'plain_loop and everything'",
    ),
    Mutant(
        "a gradient at the newest parameters, taken too early",
        "asyncsim/engine/_plan.py",
        "read_row = np.maximum(read_row, pull_row)",
        "read_row = np.maximum(read_row, -1)",
        "tests/engine/test_behaviour.py -k 'rollouts or together'",
    ),
    Mutant(
        "weights of whole sequences for single bits",
        "asyncsim/workloads/_bits.py",
        "advantages * jnp.exp(after - before).sum(-1)",
        "advantages * jnp.exp((after - before).sum(-1))",
        "tests/workloads/test_bits.py -k token",
    ),
    Mutant(
        "prompts of another group of the ticket",
        "asyncsim/cluster/rollouts/_running.py",
        "for first in count(0, BLOCK):",
        "for first in count(1, BLOCK):",
        "tests/workloads/test_bits.py -k contexts",
    ),
    # Parameter groups that are read at versions of their own, and pipelines.
    Mutant(
        "a worker that begins goes on from where it never was",
        "asyncsim/engine/_commit.py",
        "tree_where(when.begins, as_seen(rule, layout.params, central), resumed)",
        "tree_where(when.begins, resumed, resumed)",
        "tests/engine/test_groups.py -k 'plain_loop or everything'",
    ),
    Mutant(
        "a group that reads overwrites what a rule knows of the last read",
        "asyncsim/engine/_commit.py",
        "last if jax.tree.leaves(last) else read",
        "read",
        "tests/engine/test_groups.py -k everything",
    ),
    Mutant(
        "another group's tensors",
        "asyncsim/engine/_layout.py",
        "zip(layout.groups, leaves, strict=True) if own == group",
        "zip(layout.groups, leaves, strict=True) if own != group",
        "tests/engine/test_groups.py -k everything",
    ),
    Mutant(
        "a group's staleness is that of the commit to come",
        "asyncsim/engine/_plan.py",
        "begins[jobs], trace.group_staleness[last]",
        "begins[jobs], trace.group_staleness[jobs]",
        "tests/engine/test_groups.py tests/rules/test_prediction.py",
    ),
    Mutant(
        "a stage does not see the update that ends as it reads",
        "asyncsim/cluster/_pipeline.py",
        'np.searchsorted(ends, starts, side="right") for ends',
        'np.searchsorted(ends, starts, side="left") for ends',
        "tests/cluster/test_pipeline.py",
    ),
    Mutant(
        "one forward pass too many before the first backward pass",
        "asyncsim/cluster/_pipeline.py",
        "behind = pipeline.stages - 1 - stage",
        "behind = pipeline.stages - stage",
        "tests/cluster/test_pipeline.py",
    ),
    Mutant(
        "rollouts admit a step less than the lead",
        "asyncsim/cluster/rollouts/_running.py",
        "(lead + 1) * every",
        "lead * every",
        "tests/cluster/rollouts",
    ),
    Mutant(
        "a synchronisation does not wait for the slots",
        "asyncsim/cluster/rollouts/_running.py",
        "elif self.drains and self.generating:",
        "elif self.drains and self.generating > 99:",
        "tests/cluster/rollouts",
    ),
    Mutant(
        "a sample ends before a step of that time",
        "asyncsim/cluster/rollouts/_running.py",
        "env.schedule(self, URGENT, delay)",
        "env.schedule(self, 1, delay)",
        "tests/cluster/rollouts",
    ),
    Mutant(
        "a window counts groups that have not moved",
        "asyncsim/cluster/rollouts/_orders.py",
        ">= self._oldest + self._window:",
        ">= self._oldest + self._window + len(self._moved):",
        "tests/cluster/rollouts",
    ),
    Mutant(
        "pauses count as generation",
        "asyncsim/cluster/rollouts/_ledger.py",
        "    return times - pauses[",
        "    return times - 0 * pauses[",
        "tests/cluster/rollouts",
    ),
    # What an update rule sends and applies.
    Mutant(
        "the proxy's sign",
        "asyncsim/rules/_momentum.py",
        "lambda m, d: momentum * m + d, moment, update)",
        "lambda m, d: momentum * m - d, moment, update)",
        "tests/rules/test_conformance.py -k 'momentum_sgd or gem_signed'",
    ),
    Mutant(
        "π's clamp is dropped",
        "asyncsim/energy.py",
        "jnp.clip((kappa * jnp.abs(m) - jnp.abs(s)) / jnp.abs(d + EPSILON_SCRIPT), *CLAMP_SCRIPT)",
        "((kappa * jnp.abs(m) - jnp.abs(s)) / jnp.abs(d + EPSILON_SCRIPT))",
        "tests/test_energy.py",
    ),
    Mutant(
        "κ amplifies nothing",
        "asyncsim/rules/_gem.py",
        "lambda m: self.kappa * m",
        "lambda m: m",
        "tests/rules/test_gem.py tests/rules/test_identities.py",
    ),
    Mutant(
        "gradient ascent",
        "asyncsim/rules/_asynchronous.py",
        "lambda g: -learning_rate * g",
        "lambda g: learning_rate * g",
        "tests/rules/test_conformance.py -k downpour",
    ),
    Mutant(
        "an update divided by τ + 2",
        "asyncsim/rules/_asynchronous.py",
        "u / (view.staleness + 1)",
        "u / (view.staleness + 2)",
        "asyncsim/rules/_asynchronous.py tests/rules/test_staleness.py",
    ),
    Mutant(
        "a window's sum where its mean belongs",
        "asyncsim/rules/_windows.py",
        "lambda d: d / self.window, gradient",
        "lambda d: d, gradient",
        "tests/rules/test_windows.py",
    ),
    Mutant(
        "delay compensation of the wrong sign",
        "asyncsim/rules/_compensation.py",
        "g + k * g * g * (t - s)",
        "g - k * g * g * (t - s)",
        "tests/rules/test_compensation.py",
    ),
    Mutant(
        "a buffered update not damped by its age",
        "asyncsim/rules/_federated.py",
        "jnp.asarray(view.staleness + 1, d.dtype) ** -self.exponent * d",
        "d",
        "tests/rules/test_federated.py",
    ),
    Mutant(
        "GEM counts its shift from the gradient's point",
        "asyncsim/rules/_gem.py",
        'since = state.pulled if self.variant == "script" else view.read',
        "since = view.read",
        "tests/rules/test_gem.py tests/rules/test_identities.py",
    ),
    # The compiled replay.
    Mutant(
        "the row of another worker",
        "asyncsim/engine/_loop.py",
        "lambda: (at(rows, worker), worker)",
        "lambda: (at(rows, (worker + 1) % rows.shape[0]), worker)",
        "tests/engine/test_against_reference.py",
    ),
    Mutant(
        "a worker's new row is not put back",
        "asyncsim/engine/_loop.py",
        "start = (place, jnp.int32(0), jnp.int32(offset))",
        "start = (place * 0, jnp.int32(0), jnp.int32(offset))",
        "tests/engine/test_against_reference.py",
    ),
    Mutant(
        "a step's sum where its mean belongs",
        "asyncsim/engine/_commit.py",
        "leaf / schedule.collected.astype(leaf.dtype)",
        "leaf",
        "tests/engine/test_against_reference.py -k buffered",
    ),
    Mutant(
        "a worker that waits reads at once",
        "asyncsim/engine/_commit.py",
        "resumed = tree_where(schedule.prompt, resumed, read)",
        "resumed = resumed",
        "tests/engine/test_against_reference.py tests/rules/test_identities.py tests/engine/test_local_steps.py",
    ),
    Mutant(
        "every pull is late",
        "asyncsim/engine/_commit.py",
        "pulled = tree_where(schedule.late_pull, before, pulled) if PULL in traits else before",
        "pulled = before",
        "tests/engine/test_against_reference.py",
    ),
    Mutant(
        "a compiled loss never uses its key",
        "asyncsim/engine/_validation.py",
        "inner is None or uses(",
        "inner is not None and uses(",
        "tests/engine/test_validation.py -k keys",
    ),
    Mutant(
        "a local step has the key of the one before",
        "asyncsim/engine/_loop.py",
        "jnp.arange(window, dtype=jnp.int32)[None]",
        "jnp.arange(window, dtype=jnp.int32)[None] - 1",
        "tests/engine/test_local_steps.py",
    ),
    Mutant(
        "a record of now and then is overwritten",
        "asyncsim/engine/_chunks.py",
        "1 << (-(-length // every)).bit_length()",
        "1 << (-(-length // every) - 1).bit_length()",
        "tests/engine/test_quantities.py -k pieces",
    ),
    Mutant(
        "the recorded gradient is the central variable",
        "asyncsim/engine/_commit.py",
        "CommitView(theta, view, info, loss, computed)",
        "CommitView(theta, view, info, loss, theta)",
        "tests/engine/test_quantities.py -k plain_loop",
    ),
    Mutant(
        "a record holds only after its commit",
        "asyncsim/engine/time_axis.py",
        'side="right"',
        'side="left"',
        "tests/engine/test_time_axis.py",
    ),
    Mutant(
        "every seed has the largest R",
        "asyncsim/rules/_time_optimal.py",
        "view.server[jnp.asarray(self.limit, jnp.int32) - 1]",
        "view.server[-1]",
        "tests/rules/test_time_optimal.py -k sweep",
    ),
    Mutant(
        "every epoch in one order",
        "asyncsim/workloads/_batches.py",
        "np.random.default_rng(stream).permutation(self.examples)",
        "np.random.default_rng(stream[:2]).permutation(self.examples)",
        "tests/workloads tests/engine asyncsim/workloads/_batches.py",
    ),
    Mutant(
        "every epoch of a worker's own data in one order",
        "asyncsim/workloads/_batches.py",
        "np.random.default_rng(stream).permutation(self.parts[worker])",
        "np.random.default_rng(stream[:2]).permutation(self.parts[worker])",
        "tests/workloads asyncsim/workloads/_batches.py",
    ),
    Mutant(
        "one key for all of a worker's jobs",
        "asyncsim/workloads/_batches.py",
        "return jax.random.fold_in(worker_key, job)",
        "return jax.random.fold_in(worker_key, 0)",
        "tests/workloads tests/engine/test_local_steps.py tests/rules/test_identities.py tests/engine",
    ),
    Mutant(
        "divergence is found one commit late",
        "asyncsim/engine/_replay.py",
        "start + int(finite[:, place].argmin())",
        "start + int(finite[:, place].argmin()) + 1",
        "tests/engine/test_divergence.py",
    ),
    Mutant(
        "one commit more in the final loss",
        "asyncsim/engine/_run.py",
        "later < counted]",
        "later <= counted]",
        "asyncsim/engine/_run.py tests/study",
    ),
    Mutant(
        "the median's neighbour",
        "asyncsim/_trees.py",
        "below = (codes.size - 1) // 2",
        "below = codes.size // 2",
        "tests/test_median.py",
    ),
    # The cluster.
    Mutant(
        "long compute times are cut off",
        "asyncsim/cluster/_fast_path.py",
        "heapreplace(heap, (now + next_delay(worker), order, worker))",
        "heapreplace(heap, (now + min(next_delay(worker), 1.9), order, worker))",
        "tests/cluster/test_simulate.py",
    ),
    Mutant(
        "last-in first-out at the server",
        "asyncsim/cluster/_no_network.py",
        "worker = self._queue.popleft()",
        "worker = self._queue.pop()",
        "tests/cluster/test_queue.py tests/cluster/test_simulate.py",
    ),
    Mutant(
        "last-in first-out at the server of the full simulation",
        "asyncsim/cluster/_worker.py",
        "with self.slots.request() as turn:",
        "self.slots.queue.reverse()\n        with self.slots.request() as turn:",
        "tests/cluster/test_every_cluster.py",
    ),
    Mutant(
        "a step one gradient too late",
        "asyncsim/cluster/_coordinator.py",
        "self._collected >= self._collect",
        "self._collected > self._collect",
        "tests/cluster/test_protocol_theory.py",
    ),
    Mutant(
        "Ringmaster drops one version later",
        "asyncsim/cluster/_coordinator.py",
        "self.version - job.read_version >= limit",
        "self.version - job.read_version > limit",
        "tests/cluster/test_protocol_theory.py tests/rules/test_time_optimal.py",
    ),
    Mutant(
        "SSP's slack is one more",
        "asyncsim/cluster/protocols.py",
        "return Terms(slack=self.slack)",
        "return Terms(slack=self.slack + 1)",
        "tests/cluster/test_protocol_theory.py",
    ),
    Mutant(
        "turns go backwards",
        "asyncsim/cluster/_coordinator.py",
        "(self._turn + places) % workers",
        "(self._turn - places) % workers",
        "tests/cluster/test_protocol_theory.py tests/cluster/test_simulate.py",
    ),
    Mutant(
        "backup workers are waited for",
        "asyncsim/cluster/protocols.py",
        "collect=workers - self.backup",
        "collect=workers",
        "tests/cluster/test_protocol_theory.py",
    ),
    Mutant(
        "updates are sent uncompressed",
        "asyncsim/cluster/_model.py",
        "(self.message_bytes or 0.0) * self.compression / (",
        "(self.message_bytes or 0.0) / (",
        "tests/cluster",
    ),
    Mutant(
        "messages are lost when they should arrive",
        "asyncsim/cluster/_worker.py",
        "next(chances) < loss.probability",
        "next(chances) > loss.probability",
        "tests/cluster/test_faults.py",
    ),
    Mutant(
        "a crash costs no state",
        "asyncsim/cluster/_worker.py",
        "self._state_lost |= not keeps_state",
        "self._state_lost |= False",
        "tests/cluster/test_faults.py",
    ),
    Mutant(
        "a pause that never ends in time",
        "asyncsim/cluster/_worker.py",
        "+ pause.seconds - now",
        "+ 2 * pause.seconds - now",
        "tests/cluster/test_faults.py asyncsim/cluster/_worker.py",
    ),
    Mutant(
        "a law's variance",
        "asyncsim/delays/_law.py",
        "return (self.mean * self.cv) * (self.mean * self.cv)",
        "return self.mean * self.cv * self.cv",
        "tests/delays/test_every_law.py tests/delays/test_law_formulas.py",
    ),
    Mutant(
        "half of the stragglers",
        "asyncsim/delays/_mixture.py",
        "return (1 - self.probability, self.law), (self.probability, scaled(self.law, self.factor))",
        "return (1 - self.probability / 2, self.law), (self.probability / 2, scaled(self.law, self.factor))",
        "tests/delays",
    ),
    # The trace.
    Mutant(
        "staleness off by one",
        "asyncsim/trace",
        "return self.version - self.read_version",
        "return self.version - self.read_version + 1",
        "tests/trace/test_trace.py tests/cluster/test_simulate.py",
    ),
    Mutant(
        "a read before its time passes the check",
        "asyncsim/trace/_invariants.py",
        "return (time < seen_last[version]) | (time > unseen_first[version])",
        "return time < seen_last[version]",
        "tests/trace/test_trace.py",
    ),
    Mutant(
        "a log's worker reads before its own commit",
        "asyncsim/trace/_infer_columns.py",
        "read[own] = closed[jobs.previous[own]]",
        "read[own] = closed[jobs.previous[own]] - 1",
        "tests/trace/test_csv.py tests/trace",
    ),
    Mutant(
        "Chrome's times in microseconds",
        "asyncsim/trace",
        "np.round(np.minimum(times, end) * 1e9)",
        "np.round(np.minimum(times, end) * 1e6)",
        "tests/trace/test_chrome.py",
    ),
    Mutant(
        "a worker goes on from a value that it cannot know",
        "asyncsim/engine/_commit.py",
        "rule.apply(pulled, server, sent, view)",
        "rule.apply(before, server, sent, view)",
        "tests/engine/test_against_reference.py -k own",
    ),
    Mutant(
        "a gap that a worker does not notice",
        "asyncsim/cluster/_coordinator.py",
        "version = last.pull_version + last.closes_step",
        "version = last.version + last.closes_step",
        "tests/cluster/test_own_value.py",
    ),
    Mutant(
        "the limit without the own message",
        "asyncsim/theory/_constant_delay.py",
        "* z ** (workers + gap) / ((z - 1) * z**gap + 1)",
        "* z ** (workers + gap - 1)",
        "tests/theory/test_constant_delay.py",
    ),
    # Theory.
    Mutant(
        "a mean staleness of n",
        "asyncsim/theory",
        "return float(workers - 1)",
        "return float(workers)",
        "tests/theory",
    ),
    Mutant(
        "the limit of a delay one shorter",
        "asyncsim/theory/_constant_delay.py",
        "2 * math.sin(math.pi / (2 * (2 * delay + 1)))",
        "2 * math.sin(math.pi / (2 * (2 * delay - 1)))",
        "tests/theory/test_constant_delay.py",
    ),
    Mutant(
        "a queue shorter by one",
        "asyncsim/theory/_queue.py",
        "return _repairman(workers, compute_rate, service_rate).queue_length",
        "return _repairman(workers, compute_rate, service_rate).queue_length - 1",
        "tests/theory/test_queueing.py tests/cluster/test_queue.py",
    ),
    # Studies.
    Mutant(
        "another scenario's folder is taken",
        "asyncsim/store/_entry.py",
        "if (folder._read_label() or {}).get(labels.DIGEST) == study.digest:",
        "if folder._read_label() is not None:",
        "tests/study/test_run.py",
    ),
    Mutant(
        "loss against time, an interval later",
        "asyncsim/engine/time_axis.py",
        'side="left") - 1',
        'side="left")',
        "asyncsim/engine/time_axis.py tests/engine/test_time_axis.py",
    ),
    Mutant(
        "a newer file is read",
        "asyncsim/store/_files.py",
        "if found != known:",
        "if found < known:",
        "tests/trace/test_trace.py tests/engine/test_run_file.py",
    ),
    Mutant(
        "a claim that always holds",
        "figures/figure8.py",
        "bool((losses[:, 1] < losses[:, 0]).all())",
        "True",
        "tests/figures",
    ),
    Mutant(
        "a checksum that is not compared",
        "asyncsim/store/_files.py",
        ' or about.get(CHECKSUM) != digest(about[OWNER], "\\n", _compact(content))',
        "",
        "tests/store/test_files.py",
    ),
    Mutant(
        "another owner's file is believed",
        "asyncsim/store/_files.py",
        "if owner not in (None, about[OWNER]) or",
        "if",
        "tests/store/test_files.py",
    ),
    Mutant(
        "an emptied run counts as done",
        "asyncsim/store/_npz.py",
        "return len(end) == _END.size and end.startswith(_END_SIGNATURE)",
        "return True",
        "tests/cli/sweep/test_damaged.py",
    ),
    Mutant(
        "a process is alive whose number is",
        "asyncsim/store/_lease.py",
        'return _start_of(process) == holder.get("started")',
        "return True",
        "tests/store/test_listing.py",
    ),
    Mutant(
        "a script is run before its hash is compared",
        "asyncsim/study/_load.py",
        'doubt = "it has changed since" if changed else',
        "doubt =",
        "tests/study/test_load.py",
    ),
    # Runs that are found again.
    Mutant(
        "an existing tag is taken from its place",
        "asyncsim/store/tags.py",
        "if name in tags and not move:",
        "if name in tags and False:",
        "tests/store/test_tags.py",
    ),
    Mutant(
        "tags are changed by two processes at once",
        "asyncsim/store/tags.py",
        """            if not mine:
                raise ValueError(f"{str(place)!r} has been locked by another process for {PATIENCE:g} s. Try again.")
            tags = _read(place)""",
        """            tags = _read(place)""",
        "tests/store/test_tags.py",
    ),
    Mutant(
        "where a study came from enters the comparison of labels",
        "asyncsim/store/_labels.py",
        "if key not in (DIGEST, ORIGIN)}",
        "if key != DIGEST}",
        "tests/study/test_load.py",
    ),
    Mutant(
        "a digest that does not fit the description is believed",
        "asyncsim/scenario/_rebuild.py",
        "if different is None and wanted in (None, made.digest):",
        "if different is None:",
        "tests/study/test_load.py tests/scenario/test_rebuild.py",
    ),
    Mutant(
        "a recorded trace is kept in the steps of the rule",
        "asyncsim/scenario/_scenario.py",
        """        if self.trace is not None:
            return self.trace
""",
        """        if self.trace is not None:
            return self.in_steps(self.trace)
""",
        "tests/scenario/test_recorded.py",
    ),
    Mutant(
        "floats in the names of folders lose digits",
        "asyncsim/store/_places.py",
        'return repr(value).removesuffix(".0")',
        'return f"{value:g}"',
        "tests/store/test_names.py",
    ),
)


def place_of(mutant: Mutant, root: Path) -> Path:
    """The file in which the line stands.

    Raises:
        LookupError: If it does not stand in exactly one place, so that the mutant has to be brought up to date.
    """
    room = root / mutant.room
    files = [room] if room.is_file() else sorted(room.rglob("*.py"))
    counts = {file: file.read_text(encoding="utf-8").count(mutant.right) for file in files}
    if sum(counts.values()) != 1:
        raise LookupError(f"{mutant.title}: `{mutant.right}` stands {sum(counts.values())} times in {mutant.room}")
    return next(file for file, count in counts.items() if count)


def noticed_by(mutant: Mutant) -> str | None:
    """The test that fails first once the line is wrong; None if all pass."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in COPIED:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, root / name)
        file = place_of(mutant, root)
        file.write_text(file.read_text(encoding="utf-8").replace(mutant.right, mutant.wrong), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", "--tb=no"]
        try:
            done = subprocess.run(
                [*command, *shlex.split(mutant.tests)],
                cwd=root,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"nothing answered within {SECONDS} s"
    if done.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
    if done.returncode != 1 or found is None:
        raise RuntimeError(f"{mutant.title}: pytest left with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return found[1]


def main() -> int:
    """Plant the mutants and print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", help="only mutants whose title holds one of these words")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    given = parser.parse_args()
    chosen = [m for m in MUTANTS if not given.words or any(word in m.title for word in given.words)]
    for mutant in chosen:
        place_of(mutant, ROOT)
    with ThreadPoolExecutor(given.jobs) as pool:
        missed = 0
        for mutant, test in zip(chosen, pool.map(noticed_by, chosen), strict=True):
            missed += test is None
            print(f"{mutant.title:<55}{test or 'NOT NOTICED'}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} noticed")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
