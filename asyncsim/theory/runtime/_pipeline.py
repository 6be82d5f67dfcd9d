"""What a synchronous pipeline loses by waiting."""

from asyncsim._checks import require_integer


def pipeline_bubble(stages: int, micro_batches: int) -> float:
    """Share of the time in which a stage of a synchronous pipeline computes nothing.

    (S - 1)/(M + S - 1), for passes that take the same time at every stage and transfers that take none: a mini-batch
    of M micro-batches is through after M + S - 1 times what one takes at a stage, forwards and backwards, of which
    every stage works M. It holds for "1f1b" and "gpipe" alike; an asynchronous pipeline that is full has no bubble.

    Args:
        stages: Number of stages S, at least 1.
        micro_batches: Micro-batches in a mini-batch M, at least 1.

    Returns:
        The share, from 0 to less than 1; one minus it is the throughput over that of a full pipeline.

    Raises:
        ValueError: If an argument is not a whole number of at least 1.

    Example:
        >>> pipeline_bubble(4, 12)
        0.2

    References:
        Huang et al. 2019, "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism".
    """
    stages = require_integer("stages", stages, least=1, remedy="Use one stage or more.")
    micro_batches = require_integer("micro_batches", micro_batches, least=1, remedy="Use one micro-batch or more.")
    return (stages - 1) / (micro_batches + stages - 1)
