# The public names of `asyncsim.cluster.rollouts`, listed once, as in `asyncsim/__init__.pyi`.

from ._presets import areal as areal
from ._presets import blocking_queue as blocking_queue
from ._presets import nemo_rl as nemo_rl
from ._presets import openrlhf as openrlhf
from ._presets import prime_rl as prime_rl
from ._presets import queue as queue
from ._presets import roll as roll
from ._presets import skyrl as skyrl
from ._presets import slime as slime
from ._presets import tinker as tinker
from ._presets import tinker_ahead as tinker_ahead
from ._presets import torchtitan as torchtitan
from ._presets import trl as trl
from ._presets import verl as verl
