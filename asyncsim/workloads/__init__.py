"""Workloads: losses, models, and the source of their mini-batches.

Neighbours use `_workload` (the base class, and functions as pytrees), `_batches` (mini-batches and random keys of a
job), `_groups` (groups of parameters), `_programs` (functions under `jax.jit` with few programs), `_classification`
(evaluation of classifiers) and `_analytic` (landscapes).
"""

from asyncsim.components import _families as families
from asyncsim.workloads._alexnet import AlexNet
from asyncsim.workloads._analytic import LANDSCAPES, Landscape, Quadratic, Surface
from asyncsim.workloads._bits import Bits
from asyncsim.workloads._classification import MLP, Softmax
from asyncsim.workloads._convnet import ConvNet
from asyncsim.workloads._job_times import job_times
from asyncsim.workloads._transformer import Transformer
from asyncsim.workloads._workload import Workload

__all__ = [
    "LANDSCAPES",
    "MLP",
    "AlexNet",
    "Bits",
    "ConvNet",
    "Landscape",
    "Quadratic",
    "Softmax",
    "Surface",
    "Transformer",
    "Workload",
    "by_name",
    "job_times",
]


def by_name(name: str) -> type[Workload]:
    """Return the class with this command-line name among the workloads, those of your own included.

    Args:
        name: The name, for example "surface".

    Raises:
        ValueError: If there is none. The nearest name is suggested.

    Example:
        >>> by_name("surface")("booth")
        Surface(landscape='booth', noise=0.0)
    """
    return families.by_name("workloads", name)
