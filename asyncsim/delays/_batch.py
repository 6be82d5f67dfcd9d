"""The law of the time for one mini-batch."""

from typing import Annotated

from asyncsim._checks import require_count, require_not_negative, require_positive
from asyncsim.components._checked import checked
from asyncsim.delays._bounded import Constant
from asyncsim.delays._gamma import Gamma
from asyncsim.delays._law import Delay, Scaled


@checked
def for_batch(
    batch_size: Annotated[int, require_count, "A mini-batch has one sample or more."],
    per_sample: Annotated[float, require_positive, "Give the time for one sample in seconds."],
    overhead: Annotated[float, require_not_negative, "Give the time in addition to the samples in seconds."] = 0.0,
    cv: Annotated[float, require_not_negative, "Use 0 for delays without spread."] = 0.0,
) -> Delay:
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
    computing = batch_size * per_sample
    if cv == 0:
        return Constant(overhead + computing)
    return Scaled(Gamma(computing, cv), 1.0, overhead) if overhead else Gamma(computing, cv)
