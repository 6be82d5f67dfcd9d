"""Compressors of updates, for `asyncsim.rules.compressed`.

================ ================= ========== ====================== =====================================
compressor       biased            ω          δ                      bytes of a message, d float32 numbers
================ ================= ========== ====================== =====================================
`Identity`       no                0          1                      4·d
`TopK`           yes               -          k/d                    8·k: numbers and places
`RandK`          no                d/k - 1    k/d                    4·k + 8: numbers and a seed
`QSGD`           no                min(d/s²,  1/(1 + ω)              4 + d·⌈log₂(2s + 1)⌉/8
                                   √d/s)
`ScaledSign`     yes               -          1/d                    4 + d/8
`Natural`        no                1/8        8/9                    9·d/8
`LowRank`        yes               -          r/min(m, n), fresh Q   4·r·(m + n) a matrix
================ ================= ========== ====================== =====================================

`Compressor` defines ω and δ.
"""

from asyncsim._trees import bytes_of
from asyncsim.components import _families as families
from asyncsim.compressors._compressor import Compressor, Identity
from asyncsim.compressors._low_rank import LowRank
from asyncsim.compressors._vector import QSGD, Natural, RandK, ScaledSign, TopK

__all__ = ["QSGD", "Compressor", "Identity", "LowRank", "Natural", "RandK", "ScaledSign", "TopK", "by_name", "bytes_of"]


def by_name(name: str) -> type[Compressor]:
    """Return the class with this command-line name among the compressors, those of your own included.

    Args:
        name: The name, for example "top_k".

    Raises:
        ValueError: If there is none. The nearest name is suggested.

    Example:
        >>> by_name("top_k")(k=3)
        TopK(fraction=None, k=3)
    """
    return families.by_name("compressors", name)
