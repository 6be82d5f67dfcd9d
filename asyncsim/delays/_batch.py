"""The law of the time for one mini-batch."""

from asyncsim._checks import require_integer, require_not_negative, require_positive
from asyncsim.delays._bounded import Constant
from asyncsim.delays._gamma import Gamma
from asyncsim.delays._law import Delay, Scaled


def for_batch(batch_size: int, per_sample: float, overhead: float = 0.0, cv: float = 0.0) -> Delay:
    """Return the law of the time for one mini-batch: overhead + batch_size · per_sample on average.

    With it you can compare numbers of workers n at a fixed total batch B = n · b, because more workers have smaller
    mini-batches b and so shorter jobs, down to the overhead.

    Args:
        batch_size: Samples in a mini-batch, b.
        per_sample: Mean time for one sample, in seconds, positive.
        overhead: Constant time that every mini-batch takes in addition (a launch, a copy), in seconds.
        cv: Coefficient of variation of the time without the overhead, whatever the batch size: 0 for no spread,
            otherwise this part is gamma.

    Returns:
        A law: `Constant`, `Gamma`, or a shifted `Gamma`.

    Example:
        >>> for_batch(64, per_sample=0.25, overhead=4.0)
        Constant(value=20.0)
        >>> for_batch(64, per_sample=0.25, overhead=4.0, cv=0.5)
        Scaled(law=Gamma(mean=16.0, cv=0.5), scale=1.0, shift=4.0)
    """
    size = require_integer("batch_size", batch_size, least=1, remedy="A mini-batch has one sample or more.")
    computing = size * require_positive("per_sample", per_sample, remedy="Give the time for one sample in seconds.")
    fixed = require_not_negative("overhead", overhead, remedy="Give the time in addition to the samples in seconds.")
    if require_not_negative("cv", cv, remedy="Use 0 for delays without spread.") == 0:
        return Constant(fixed + computing)
    return Scaled(Gamma(computing, cv), 1.0, fixed) if fixed else Gamma(computing, cv)
