"""The JAX half: replay a trace, compiled (`replay`) or plainly (`reference.replay_plainly`)."""

from asyncsim.arguments import check_arguments
from asyncsim.engine.devices import use_all_cores
from asyncsim.engine.quantities import CommitView
from asyncsim.engine.replay import ReplayInterrupted, replay
from asyncsim.engine.replayer import Progress, Replayer
from asyncsim.engine.run import Run

__all__ = ["CommitView", "Progress", "ReplayInterrupted", "Replayer", "Run", "replay", "use_all_cores"]

check_arguments(__name__, ["replay"], acts=True)
