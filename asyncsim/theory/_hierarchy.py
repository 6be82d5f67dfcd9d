"""Servers of regions under a global one: how often they push, and the share of the work that reaches it."""

from typing import Annotated

from asyncsim.components._checked import checked
from asyncsim.theory._parameters import require_count, require_scale, require_scale_or_zero

CommitsPerPush = Annotated[int, require_count, "Let a region push after one commit or more."]
CommitRate = Annotated[float, require_scale, "Give the commits of a region per second."]
RoundTrip = Annotated[float, require_scale_or_zero, "Give the seconds of a push and its answer."]


@checked
def push_rate(commits_per_push: CommitsPerPush, rate: CommitRate, round_trip: RoundTrip) -> float:
    """Compute the pushes of a region per second, 1/(K/λ + D).

    A push follows K commits after the merge of the one before, whose answer takes D. Exact for exponential compute
    times, and in the long run close for others, whose next commit after a merge comes a little sooner or later.

    Args:
        commits_per_push: Commits K of the region from a merge to the next push.
        rate: Commits λ of the region per second, of all its workers together.
        round_trip: Mean seconds D from the sending of a push to the merge of its answer.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> push_rate(8, rate=4.0, round_trip=2.0)
        0.25
    """
    return 1 / (commits_per_push / rate + round_trip)


@checked
def reported_share(commits_per_push: CommitsPerPush, rate: CommitRate, round_trip: RoundTrip) -> float:
    """Compute the share of a region's commits that its pushes report, K/(K + λ·D).

    The N = λ·D commits between a push and its merge are in no push. They survive in the region with the weight of its
    own value in the merge. Exact for exponential compute times, as `push_rate`.

    Args:
        commits_per_push, rate, round_trip: As in `push_rate`.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> reported_share(8, rate=4.0, round_trip=2.0)
        0.5
    """
    return commits_per_push / (commits_per_push + rate * round_trip)
