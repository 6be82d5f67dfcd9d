"""The cost of a run: bytes, idle time, energy and money, computed from its trace (NumPy, no new simulation).

Neighbours use `_result` (power, prices and the cost of a run) and `_usage` (the time of each worker, and sizes of
messages).
"""

from asyncsim.costs._account import cost, cost_over_time
from asyncsim.costs._result import Cost, Power, Price
from asyncsim.costs._usage import sizes

__all__ = ["Cost", "Power", "Price", "cost", "cost_over_time", "sizes"]
