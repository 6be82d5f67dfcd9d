"""The gallery's pictures: `python docs/tools/thumbnails.py RUNS` makes those of the scenarios that were run.

RUNS is a folder with a folder for each scenario, as `asyncsim run scenarios/NAME.py --out RUNS/NAME` writes it. The
report's picture is drawn smaller and with few colours, since fifty of them stand on one page.
"""

import sys
from pathlib import Path

from PIL import Image

PICTURES = Path(__file__).parents[2] / "docs" / "_static" / "gallery"
WIDTH, COLOURS = 1080, 128  # pixels: a page shows two thirds of them, and all if the picture is opened


def shrink(report: Path, picture: Path) -> None:
    """Write the smaller picture of a report."""
    with Image.open(report) as original:
        size = (WIDTH, round(original.height * WIDTH / original.width))
        small = original.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    # Median cut would spend all colours on a landscape and none on the thin line through it.
    small.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(picture, optimize=True)


def main(runs: str) -> int:
    """Make the pictures, and say which scenarios have none."""
    for script in sorted((PICTURES.parents[2] / "scenarios").glob("*.py")):
        picture = PICTURES / f"{script.stem}.png"
        report = Path(runs) / script.stem / "report.png"
        if report.exists():
            shrink(report, picture)
        elif not picture.exists():
            print(f"{script.stem}: no picture, and no {report}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
