"""The warm-up after the common start of the workers: the commits that a measurement leaves out."""

import math

from asyncsim.cluster import Cluster
from asyncsim.delays import Delay, VariableSpeed
from asyncsim.delays._per_worker import distinct

__all__ = ["distinct_laws", "squared_cv", "warm_up_commits"]

LARGEST_CV2 = 100.0  # squared coefficient of variation that stands for anything larger, infinity included


def warm_up_commits(cluster: Cluster) -> int:
    """Commits after which the common start no longer matters, by a heuristic: 10 (1 + cv²) + 1/cv² rounds.

    The phase of a renewal process with a small coefficient of variation cv decays as exp(-2π² cv²) per round. A law
    with a large cv has long jobs, and many rounds pass until these are as frequent among the jobs under way as in the
    long run. An infinite cv² counts as 100. A round is one job of the slowest worker. Equal constants are in phase
    after two rounds.
    """
    means = [law.work.mean if isinstance(law, VariableSpeed) else law.mean for law in cluster.laws]
    positive = [mean for mean in means if 0 < mean < math.inf]
    commits_per_round = sum(max(positive) / mean for mean in positive) if positive else cluster.workers
    return math.ceil(max(map(_rounds, distinct_laws(cluster))) * commits_per_round)


def distinct_laws(cluster: Cluster) -> list[Delay]:
    """The different laws of the workers' jobs, or of their work where the speed varies."""
    laws = (law.work if isinstance(law, VariableSpeed) else law for law in cluster.laws)
    return [law for law, _ in distinct(laws)]


def squared_cv(law: Delay) -> float:
    """Variance over squared mean, infinite if the mean is zero or not finite."""
    return law.variance / law.mean**2 if 0 < law.mean < math.inf else math.inf


def _rounds(law: Delay) -> float:
    cv2 = min(squared_cv(law), LARGEST_CV2)
    return 10 * (1 + cv2) + 1 / cv2 if cv2 else 2.0
