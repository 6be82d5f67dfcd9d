"""JAX replays a trace here, compiled (`replay`) or in a plain loop (`reference.replay_plainly`).

Neighbours use these private modules: `_plan` (the trace as the engine needs it), `_layout` (`Packing`, pytrees in
vectors), `_quantities` (what can be recorded), `_validation` and `_preconditions` (a user's functions tried on shapes,
and refusals), `_chunks` (`chunk_length`), `_replay` (`finish`, a replay that is prepared already) and `_run_file`
(the file of a run). `_loop`, `_events`, `_rows`, `_devices` and `_run` are used here alone.
"""

from asyncsim.engine._devices import use_all_cores
from asyncsim.engine._quantities import CommitView
from asyncsim.engine._replay import Progress, Replayer, ReplayInterrupted, replay
from asyncsim.engine._run import Run
from asyncsim.engine.time_axis import central_against_time, loss_against_time

__all__ = [
    "CommitView",
    "Progress",
    "ReplayInterrupted",
    "Replayer",
    "Run",
    "central_against_time",
    "loss_against_time",
    "replay",
    "use_all_cores",
]
