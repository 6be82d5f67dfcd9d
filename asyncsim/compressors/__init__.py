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

`compressors.compressor` says what a compressor is, and what ω and δ mean.
"""

from asyncsim.arguments import check_arguments
from asyncsim.compressors.compressor import Compressor, Identity, bytes_of
from asyncsim.compressors.low_rank import LowRank
from asyncsim.compressors.quantised import QSGD, Natural, ScaledSign
from asyncsim.compressors.sparse import RandK, TopK

CONSTRUCTORS: dict[str, type[Compressor]] = {
    "identity": Identity,
    "low_rank": LowRank,
    "natural": Natural,
    "qsgd": QSGD,
    "rand_k": RandK,
    "scaled_sign": ScaledSign,
    "top_k": TopK,
}

__all__ = [
    "CONSTRUCTORS",
    "QSGD",
    "Compressor",
    "Identity",
    "LowRank",
    "Natural",
    "RandK",
    "ScaledSign",
    "TopK",
    "bytes_of",
]

check_arguments(__name__)
