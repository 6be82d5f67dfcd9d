"""The paper's figures, and four that it implies: one module each, drawn by `asyncsim figures`.

A figure is a module with `TITLE`, `SIZE` and four functions; `figures/common/figure.py` says what they are. To add
one, copy the nearest and name it here.
"""

NAMES = (
    "figure1",
    "figure2",
    "figure3",
    "figure4",
    "figure5",
    "figure6",
    "figure7",
    "figure8",
    "figure9",
    "figure10",
    "energy",
    "stability",
    "staleness",
    "assumptions",
)
