"""Make the README's movie: DOWNPOUR and GEM on Beale's function, each at its own best step size.

It is the moving page of the documentation (`docs/tools/moving.py`) as a GIF.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))

from tools.moving import two_rules  # pyright: ignore[reportMissingImports]  (on the path added above)

two_rules().gif(Path(__file__).with_suffix(".gif"), seconds=12.0, rate=12.0)
