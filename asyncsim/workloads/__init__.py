"""Workloads: losses, models, and the source of their mini-batches."""

from asyncsim import _component as families
from asyncsim._arguments import check_arguments
from asyncsim.workloads._alexnet import AlexNet
from asyncsim.workloads._analytic import LANDSCAPES, Landscape, Quadratic, Surface
from asyncsim.workloads._bits import Bits
from asyncsim.workloads._classification import MLP, Softmax
from asyncsim.workloads._convnet import ConvNet
from asyncsim.workloads._job_times import job_times
from asyncsim.workloads._workload import Functions, Workload

by_name = families.finder(
    __name__, "workloads", type[Workload], '("surface")("booth")', "Surface(landscape='booth', noise=0.0)"
)

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
    "Workload",
    "by_name",
    "job_times",
]

check_arguments(__name__, [*__all__, Functions.__qualname__])
