"""What is being learned: losses, models, and where mini-batches come from."""

from asyncsim.arguments import check_arguments
from asyncsim.workloads.alexnet import alexnet
from asyncsim.workloads.convnet import convnet
from asyncsim.workloads.job_times import job_times
from asyncsim.workloads.mlp import mlp
from asyncsim.workloads.quadratic import quadratic
from asyncsim.workloads.softmax import softmax
from asyncsim.workloads.surface import LANDSCAPES, Landscape, surface
from asyncsim.workloads.workload import Workload

# Name -> the constructor that rebuilds a workload from its options and data set.
CONSTRUCTORS = {
    "alexnet": alexnet,
    "convnet": convnet,
    "mlp": mlp,
    "quadratic": quadratic,
    "softmax": softmax,
    "surface": surface,
}

__all__ = [
    "CONSTRUCTORS",
    "LANDSCAPES",
    "Landscape",
    "Workload",
    "alexnet",
    "convnet",
    "job_times",
    "mlp",
    "quadratic",
    "softmax",
    "surface",
]

check_arguments(__name__)
