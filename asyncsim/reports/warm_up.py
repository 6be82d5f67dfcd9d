"""How long a cluster remembers that its workers started together."""

import math

from asyncsim.cluster import Cluster
from asyncsim.delays import Delay, VariableSpeed
from asyncsim.delays.per_worker import distinct


def settling_commits(cluster: Cluster) -> int:
    """Commits after which a common start is forgotten, a rule of thumb: 10 (1 + cv²) + 1/cv² rounds.

    The phase of a renewal process with a small coefficient of variation cv decays as exp(-2π² cv²) a round. A law
    with a large cv has long jobs, which take many rounds to be where they are in the long run; 100 stands for an
    infinite cv². A round is one job of the slowest worker; equal constants are in phase after two.

    Args:
        cluster: The cluster.

    Returns:
        Number of commits.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> settling_commits(Cluster(20, Exponential(1.0)))
        420
    """
    means = [law.work.mean if isinstance(law, VariableSpeed) else law.mean for law in cluster.laws]
    positive = [mean for mean in means if 0 < mean < math.inf]
    a_round = sum(max(positive) / mean for mean in positive) if positive else cluster.workers
    return math.ceil(max(map(_rounds, distinct_laws(cluster))) * a_round)


def distinct_laws(cluster: Cluster) -> list[Delay]:
    """The different laws of the workers' jobs."""
    laws = (law.work if isinstance(law, VariableSpeed) else law for law in cluster.laws)
    return [law for law, _ in distinct(laws)]


def squared_cv(law: Delay) -> float:
    """Variance over mean squared; infinite where the mean is none."""
    return law.variance / law.mean**2 if 0 < law.mean < math.inf else math.inf


def _rounds(law: Delay) -> float:
    cv2 = min(squared_cv(law), 100.0)
    return 10 * (1 + cv2) + 1 / cv2 if cv2 else 2.0
