# The public names of `asyncsim.theory.rollouts`, listed once, as in `asyncsim/__init__.pyi`.

from ._admission import Split as Split
from ._admission import ThroughputBounds as ThroughputBounds
from ._admission import best_split as best_split
from ._admission import conserved_staleness as conserved_staleness
from ._admission import in_order_period as in_order_period
from ._admission import in_order_steps as in_order_steps
from ._admission import largest_staleness as largest_staleness
from ._admission import longest_over_mean as longest_over_mean
from ._admission import paused_period as paused_period
from ._admission import split_period as split_period
from ._admission import staleness_bound as staleness_bound
from ._admission import synchronous_period as synchronous_period
from ._admission import throughput_bounds as throughput_bounds
from ._admission import token_lag as token_lag
from ._admission import versions_per_sample as versions_per_sample
from ._queue import AgeCutoff as AgeCutoff
from ._queue import BoundedQueue as BoundedQueue
from ._queue import Fluid as Fluid
from ._queue import UnboundedQueue as UnboundedQueue
from ._queue import age_cutoff as age_cutoff
from ._queue import bounded_queue as bounded_queue
from ._queue import fluid as fluid
from ._queue import unbounded_queue as unbounded_queue
